"""``spread.conf``: what is read from it, and the settings that come of it."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.daemon.settings import SettingsError, read
from isotone.daemon.settings.convert import REASONS, convert
from isotone.daemon.settings.spread_conf import Interface, Option, read_spread_conf
from isotone.daemon.settings.whereabouts import listeners_of

LAN = """
# three machines of one LAN
Spread_Segment  239.0.0.1:4900 {
    alpha    10.0.0.1
    beta     10.0.0.2   # the second
    gamma.example
}
"""
WAN = """
Spread_Segment 10.1.255.255 { n1 10.1.0.1  n2 10.1.0.2 { D 10.1.0.2  C 0.0.0.0 } }
Spread_Segment 239.0.0.2:4803 10.2.0.255 { 10.2.0.1 VirtualID = 7 ; lone ; 10.2.0.9 }
DebugFlags = { PRINT !EXIT }
EventPriority = CRITICAL
EventTimeStamp
EventLogFile = '/var/log/spread %h.log'
MaxSessionMessages = 500
AllowedAuthMethods = "NULL IP PAM"
DangerousMonitor = false
Strange = 3
"""


def error(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read_spread_conf(text, "s.conf")
    return str(caught.value)


def test_segments_with_their_daemons() -> None:
    (segment,) = read_spread_conf(LAN).segments
    assert (segment.addresses, segment.port, segment.line) == (("239.0.0.1",), 4900, 3)
    assert [(each.name, each.address, each.line) for each in segment.daemons] == [
        ("alpha", "10.0.0.1", 4),
        ("beta", "10.0.0.2", 5),
        ("gamma.example", "gamma.example", 6),
    ]


def test_all_forms_of_daemons() -> None:
    first, second = read_spread_conf(WAN).segments
    assert first.port == second.port == 4803 and second.addresses == ("239.0.0.2", "10.2.0.255")
    assert first.daemons[1].interfaces == (Interface("D", "10.1.0.2"), Interface("C", "0.0.0.0"))
    assert [(each.name, each.address) for each in second.daemons] == [
        ("10.2.0.1", "10.2.0.1"),
        ("lone", "lone"),
        ("10.2.0.9", "10.2.0.9"),
    ]
    assert second.daemons[0].virtual_id == "7"


def test_options_as_they_stand_there() -> None:
    options = read_spread_conf(WAN).options
    assert options[0] == Option("DebugFlags", "PRINT !EXIT", 4)
    assert Option("EventTimeStamp", "", 6) in options
    assert Option("EventLogFile", "/var/log/spread %h.log", 7) in options
    assert Option("AllowedAuthMethods", "NULL IP PAM", 9) in options


def test_addresses_of_the_sixth_version() -> None:
    (segment,) = read_spread_conf("Spread_Segment [ff02::1]:4900 { a fe80::1%eth0 \n ::2 }").segments
    assert (segment.addresses, segment.port) == (("ff02::1",), 4900)
    assert [(each.name, each.address) for each in segment.daemons] == [("a", "fe80::1"), ("::2", "::2")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.conf:1: there is no daemon"),
        ("# nothing\n", "s.conf:1: there is no daemon"),
        ("Spread_Segment 1.2.3.4 { }", "s.conf:1: there is no daemon"),
        ("Spread_Segment 1.2.3.4 {\n a 1.2.3.5\n", "s.conf:2: the file ends where } is missing; add }"),
        ("Spread_Segment 1.2.3.4", "s.conf:1: the file ends where { is missing; add {"),
        ("Spread_Segment", "s.conf:1: the file ends where { is missing"),
        ("Spread_Segment 1.2.3.4:x { a }", "s.conf:1: 1.2.3.4:x is no address"),
        ("\nDaemonUser=spread\n", "s.conf:2: DaemonUser=spread has no value; write DaemonUser = … with blanks"),
        ("DaemonUser\nDaemonGroup = x", "s.conf:1: DaemonUser has no value; add = and a value"),
        ("DaemonUser =", "s.conf:1: the file ends where a value is missing"),
        ("Spread_Segment 1.2.3.4 { a }\n}", "s.conf:2: } stands where an option is expected"),
        ("Spread_Segment 1.2.3.4 { a VirtualID 3 }", "s.conf:1: 3 stands where = is expected"),
        ("X = 'never closed", 's.conf:1: "\'" begins nothing that is known'),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: str) -> None:
    assert error(text).startswith(said)


@given(st.text(alphabet="{}=;#'\"[]: \nSpread_Segment1.2aD", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"Spread_Segment 1.2.3.4 {{ a 1.2.3.5 }}\n{text}"):
        with suppress(SettingsError):
            tomllib.loads(convert(whole).toml)


# --- settings that come of it --------------------------------------------------------------------------------------


def test_a_lan_becomes_a_site_with_multicast() -> None:
    settings = read(convert(LAN).toml).settings
    assert [(site.name, site.multicast) for site in settings.site] == [("segment1", "239.0.0.1:4900")]
    assert [(each.name, each.address, each.port) for each in settings.daemon] == [
        ("alpha", "10.0.0.1", 4900),
        ("beta", "10.0.0.2", 4900),
        ("gamma.example", "gamma.example", 4900),
    ]
    assert settings.spread.enabled and settings.spread.share_port and settings.spread.unix_socket == "/tmp/{port}"
    assert settings.security.mode == "open"
    assert [each.listen for each in settings.daemon] == ["0.0.0.0"] * 3, "as Spread: localhost too"
    assert listeners_of(settings, settings.daemon[0]).spread_unix == Path("/tmp/4900")


def test_a_cluster_on_loopback_stays_there() -> None:
    text = "Spread_Segment 127.0.0.255 { a 127.0.0.1 \n b 127.0.0.2 } Spread_Segment 10.0.0.255:5000 { c fd00::1 }"
    assert [each.listen for each in read(convert(text).toml).settings.daemon] == ["", "", "::"]


def test_the_file_of_the_method_ip_is_mentioned() -> None:
    left = convert(LAN + 'AllowedAuthMethods = "IP NULL"').left_out
    assert any("spread.access_ip" in each.what and "networks = " in each.why for each in left)
    assert not any("spread.access_ip" in each.what for each in convert(LAN + 'AllowedAuthMethods = "NULL"').left_out)


def test_segments_become_sites_and_options_are_carried_over_or_told() -> None:
    conversion = convert(WAN, cluster="west")
    settings = read(conversion.toml).settings
    assert settings.cluster.name == "west" and [site.multicast for site in settings.site] == ["", "239.0.0.2:4803"]
    assert [each.listen for each in settings.daemon] == ["0.0.0.0"] * 5
    assert settings.spread.methods == ("NULL", "IP") and settings.admin.log_level == "error"
    told = {each.what: (each.line, each.why) for each in conversion.left_out}
    assert told["Strange = 3"] == (11, "this option is not known")
    assert told["MaxSessionMessages = 500"] == (8, REASONS["MaxSessionMessages"])
    assert {"EventTimeStamp", "VirtualID of 10.2.0.1", "AllowedAuthMethods PAM"} <= set(told)
    assert {"the segment's address 10.1.255.255", "the segment's address 10.2.0.255"} <= set(told)
    for each in conversion.left_out:
        assert f"#   line {each.line}: {each.what}: {each.why}" in conversion.toml


def test_a_method_that_there_is_not_lets_nobody_more_in() -> None:
    for option in ('AllowedAuthMethods = "PAM"', 'RequiredAuthMethods = "IP PAM"'):
        settings = read(convert(LAN + option).toml).settings
        assert not settings.spread.enabled
    kept = read(convert(LAN + 'RequiredAuthMethods = "IP"').toml).settings.spread
    assert kept.enabled and kept.required_methods == ("IP",)


def test_names_are_cut_as_spread_does() -> None:
    toml = convert("Spread_Segment 1.2.3.4 { abcdefghijklmnopqrstuvwxyz 1.2.3.5 }").toml
    assert read(toml).settings.daemon[0].name == "abcdefghijklmnopqrs" and "abcdefghijklmnopqrstuvwxyz" in toml


def test_two_segments_with_one_multicast_address_do_not_share_it() -> None:
    text = "Spread_Segment 239.0.0.1 { a 10.0.0.1 } Spread_Segment 239.0.0.1 { b 10.0.0.2 }"
    assert [site.multicast for site in read(convert(text).toml).settings.site] == ["239.0.0.1:4803", ""]


def test_nothing_of_the_file_gets_out_of_its_quotes_or_its_comment() -> None:
    text = (
        "Spread_Segment 1.2.3.4 { 'a\"\nb = 1\n[x] very long indeed' 1.2.3.5 }\nOdd = '\n[faults]\nenabled = true\x01'"
    )
    conversion = convert(text, "a\nb.conf")
    with pytest.raises(SettingsError) as caught:
        read(conversion.toml)
    assert [problem.key for problem in caught.value.problems] == ["daemon[0].name"]
