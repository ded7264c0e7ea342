"""How long this process was not awake when it wanted to be: the longest gap between two ticks of its own.

Others judge a daemon by its silence, so it has to be able to say how much of that was its own sleep: a busy machine, a
paused one, or a turn of the loop that took too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TICK_SECONDS = 0.1
RECENT_TICKS = 600


class Gaps:
    """``now`` reads the clock in microseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]) -> None:
        self.longest_us = 0  # between two ticks, since the start
        self._loop, self._now = loop, now
        self._last = now()
        self._recent = [0, 0]  # the longest of this minute and of the one before
        self._ticks = 0
        self._handle: asyncio.TimerHandle = loop.call_later(TICK_SECONDS, self._tick)

    @property
    def recent_us(self) -> int:
        """The longest of the last one to two minutes."""
        return max(self._recent)

    def close(self) -> None:
        """It is over."""
        self._handle.cancel()

    def _tick(self) -> None:
        now = self._now()
        gap, self._last = now - self._last, now
        self._ticks += 1
        if self._ticks % RECENT_TICKS == 0:
            self._recent = [0, self._recent[0]]
        self._recent[0] = max(self._recent[0], gap)
        self.longest_us = max(self.longest_us, gap)
        self._handle = self._loop.call_later(TICK_SECONDS, self._tick)
