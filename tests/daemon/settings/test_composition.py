"""What node, gateway and Guard make of the settings."""

from __future__ import annotations

from pathlib import Path

import msgspec

from isotone.daemon.security.keys import pair_of
from isotone.daemon.settings import DaemonSettings, read
from isotone.daemon.settings.composition import (
    EVERYBODY,
    UNLIMITED,
    access_list,
    gateway_settings,
    node_settings,
    roster_of,
)
from isotone.daemon.spread.settings import GatewaySettings, Oversize
from isotone.evs.sessions.settings import SlowPolicy
from isotone.trace.writer import Level

ONE = '[[daemon]]\nname = "d1"\n'


def one(text: str = "") -> DaemonSettings:
    return read(ONE + text).settings


def test_a_node_has_what_the_file_says() -> None:
    node = node_settings(
        one('unix_socket = "/run/x"\n[trace]\nlevel = "full"\njournal = true\nretain_bytes = 0\n'), "d1"
    )
    assert (node.name, node.site, node.host, node.port, node.announced) == ("d1", "lan", "127.0.0.1", 4803, None)
    assert [listener.address for listener in node.listeners] == ["unix:/run/x"]
    assert node.state_directory == Path("/var/lib/isotone/d1") and node.journal == Path("/var/lib/isotone/d1/journal")
    assert (node.trace.level, node.trace.bytes_max, node.trace.run) == (Level.FULL, UNLIMITED, "isotone")
    assert node.trace.age_max_s == 7 * 24 * 3600 and node.stop_within_s == 5.0 and not node.faults


def test_a_daemon_that_listens_everywhere_tells_its_address() -> None:
    text = (
        '[[site]]\nname = "a"\nmulticast = "239.0.0.1:4803"\n'
        '[[daemon]]\nname = "d1"\naddress = "10.0.0.1"\nlisten = "0.0.0.0"\n[security]\nmode = "open"\n'
    )
    node = node_settings(read(text).settings, "d1")
    assert (node.host, node.announced, node.interface) == ("0.0.0.0", "10.0.0.1:4803", "10.0.0.1")
    assert node.multicast == "239.0.0.1:4803"


def test_clients_with_tls_and_clients_of_spread_have_their_listeners() -> None:
    text = 'client_port = 5000\n[security]\ntls_certificate_file = "c"\ntls_key_file = "k"\n[spread]\nenabled = true\n'
    node = node_settings(one(text), "d1")
    assert [(each.address, each.tls, each.spread) for each in node.listeners] == [
        ("127.0.0.1:5000", True, False),
        ("127.0.0.1:4813", False, True),
    ]
    assert not node.spread_shares_port
    assert node_settings(one("[spread]\nenabled = true\nshare_port = true\n"), "d1").spread_shares_port


def test_the_defaults_of_the_gateway_are_its_own() -> None:
    ours, own = msgspec.structs.asdict(gateway_settings(one())), msgspec.structs.asdict(GatewaySettings())
    assert {key for key in ours if ours[key] != own[key]} <= {"policies", "client_policies"}
    assert not ours["policies"] and not ours["client_policies"]


def test_the_gateway_has_what_the_file_says() -> None:
    text = '[spread]\nenabled = true\nmethods = ["IP"]\noversize = "disconnect"\nslow_policy = "block"\n'
    found = gateway_settings(one(text + '[[limits.group]]\npattern = "x*"\nslow_policy = "block"\n'))
    assert (found.methods, found.oversize, found.policy) == (("IP",), Oversize.DISCONNECT, SlowPolicy.BLOCK)
    assert found.policies["xy"] is SlowPolicy.BLOCK
    found = gateway_settings(one(text + '[[limits.client]]\npattern = "log*"\nslow_policy = "disconnect"\n'))
    assert found.client_policies["logger"] is SlowPolicy.DISCONNECT and "other" not in found.client_policies


def test_the_roster_lists_the_keys_of_the_file() -> None:
    pair, other = pair_of(b"1" * 32), pair_of(b"2" * 32)
    text = (
        f'public_key = "{pair.text}"\n[security]\nmode = "keys"\nprivate_key_file = "k"\nrevoked = ["{other.text}"]\n'
    )
    roster = roster_of(one(text))
    assert roster.problem("d1", pair.public, b"") == ""
    assert roster.problem("d1", other.public, b"") == "revoked"
    assert roster.problem("d2", pair.public, b"") == "unknown daemon"


def test_without_an_access_list_nobody_administrates() -> None:
    assert access_list(one()) == (EVERYBODY,) and "admin" not in EVERYBODY.allow
    (rule,) = access_list(one('[[security.access]]\nprincipals = ["root"]\nallow = ["admin"]\n'))
    assert rule.principals == ("root",)
