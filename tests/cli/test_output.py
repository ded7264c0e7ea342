"""Output whose reader has gone: what would print for ever ends."""

from __future__ import annotations

import asyncio
import io

import pytest

from isotone.cli import group_work, output, status
from isotone.cli.admin_client import AdminClient
from isotone.client import SelfLeave


class Pipe(io.StringIO):
    """Somebody reads so many lines and goes."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.lines = lines

    def write(self, text: str) -> int:
        if not self.lines:
            raise BrokenPipeError
        self.lines -= 1
        return super().write(text)


def test_printing_tells_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Pipe(2))
    assert output.print_text("one") and output.print_json({"two": 2})
    assert not output.print_text("three") and not output.print_json({})


def test_listening_to_a_group_ends_with_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", pipe := Pipe(1))

    async def main() -> None:
        heard: asyncio.Queue[tuple[str, group_work.GroupEvent]] = asyncio.Queue()
        for _ in range(3):
            heard.put_nowait(("room", SelfLeave("room")))
        async with asyncio.timeout(20):
            await group_work._print_events(heard, [], None, quiet=False, as_json=True)
        assert heard.qsize() == 1

    asyncio.run(main())
    assert pipe.getvalue().count("selfleave") == 1


def test_live_verdicts_ends_with_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", pipe := Pipe(3))
    monkeypatch.setattr(AdminClient, "get", lambda self, path: {"ready": True})
    assert status._watch([AdminClient("127.0.0.1:1")], 0.0, links=False, as_json=True) == 0
    assert pipe.getvalue().count("ready") == 3
