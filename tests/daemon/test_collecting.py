"""The collector comes when nothing happens, and leaves the program as it was."""

from __future__ import annotations

import asyncio
import gc

from isotone.daemon import collecting
from isotone.daemon.collecting import COLLECT_AFTER_EVENTS, IdleCollector


class Loop:
    """Holds the one call that is wanted."""

    def __init__(self) -> None:
        self.call: object = None

    def call_later(self, delay: float, call: object) -> Loop:
        self.call = call
        return self

    def cancel(self) -> None:
        self.call = None

    def pass_time(self) -> None:
        call, self.call = self.call, None
        call()  # type: ignore[operator]


def test_it_collects_when_a_busy_time_is_over() -> None:
    loop = Loop()
    collector = IdleCollector(loop)  # type: ignore[arg-type]
    for at in range(COLLECT_AFTER_EVENTS - 1):
        collector.woken(at)
    assert loop.call is None
    collector.woken(0)
    for _ in range(1_000):
        collector.woken(0)
    loop.pass_time()
    assert collector.collections == 0 and loop.call is not None  # still busy
    loop.pass_time()
    assert collector.collections == 1 and loop.call is None


def test_it_gives_the_thresholds_back() -> None:
    async def main() -> None:
        before = gc.get_threshold()
        collector = IdleCollector(asyncio.get_running_loop())
        collector.begin()
        assert gc.get_threshold()[0] == collecting.THRESHOLD and gc.get_freeze_count() > 0
        collector.end()
        assert gc.get_threshold() == before and gc.get_freeze_count() == 0

    asyncio.run(main())
