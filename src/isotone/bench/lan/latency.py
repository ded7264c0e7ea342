"""Latency of self-delivery: how long what was due at one moment takes until all of it came back to its sender.

A sample is what the application has to send at one moment of the schedule: with a gap of a millisecond one message, at
a rate what became due then. It is timed from that moment until the last of it is in the application's hands again: a
sender that is kept from sending has that counted. It is the same for all systems and costs nothing per message.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

from isotone.bench.lan.schedule import Moment

PERCENTILES = {"p50": 0.50, "p99": 0.99, "p999": 0.999}
SAMPLES_MAX = 1_000_000


class Echoes:
    """What one sender waits for."""

    def __init__(self) -> None:
        self.taken_ns: list[int] = []
        self._came = 0
        self._waiting: deque[Moment] = deque()

    def expect(self, moments: Iterable[Moment]) -> None:
        """These were due."""
        self._waiting.extend(moments)

    def came(self, count: int) -> None:
        """So many of ours came back, in their order."""
        self._came += count
        now, waiting = time.monotonic_ns(), self._waiting
        while waiting and waiting[0][0] <= self._came:
            began = waiting.popleft()[1]
            if len(self.taken_ns) < SAMPLES_MAX:
                self.taken_ns.append(now - began)

    def sorted_us(self) -> list[float]:
        """All of them."""
        return [taken / 1e3 for taken in sorted(self.taken_ns)]


def percentiles(sorted_us: Sequence[float]) -> dict[str, float]:
    """p50, p99 and p99.9, by the nearest rank."""
    count = len(sorted_us)
    assert count, "nothing came back"
    return {name: sorted_us[min(count - 1, int(share * count))] for name, share in PERCENTILES.items()}
