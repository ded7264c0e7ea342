"""When messages are due: one schedule for all systems, with a moment in every millisecond.

What is due at a moment is one sample of latency, timed from that moment, not from when the sender came round to it: a
sender that is late has no better latency for it. A timer of the kernel wakes the sender, the same for every system,
since timeouts of event loops and of ``poll`` are too coarse for a millisecond.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from contextlib import suppress

from isotone.core.errors import MachineError

TICKS_PER_S = 1_000
TICK_NS = 1_000_000_000 // TICKS_PER_S
LIBC = ctypes.CDLL(None, use_errno=True)
ABSOLUTE = 1
TIMER = struct.Struct("@qqqq")
EXPIRED_BYTES = 8
Moment = tuple[int, int]
"""So many messages in all were due at this time, in nanoseconds of the monotonic clock."""


class Pace:
    """How many messages are due: as many as go, or a rate, which makes good what it is behind."""

    def __init__(self, rate: float, batch: int, began_ns: int) -> None:
        self.rate = rate
        self.given = 0
        self._batch, self._began_ns = batch, began_ns
        self._due = self._ticks = 0
        self._moments: list[Moment] = []

    def due(self, now_ns: int) -> int:
        """To be handed over now; at most what a batch holds."""
        if not self.rate:
            return self._batch
        ticks = (now_ns - self._began_ns) // TICK_NS
        for tick in range(self._ticks + 1, ticks + 1):
            total = int(self.rate * tick / TICKS_PER_S)
            if total > self._due:
                self._due = total
                self._moments.append((total, self._began_ns + tick * TICK_NS))
        self._ticks = max(self._ticks, ticks)
        return min(self._batch, self._due - self.given)

    def take(self, count: int, now_ns: int) -> list[Moment]:
        """So many are handed over now. The moments that came since the last time; without a rate this is one."""
        self.given += count
        if not self.rate:
            return [(self.given, now_ns)]
        moments, self._moments = self._moments, []
        return moments


class Ticks:
    """A descriptor that is readable once at every moment of the schedule."""

    def __init__(self, began_ns: int) -> None:
        self.descriptor: int = LIBC.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise MachineError(f"timerfd_create: {os.strerror(ctypes.get_errno())}")
        self._began_ns, self._next_ns = began_ns, began_ns + TICK_NS
        settings = TIMER.pack(0, TICK_NS, *divmod(self._next_ns, 1_000_000_000))
        if LIBC.timerfd_settime(self.descriptor, ABSOLUTE, settings, None):
            raise MachineError(f"timerfd_settime: {os.strerror(ctypes.get_errno())}")

    def clear(self) -> None:
        """Not readable any more, until the next moment; costs a call of the kernel only when one has come."""
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns:
            return
        with suppress(BlockingIOError):  # the timer may be a little late
            os.read(self.descriptor, EXPIRED_BYTES)
            self._next_ns = now_ns + TICK_NS - (now_ns - self._began_ns) % TICK_NS

    def close(self) -> None:
        """No more of them."""
        os.close(self.descriptor)
