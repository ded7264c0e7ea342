"""Timers of all automata of a process: one heap, one wake-up of the loop.

Arming a key again for later moves its due time only; its entry of the heap follows when it comes up. A timer that was
replaced or cancelled never fires, because every timer is handled before the next is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from isotone.core.contract import TimerKey

if TYPE_CHECKING:
    from isotone.daemon.engine import Lane

EARLY_US = 1_000
"""Some loops round to whole milliseconds; one that called too early would do so again and again before the time."""
FIRED_MAX = 1_000
"""So many timers of one wake-up are handled before the sockets are looked at again."""


class Timer:
    """One key of one automaton."""

    __slots__ = ("due", "entry", "key", "lane")

    def __init__(self, lane: Lane, key: TimerKey) -> None:
        self.lane = lane
        self.key = key
        self.due = -1  # −1 while disarmed
        self.entry = -1  # the time of the one heap entry that counts


class Timers:
    """``now`` reads the clock in microseconds; ``fire`` hands a timer that ran out to its automaton."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now: Callable[[], int], fire: Callable[[Lane, TimerKey], None]
    ) -> None:
        self.late_us = 0  # the last timer came so much after its time
        self.late_us_max = 0
        self._loop, self._now, self._fire = loop, now, fire
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._armed: dict[tuple[str, TimerKey], Timer] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._wakes_at = -1
        self._firing = False

    def set(self, lane: Lane, key: TimerKey, after_us: int) -> None:
        """Arm, or arm anew."""
        assert after_us >= 0, f"a timer {after_us} us ahead"
        due = self._now() + after_us
        name = (lane.label, key)
        timer = self._armed.get(name)
        if timer is None:
            timer = self._armed[name] = Timer(lane, key)
        timer.due = due
        if not 0 <= timer.entry <= due:
            self._push(timer, due)
            self._wake()

    def cancel(self, lane: Lane, key: TimerKey) -> None:
        """Disarm."""
        timer = self._armed.get((lane.label, key))
        if timer is not None:
            timer.due = -1

    def close(self) -> None:
        """Nothing fires any more."""
        self._heap.clear()
        self._armed.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _push(self, timer: Timer, due: int) -> None:
        timer.entry = due
        self._count += 1
        heappush(self._heap, (due, self._count, timer))

    def _wake(self, least_us: int = 0) -> None:
        """Have the loop call when the first entry is due, and not before so long."""
        if not self._heap or self._firing:
            return
        due = self._heap[0][0]
        if self._handle is not None:
            if self._wakes_at <= due:
                return
            self._handle.cancel()
        self._wakes_at = due
        self._handle = self._loop.call_later(max(least_us, due - self._now()) / 1e6, self._run)

    def _run(self) -> None:
        self._handle = None
        self._firing = True
        now, left = self._now(), FIRED_MAX
        while self._heap and self._heap[0][0] <= now and left:
            left -= 1
            due, _, timer = heappop(self._heap)
            if timer.entry == due:
                self._ring(timer, now)
        self._firing = False
        self._wake(EARLY_US if left == FIRED_MAX else 0)

    def _ring(self, timer: Timer, now: int) -> None:
        if timer.due > now:
            self._push(timer, timer.due)
            return
        timer.entry = -1
        name = (timer.lane.label, timer.key)
        if self._armed.get(name) is timer:
            del self._armed[name]
        if timer.due >= 0:
            self.late_us = now - timer.due
            self.late_us_max = max(self.late_us_max, self.late_us)
            timer.due = -1
            self._fire(timer.lane, timer.key)
