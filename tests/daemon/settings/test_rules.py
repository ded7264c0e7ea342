"""What does not fit together: one wrong file for each rule, and what is said about it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from isotone.daemon.settings import Problem, SettingsError, read
from isotone.daemon.settings.mapping import server_settings, stack_settings
from isotone.daemon.settings.number_rules import ASCENDING, RANGES, findings
from isotone.daemon.settings.tables import DaemonSettings

KEY = "x25519:" + "A" * 43 + "="
ONE = '[[daemon]]\nname = "d1"\n'
TWO = ONE + '[[daemon]]\nname = "d2"\nport = 4805\nadmin_port = 4820\n'
SITES = (
    '[[daemon]]\nname = "d1"\nsite = "a"\n[[daemon]]\nname = "d2"\nsite = "b"\nport = 4805\nadmin_port = 4820\n'
    '[[daemon]]\nname = "d3"\nsite = "c"\nport = 4807\nadmin_port = 4821\n'
)
FAR = '[[daemon]]\nname = "d1"\naddress = "10.0.0.1"\n'
KEYS = f'[security]\nmode = "keys"\nprivate_key_file = "k"\n{FAR}'


def problems(text: str) -> list[Problem]:
    with pytest.raises(SettingsError) as caught:
        read(text)
    return list(caught.value.problems)


def warned(text: str) -> list[str]:
    return [problem.key for problem in read(text).warnings]


@pytest.mark.parametrize(
    "text", [ONE, TWO, SITES, KEYS + f'public_key = "{KEY}"\n', FAR + '[security]\nmode = "open"\n']
)
def test_these_are_good(text: str) -> None:
    assert read(text).settings.daemon


WRONG = (Path(__file__).parent / "wrong.txt").read_text(encoding="utf-8").split("\n---\n")
"""Wrong files; on the line that is to be named stands what is to be said about which key."""
MARK = re.compile(r"# ! ([^:]+): (.+)$")


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_fit_is_told_with_its_line(text: str) -> None:
    ((line, mark),) = [
        (number, found) for number, each in enumerate(text.splitlines(), start=1) if (found := MARK.search(each))
    ]
    told = problems(text)
    assert any(each.line == line and each.key == mark[1] and mark[2] in each.what for each in told), told
    assert all(each.remedy for each in told)


@pytest.mark.parametrize(("table", "key"), list(RANGES))
def test_every_number_has_a_range_and_its_ends_are_in_it(table: str, key: str) -> None:
    low, high = RANGES[table, key]
    assert low <= getattr(getattr(DaemonSettings(), table), key) <= high
    for value in (low - 1, high + 1):
        told = problems(f"{ONE}[{table}]\n{key} = {value}\n")
        assert f"{value} is out of range" in [problem.what for problem in told if problem.key == f"{table}.{key}"]


def test_every_number_of_these_tables_has_a_range() -> None:
    for table in ("cluster", "limits", "timeouts", "trace", "spread", "admin"):
        values = getattr(DaemonSettings(), table)
        numbers = [key for key in values.__struct_fields__ if type(getattr(values, key)) is int]
        assert [key for key in numbers if (table, key) not in RANGES] == []


@pytest.mark.parametrize(("table", "small", "large"), ASCENDING)
def test_what_must_not_decrease_does_not(table: str, small: str, large: str) -> None:
    low = max(RANGES[table, small][0], RANGES[table, large][0])
    told = problems(f"{ONE}[{table}]\n{small} = {low + 1}\n{large} = {low}\n")
    assert any(problem.key == f"{table}.{small}" and large in problem.what for problem in told)


@pytest.mark.parametrize(("table", "small", "large"), ASCENDING)
def test_what_must_not_decrease_may_be_equal(table: str, small: str, large: str) -> None:
    low = max(RANGES[table, small][0], RANGES[table, large][0])
    equal = msgspec.structs.replace(getattr(DaemonSettings(), table), **{small: low, large: low})
    found = findings(msgspec.structs.replace(DaemonSettings(), **{table: equal}))
    assert not [each for each in found if each.path == (table, small) and large in each.what]


def test_whatever_passes_the_checks_is_taken_by_the_layers() -> None:
    """The extremes of each range: the layers' own checks raise nothing."""
    for (table, key), (low, high) in RANGES.items():
        for value in (low, high):
            try:
                settings = read(f"{ONE}[{table}]\n{key} = {value}\n").settings
            except SettingsError:
                continue
            assert stack_settings(settings, "d1") and server_settings(settings)


def test_sites_without_links_and_a_chain_of_links_are_fine() -> None:
    chain = SITES + '[[link]]\nbetween = ["a", "b"]\n[[link]]\nbetween = ["c", "b"]\nprotocol = "tcp"\n'
    assert len(read(chain).settings.link) == 2


def test_the_same_ports_on_different_machines_are_fine() -> None:
    text = FAR + '[[daemon]]\nname = "d2"\naddress = "10.0.0.2"\n[security]\nmode = "open"\n'
    assert read(text).settings.daemon[1].port == 4803


def test_with_an_authority_nobody_needs_to_be_listed() -> None:
    authority = "ed25519:" + "A" * 43 + "="
    assert read(KEYS.replace("private", f'authority = "{authority}"\nprivate')).settings.security.authority


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (ONE, []),
        (FAR + '[security]\nmode = "open"\n', ["security.anonymous", "security.mode"]),
        (ONE + '[security]\nprivate_key_file = "k"\n', ["security.private_key_file"]),
        (ONE + "[faults]\nenabled = true\n", ["faults.enabled"]),
        (ONE + "[spread]\nshare_port = true\n", ["spread.share_port"]),
        (ONE + '[spread]\nenabled = true\nlisten = "0.0.0.0"\n', ["spread.listen"]),
        (ONE + '[spread]\nenabled = true\n[security]\nanonymous = false\ncredentials_file = "c"\n', ["spread.enabled"]),
        (ONE + '[[security.access]]\nallow = ["admin"]\n', ["security.access[0].principals"]),
        (ONE + '[admin]\nlisten = "0.0.0.0"\n', ["admin.listen"]),
        (ONE + "[limits]\nbuffer_bytes_max = 20971519\n", ["limits.buffer_bytes_max"]),
        (ONE + "[limits]\nbuffer_bytes_max = 20971520\n", []),
        (ONE + '[limits]\nbuffer_bytes_max = 100000\nslow_policy = "disconnect"\n', []),
        (
            FAR + '[security]\nmode = "open"\nanonymous = false\ncredentials_file = "c"\n',
            ["security.mode", "security.credentials_file"],
        ),
    ],
)
def test_what_is_doubtful_is_a_warning(text: str, keys: list[str]) -> None:
    assert sorted(warned(text)) == sorted(keys)
