from __future__ import annotations

from collections.abc import Callable

from isotone.daemon.gaps import RECENT_TICKS, TICK_SECONDS, Gaps

TICK_US = int(TICK_SECONDS * 1e6)


class FakeLoop:
    """Calls nothing by itself."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.cancelled = 0

    def call_later(self, delay: float, call: Callable[[], None]) -> FakeLoop:
        assert delay == TICK_SECONDS
        self.waiting.append(call)
        return self

    def cancel(self) -> None:
        self.cancelled += 1


class House:
    def __init__(self) -> None:
        self.at = 1_000
        self.loop = FakeLoop()
        self.gaps = Gaps(self.loop, lambda: self.at)  # type: ignore[arg-type]

    def tick(self, after_us: int = TICK_US) -> None:
        self.at += after_us
        self.loop.waiting.pop()()


def test_the_longest_gap_is_kept() -> None:
    house = House()
    for after_us in (TICK_US, 730_000, TICK_US):
        house.tick(after_us)
    assert house.gaps.longest_us == house.gaps.recent_us == 730_000


def test_a_gap_is_recent_for_a_minute_or_two_only() -> None:
    house = House()
    house.tick(730_000)
    for _ in range(RECENT_TICKS - 2):
        house.tick()
    assert house.gaps.recent_us == 730_000
    for _ in range(RECENT_TICKS + 1):
        house.tick()
    assert (house.gaps.recent_us, house.gaps.longest_us) == (TICK_US, 730_000)


def test_after_the_end_nothing_ticks() -> None:
    house = House()
    house.gaps.close()
    assert house.loop.cancelled == 1
