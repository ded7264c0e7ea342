"""The cyclic collector off the hot path: what was made at the start is never looked at again, and the rest when idle.

For a process that is a daemon; an embedded one leaves the collector of its program alone.
"""

from __future__ import annotations

import asyncio
import gc

IDLE_SECONDS = 0.25
COLLECT_AFTER_EVENTS = 10_000
THRESHOLD = 200_000  # allocations without a pause before the collector comes all the same


class IdleCollector:
    """Looks after every wake-up; collects when nothing happened for a moment and something did before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.collections = 0
        self._loop = loop
        self._wakes = 0  # since the last collection
        self._seen = -1
        self._handle: asyncio.TimerHandle | None = None
        self._before = gc.get_threshold()

    def begin(self) -> None:
        """The start is over."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(THRESHOLD, 20, 100)

    def end(self) -> None:
        """As it was."""
        if self._handle is not None:
            self._handle.cancel()
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def woken(self, at: int) -> None:
        """A wake-up is over."""
        del at
        self._wakes += 1
        if self._wakes >= COLLECT_AFTER_EVENTS and self._handle is None:
            self._seen = self._wakes
            self._handle = self._loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        self._handle = None
        if self._wakes - self._seen > IDLE_SECONDS * 400:  # busy: look again
            self._seen = self._wakes
            self._handle = self._loop.call_later(IDLE_SECONDS, self._look)
            return
        self._wakes = 0
        self.collections += 1
        gc.collect(1)
