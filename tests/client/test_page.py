"""The conversation on docs/protocols/session.md is what the code says, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

from isotone.core import boundary as b4
from isotone.core.contract import WriteStream
from tests.evs.sessions.pair import Pair

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocols" / "session.md"


def conversation() -> list[bytes]:
    """What was written, in the order of the page: by the client or by the daemon, frame after frame."""
    pair = Pair()
    alice = pair.client("alice")
    pair.ask(alice, b4.Connect())
    pair.run()
    pair.ask(alice, b4.Join("chat"))
    pair.run()
    pair.send(alice, b"hello", groups=("chat",))
    pair.run()
    up, down = [_joined(each) for each in pair.client_writes], [_joined(each) for each in pair.written]
    return [up[0], down[0], up[1], down[1], up[2], down[2], down[3], up[3]]


def _joined(write: WriteStream) -> bytes:
    return b"".join(bytes(part) for part in write.data)


def test_the_conversation() -> None:
    block = re.search(r"```\n(→ 49.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    shown: list[str] = []
    for line in block.group(1).splitlines():
        bytes_shown = re.match(r"[→← ] ((?: ?[0-9a-f]{2}(?= |$)|  | <16 bytes>| …)*)", line)
        assert bytes_shown is not None, line
        if line[0] == " ":
            shown[-1] += " " + bytes_shown.group(1)
        else:
            shown.append(bytes_shown.group(1))
    for text, said in zip(shown, conversation(), strict=True):
        pattern = " ".join(text.split()).replace("<16 bytes>", "(?:[0-9a-f]{2} ?){16}").replace("…", ".*")
        assert re.fullmatch(pattern.replace(") ", ")"), said.hex(" ")), (text, said.hex(" "))
