"""[replica]: servers, their rule, where things are, and everything that is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.corel.quorum import AllOf, AnyOf, DynamicVoting, Majority, Monarch, Rule, TieBreaker, Weighted
from isotone.daemon.settings import DaemonSettings, SettingsError, read
from isotone.daemon.settings.replication import (
    chosen_server,
    log_directory,
    quorum_of,
    replica_settings,
    server_address,
)

DAEMONS = "".join(f'[[daemon]]\nname = "{name}"\naddress = "10.0.0.{place}"\n' for place, name in enumerate("abc", 1))
SERVERS = "".join(f'[[replica.server]]\nname = "{name}"\nvotes = {place}\n' for place, name in enumerate("abc", 1))
OPEN = '[security]\nmode = "open"\n'


def settings_of(replica: str = "", servers: str = SERVERS) -> DaemonSettings:
    return read(f'{OPEN}{DAEMONS}[replica]\nlisten = ""\n{replica}{servers}').settings


def rules(*kinds: str) -> str:
    return "".join(f"[[replica.rule]]\n{kind}\n" for kind in kinds)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", Majority(("a", "b", "c"))),
        (rules('kind = "votes"'), Weighted({"a": 1, "b": 2, "c": 3})),
        (rules('kind = "tie-breaker"\nserver = "b"'), TieBreaker(("a", "b", "c"), "b")),
        (rules('kind = "dynamic"\nminimum = 2'), DynamicVoting(2)),
        (
            rules('kind = "monarch"\nserver = "a"', 'kind = "majority"'),
            AllOf((Monarch("a"), Majority(("a", "b", "c")))),
        ),
    ],
)
def test_the_rule_of_a_file(text: str, rule: Rule) -> None:
    assert quorum_of(settings_of(servers=text + SERVERS)) == rule


def test_any_of_several_rules() -> None:
    text = rules('kind = "majority"', 'kind = "tie-breaker"\nserver = "a"')
    assert isinstance(quorum_of(settings_of('combine = "any"\n', text + SERVERS)), AnyOf)


def test_where_a_server_is() -> None:
    settings = settings_of(servers=SERVERS + '[[replica.server]]\nname = "d"\ndaemon = "c"\njoins = true\nport = 99\n')
    a, d = chosen_server(settings, "a"), chosen_server(settings, "d")
    assert (server_address(settings, a), server_address(settings, d)) == ("10.0.0.1:4816", "10.0.0.3:99")
    assert log_directory(settings, a) == Path("/var/lib/isotone/a.replica")
    assert replica_settings(settings, d).servers == ("a", "b", "c"), "it is no founder"
    assert log_directory(settings_of('directory = "/log/{name}"\n'), a) == Path("/log/a")
    with pytest.raises(InputError, match="--name is one of a, b, c"):
        chosen_server(settings_of())


@pytest.mark.parametrize(
    ("replica", "servers", "said"),
    [
        ("", SERVERS + '[[replica.server]]\nname = "d"\n', "there is no daemon d"),
        ("", SERVERS + '[[replica.server]]\nname = "a"\nport = 1\n', "another server a"),
        ("", SERVERS + '[[replica.server]]\nname = "x"\ndaemon = "a"\n', "another server has its port"),
        ("", '[[replica.server]]\nname = "a"\nvotes = -1\n', "not below 0"),
        ("", '[[replica.server]]\nname = "a"\njoins = true\n', "nobody begins"),
        ("", rules('kind = "monarch"\nserver = "z"') + SERVERS, "there is no server 'z'"),
        ("", rules('kind = "majority"\nserver = "a"') + SERVERS, "names no server"),
        ("", rules('kind = "dynamic"\nminimum = 0') + SERVERS, "at least one server"),
        (
            'combine = "any"\n',
            rules('kind = "monarch"\nserver = "a"', 'kind = "majority"') + SERVERS,
            "both a and b, c",
        ),
        ('group = "#a"\n', SERVERS, "group"),
        ("reserve_bytes = -1\n", SERVERS, "out of range"),
        ('sync = "sometimes"\n', SERVERS, '"left-to-the-system"'),
    ],
)
def test_what_is_wrong_is_told(replica: str, servers: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_of(replica, servers)


def test_a_port_that_is_not_where_clients_look_for_it_is_said() -> None:
    text = f"{OPEN}{DAEMONS}[replica]\nport = 4816\n{SERVERS}"
    with pytest.raises(SettingsError, match=r"server a at 10.0.0.1:4816, .* loopback alone; write \[replica\] listen"):
        read(text)
    wanted = read(text.replace("port = 4816", 'listen = "127.0.0.1"'))
    assert "replica.listen" in [warning.key for warning in wanted.warnings], "who wrote it may know why"
    for fine in ('listen = ""', 'listen = "0.0.0.0"'):
        assert "replica.listen" not in [warning.key for warning in read(text.replace("port = 4816", fine)).warnings]
    near = "".join(f'[[replica.server]]\nname = "{name}"\naddress = "localhost"\n' for name in "a")
    assert read(f"{OPEN}{DAEMONS}{near}").settings.replica.listen == "127.0.0.1"
