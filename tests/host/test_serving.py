"""A server as a process: who may use its port, and settings that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.daemon.security.access import Access, AccessRule
from isotone.daemon.settings import read
from isotone.daemon.settings.replication import chosen_server
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


def test_dev_is_for_loopback_alone(tmp_path: Path) -> None:
    file = tmp_path / "isotone.toml"
    text = TEXT.replace('[security]\nmode = "open"\n', "").replace('"books"', '"books"\nlisten = "0.0.0.0"')
    file.write_text(text)
    with pytest.raises(InputError, match="loopback alone"):
        run_server(file, dev=True)
    file.write_text('[[daemon]]\nname = "a"\n')
    with pytest.raises(InputError, match=r"add a \[\[replica.server\]\]"):
        run_server(file, dev=True)
