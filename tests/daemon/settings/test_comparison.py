"""The file against what runs, and against another file."""

from __future__ import annotations

from isotone.core.contract import Address
from isotone.daemon.settings import DaemonSettings, read
from isotone.daemon.settings.comparison import LIVE, differences, mismatch, taken_over
from isotone.evs.membership import KnownDaemon

TWO = """
[[daemon]]
name = "d1"
[[daemon]]
name = "d2"
port = 5000
admin_port = 5001
"""


def settings(text: str = "") -> DaemonSettings:
    return read(TWO + text).settings


def member(name: str, address: str, site: str = "lan") -> KnownDaemon:
    return KnownDaemon(name, site, Address(address))


def test_what_agrees_is_not_told() -> None:
    assert mismatch(settings(), [member("d1", "127.0.0.1:4803"), member("d2", "127.0.0.1:5000")]) == []


def test_every_difference_is_one_line() -> None:
    running = [member("d9", "10.0.0.9:4803"), member("d1", "127.0.0.1:4804", "north"), member("d3", "10.0.0.3:1")]
    assert mismatch(settings(), running) == [
        "d1 is in site north, the settings say lan",
        "d1 is at 127.0.0.1:4804, the settings say 127.0.0.1:4803",
        "d2 is in the settings and not in the daemon view",
        "d3 (site lan, 10.0.0.3:1) is in the daemon view and not in the settings: add a [[daemon]]",
        "d9 (site lan, 10.0.0.9:4803) is in the daemon view and not in the settings: add a [[daemon]]",
    ]


def test_the_address_of_a_host_name_is_not_compared() -> None:
    named = read('[[daemon]]\nname = "d1"\naddress = "localhost"\n').settings
    assert mismatch(named, [member("d1", "127.0.0.1:4803")]) == []


def test_a_changed_key_says_whether_it_needs_a_restart() -> None:
    new = settings('[trace]\nlevel = "full"\nrotate_bytes = 1000000\n[cluster]\nseeds = ["10.0.0.1:1"]\n')
    assert [str(each) for each in differences(settings(), new, "d1")] == [
        "cluster.seeds: [] becomes [10.0.0.1:1]",
        "trace.level: buffered becomes full",
        "trace.rotate_bytes: 67108864 becomes 1000000 (needs a restart)",
    ]


def test_other_daemons_change_at_run_time_and_ones_own_place_does_not() -> None:
    old, new = settings(), read(TWO.replace("5000", "5005").replace('"d1"', '"d1"\nport = 7')).settings
    found = {each.key: each.needs_restart for each in differences(old, new, "d1")}
    assert found == {"daemon d1: port": True, "daemon d2": False}
    (gone,) = differences(old, read('[[daemon]]\nname = "d1"\n').settings, "d1")
    assert (gone.key, gone.after, gone.needs_restart) == ("daemon d2", None, False)
    assert "becomes nothing" in str(gone)


def test_a_new_link_needs_a_restart() -> None:
    text = TWO.replace('"d1"', '"d1"\nsite = "a"').replace('"d2"', '"d2"\nsite = "b"')
    old, new = read(text).settings, read(text + '[[link]]\nbetween = ["a", "b"]\n').settings
    assert [(each.key, each.needs_restart) for each in differences(old, new, "d1")] == [("link", True)]


def test_the_same_is_no_difference() -> None:
    assert differences(settings(), settings(), "d1") == []


def test_only_what_needs_no_restart_is_taken_over() -> None:
    changed = TWO.replace("5000", "5005").replace('"d1"', '"d1"\nport = 7') + '[[daemon]]\nname = "d3"\nport = 9\n'
    more = '[trace]\nlevel = "full"\ndirectory = "/else"\n[spread]\noversize = "disconnect"\n[cluster]\nname = "x"\n'
    old, new = settings(), read(changed + "admin_port = 10\n" + more).settings
    running = taken_over(old, new, "d1")
    assert {each.key for each in differences(old, running, "d1")} == {"daemon d2", "daemon d3", "trace.level"}
    left = differences(running, new, "d1")
    assert [each.key for each in left] == ["cluster.name", "daemon d1: port", "trace.directory", "spread.oversize"]
    assert all(each.needs_restart for each in left)


def test_every_live_key_is_there() -> None:
    for key in LIVE:
        value: object = DaemonSettings()
        for part in key.split("."):
            value = getattr(value, part)
