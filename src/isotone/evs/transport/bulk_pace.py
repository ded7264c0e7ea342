"""How fast a site stamps fragments of large messages.

A stamped fragment that queues anywhere holds up everything of a later time, so bulk shall leave the slowest link of
its tree a little idle. The pace is found as flow control finds it: it falls below what was achieved whenever a gateway
says that fragments wait there, and creeps up otherwise. Until the first such word the links' own pace is the only one.

Implements: nothing of the thesis, which has no fragments. Deviations: D-hold of docs/protocols/ordering.md.
"""

from __future__ import annotations

from dataclasses import dataclass

DECREASE = 0.95
GROWTH = 0.1 / 1_000_000  # of the pace, in a microsecond
MEASURE_US = 500_000


@dataclass
class BulkPace:
    """The pace of one site, kept by its gateway."""

    rate: float | None = None  # bytes in a microsecond; none: as fast as the links of the site take it
    _free_at: int = 0  # the next fragment may be stamped then
    _grown_at: int = 0
    _achieved: float | None = None  # bytes in a microsecond, over the last time of measuring
    _since: int = 0
    _bytes: int = 0

    def spent(self, size: int, at: int) -> None:
        """A fragment of the site leaves."""
        self._measure(at)
        self._bytes += size
        if self.rate is not None:
            self.rate += self.rate * GROWTH * min(at - self._grown_at, MEASURE_US)
            self._grown_at = at
            self._free_at = max(self._free_at, at) + int(size / self.rate)

    def held(self, at: int) -> None:
        """Fragments of the site wait somewhere on the way."""
        self._measure(at)
        achieved = self._achieved or self._bytes / max(1, at - self._since)
        self.rate = DECREASE * (self.rate or achieved)
        self._grown_at = at

    def wait_us(self, at: int) -> int:
        """How long the next fragment waits."""
        return max(0, self._free_at - at)

    def _measure(self, at: int) -> None:
        if at - self._since >= MEASURE_US:
            self._achieved = self._bytes / (at - self._since) if at - self._since < 2 * MEASURE_US else None
            self._since, self._bytes = at, 0
