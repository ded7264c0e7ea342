"""Looks at the other side of a stream: when it is asked, and when it is given up."""

from __future__ import annotations

from isotone.host.pulse import ASK_AT, GIVE_UP_AT, Pulse
from tests.host.replicas import run

NEVER_S = 3600.0


class Watched:
    """A stream whose looks are taken by hand."""

    def __init__(self) -> None:
        self.is_awaited = True
        self.said: list[str] = []
        self.pulse = Pulse(
            NEVER_S,
            is_awaited=lambda: self.is_awaited,
            ask=lambda: self.said.append("asked"),
            give_up=lambda: self.said.append("given up"),
        )

    def looks(self, count: int) -> list[str]:
        """What came of so many."""
        self.said.clear()
        for _ in range(count):
            self.pulse._look()
        return list(self.said)


def test_it_is_asked_once_and_then_given_up() -> None:
    async def main() -> None:
        watched = Watched()
        assert watched.looks(ASK_AT - 1) == []
        assert watched.looks(1) == ["asked"]
        assert watched.looks(GIVE_UP_AT - ASK_AT - 1) == []
        assert watched.looks(1) == ["given up"]
        watched.pulse.end()

    run(main)


def test_whoever_says_something_is_not_given_up() -> None:
    async def main() -> None:
        watched = Watched()
        for _ in range(3):
            assert watched.looks(GIVE_UP_AT - 1) == ["asked"]
            watched.pulse.heard()
        watched.pulse.end()

    run(main)


def test_where_nobody_waits_nothing_is_asked() -> None:
    async def main() -> None:
        watched = Watched()
        assert watched.looks(GIVE_UP_AT - 1) == ["asked"]
        watched.is_awaited = False
        assert watched.looks(GIVE_UP_AT) == []
        watched.is_awaited = True
        assert watched.looks(ASK_AT) == ["asked"], "it has the whole time from the next question on"
        watched.pulse.end()

    run(main)
