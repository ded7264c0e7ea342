"""A server as a process: who may use its port, and settings that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.core.names import is_log_group
from isotone.daemon.security.access import Access, AccessRule, open_access
from isotone.daemon.security.credentials import add_credential, read_credentials
from isotone.daemon.settings import read
from isotone.daemon.settings.replication import chosen_server, replica_settings
from isotone.host.serving import ServerProcess, run_server

TEXT = '[[daemon]]\nname = "a"\n[security]\nmode = "open"\n[replica]\ngroup = "books"\n[[replica.server]]\nname = "a"\n'
PEER = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("allow", "groups", "said"),
    [
        (("connect", "join", "send"), ("*",), ""),
        (("connect", "join", "send"), ("books",), ""),
        (("join", "send"), ("*",), "may not connect"),
        (("connect", "join"), ("*",), "may not send to books"),
        (("connect", "join", "send"), ("other",), "may not join books"),
    ],
)
def test_who_may_use_the_group_may_use_its_log(allow: tuple[str, ...], groups: tuple[str, ...], said: str) -> None:
    settings = read(TEXT).settings
    process = ServerProcess(settings, chosen_server(settings), Access([AccessRule(allow=allow, groups=groups)]))
    reason = process._judge("ada", b"", PEER)
    assert said in reason and bool(said) == bool(reason)
    assert "not known" in process._judge("ada", b"wrong", PEER)


def test_only_who_may_administer_may_change_the_servers(tmp_path: Path) -> None:
    settings = read(TEXT).settings
    path = tmp_path / "credentials"
    user, operator = (add_credential(path, name).encode() for name in ("user", "operator"))
    rules = [AccessRule(), AccessRule(principals=["operator"], allow=["admin"])]
    process = ServerProcess(settings, chosen_server(settings), Access(rules, read_credentials(path)))
    assert process._judge("ada", user, PEER) == process._judge("ada", operator, PEER) == ""
    assert "needs a credential" in process._judge_change("ada", b"", PEER)
    assert "user may not change the servers" in process._judge_change("ada", user, PEER)
    assert process._judge_change("ada", operator, PEER) == ""
    assert ServerProcess(settings, chosen_server(settings), open_access())._judge_change("ada", b"", PEER) == ""


def test_its_servers_meet_in_a_group_that_is_known_as_one_of_a_log() -> None:
    settings = read(TEXT).settings
    group = replica_settings(settings, chosen_server(settings)).group
    assert group == "$log/books" and is_log_group(group)
    with pytest.raises(InputError, match="1 to 59 characters"):
        read(TEXT.replace("books", "b" * 60))


def test_dev_is_for_loopback_alone(tmp_path: Path) -> None:
    file = tmp_path / "isotone.toml"
    text = TEXT.replace('[security]\nmode = "open"\n', "").replace('"books"', '"books"\nlisten = "0.0.0.0"')
    file.write_text(text)
    with pytest.raises(InputError, match="loopback alone"):
        run_server(file, dev=True)
    elsewhere = text.replace('"0.0.0.0"', '""').replace(
        "[[replica.server]]", '[[replica.server]]\naddress = "192.0.2.2"'
    )
    file.write_text(elsewhere)
    with pytest.raises(InputError, match=r"server a would listen at 192\.0\.2\.2"):
        run_server(file, dev=True)
    file.write_text('[[daemon]]\nname = "a"\n')
    with pytest.raises(InputError, match=r"add a \[\[replica.server\]\]"):
        run_server(file, dev=True)
