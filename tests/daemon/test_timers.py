"""One heap for all timers: what was replaced or cancelled never fires, and the rest in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from isotone.core.contract import TimerKey
from isotone.daemon.engine import Lane
from isotone.daemon.timers import FIRED_MAX, Timers
from tests.daemon.test_engine import Script


class Loop:
    """Takes the one call that is wanted, and no time passes but what a test lets pass."""

    def __init__(self) -> None:
        self.now = 1_000
        self.calls: list[tuple[int, Callable[[], None]]] = []
        self.wakes = 0

    def call_later(self, delay: float, call: Callable[[], None]) -> Loop:
        self.calls = [(self.now + round(delay * 1e6), call)]
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def advance(self, us: int) -> None:
        self.now += us
        while self.calls and self.calls[0][0] <= self.now:
            (_, call) = self.calls.pop()
            self.wakes += 1
            call()


def bench() -> tuple[Loop, Timers, Lane, list[tuple[int, TimerKey]]]:
    loop, fired = Loop(), []
    lane = Lane("lane", Script({}))
    timers = Timers(loop, lambda: loop.now, lambda lane, key: fired.append((loop.now, key)))  # type: ignore[arg-type]
    return loop, timers, lane, fired


def test_they_fire_once_in_order_and_not_before_their_time() -> None:
    loop, timers, lane, fired = bench()
    for key, after in (("c", 300), ("a", 100), ("b", 200)):
        timers.set(lane, key, after)
    loop.advance(99)
    assert fired == []
    loop.advance(1)
    loop.advance(1_000)
    assert fired == [(1_100, "a"), (2_100, "b"), (2_100, "c")]
    assert timers.late_us_max == 900
    loop.advance(10_000)
    assert len(fired) == 3


def test_arming_again_replaces() -> None:
    loop, timers, lane, fired = bench()
    timers.set(lane, "a", 100)
    timers.set(lane, "a", 500)
    loop.advance(400)
    assert fired == []
    timers.set(lane, "a", 50)
    loop.advance(50)
    assert [key for _, key in fired] == ["a"]
    loop.advance(5_000)
    assert len(fired) == 1


def test_cancelled_by_another_that_ran_out_in_the_same_instant() -> None:
    loop, timers, lane, fired = bench()

    def fire(lane: Lane, key: TimerKey) -> None:
        fired.append((loop.now, key))
        timers.cancel(lane, "b")
        timers.set(lane, "c", 10)

    timers._fire = fire
    for key in ("a", "b", "c"):
        timers.set(lane, key, 100)
    loop.advance(100)
    assert [key for _, key in fired] == ["a"]
    timers.cancel(lane, "never armed")


def test_one_lane_does_not_hear_anothers() -> None:
    loop, timers, lane, fired = bench()
    other = Lane("other", Script({}))
    timers.set(lane, "key", 10)
    timers.set(other, "key", 20)
    timers.cancel(lane, "key")
    loop.advance(100)
    assert len(fired) == 1


def test_a_flood_of_timers_lets_the_sockets_have_their_turn() -> None:
    loop, timers, lane, fired = bench()
    for number in range(FIRED_MAX + 10):
        timers.set(lane, ("n", number), 10)
    loop.now += 10
    (_, call) = loop.calls.pop()
    call()
    assert len(fired) == FIRED_MAX
    loop.advance(0)
    assert len(fired) == FIRED_MAX + 10


def test_closed_is_closed() -> None:
    loop, timers, lane, fired = bench()
    timers.set(lane, "a", 10)
    timers.close()
    loop.advance(100)
    assert fired == [] and not loop.calls


def test_on_a_real_loop() -> None:
    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        timers = Timers(loop, lambda: round(loop.time() * 1e6), lambda lane, key: done.set())
        timers.set(Lane("lane", Script({})), "a", 1_000)
        await asyncio.wait_for(done.wait(), 60)
        timers.close()

    asyncio.run(main())
