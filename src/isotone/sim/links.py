"""One direction between two processes: when does a packet arrive, if it does?

Latency is a base, plus a uniform jitter, plus a rare tail. A link with a bandwidth has a queue of bounded size that
drops at its tail. Loss is independent, or comes in bursts (a two-state chain, after Gilbert and Elliott). Packets stay
in order unless the link reorders them on purpose.
"""

from __future__ import annotations

import msgspec

from isotone.core.choice import Choice
from isotone.sim.ranges import check_ranges

MICROSECONDS = 1_000_000


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one direction of a link behaves; probabilities are per packet."""

    latency_us: int = 200
    jitter_us: int = 50
    tail_probability: float = 0.0
    tail_us: int = 0
    bandwidth_bytes_per_second: int = 0
    """0 means without limit."""
    queue_bytes_max: int = 256 * 1024
    loss: float = 0.0
    burst_begin: float = 0.0
    """The probability that a burst of losses begins at a packet."""
    burst_end: float = 0.2
    """The probability that a burst ends at a packet."""
    burst_loss: float = 0.8
    """The loss within a burst."""
    reorder: float = 0.0
    reorder_us: int = 2_000
    """A reordered packet arrives up to this much later, and others overtake it."""
    duplicate: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(
            self,
            probabilities=(
                "tail_probability",
                "loss",
                "burst_begin",
                "burst_end",
                "burst_loss",
                "reorder",
                "duplicate",
            ),
            amounts=(
                "latency_us",
                "jitter_us",
                "tail_us",
                "bandwidth_bytes_per_second",
                "queue_bytes_max",
                "reorder_us",
            ),
        )


class Link:
    """The state of one direction."""

    __slots__ = ("_bursting", "_choice", "_free_at", "_in_order", "_plain", "cut", "dropped", "settings")

    def __init__(self, settings: LinkSettings, choice: Choice) -> None:
        self.cut = False
        self.dropped = 0  # packets lost by chance or at the tail of the queue, not by a cut
        self._choice = choice
        self._bursting = False
        self._free_at = 0  # when the last queued byte has left
        self._in_order = 0  # no packet in order may arrive before this
        self.change(settings)

    def change(self, settings: LinkSettings) -> None:
        """Behave like this from now on."""
        self.settings = settings
        self._bursting = self._bursting and settings.burst_begin > 0  # a burst does not outlast its weather
        self._plain = not (settings.loss or settings.burst_begin or settings.reorder or settings.duplicate)

    @property
    def is_plain(self) -> bool:
        """Whether packets are only delayed, never lost by chance, reordered or doubled."""
        return self._plain

    def loses(self) -> bool:
        """Whether the next packet is lost by chance."""
        settings, choice = self.settings, self._choice
        if settings.burst_begin:
            if self._bursting:
                self._bursting = not choice.chance(settings.burst_end)
            else:
                self._bursting = choice.chance(settings.burst_begin)
        lost = choice.chance(settings.burst_loss if self._bursting else settings.loss)
        self.dropped += lost
        return lost

    def departure(self, now: int, size: int) -> int:
        """When a packet of this size has left, or −1 when the queue is full."""
        rate = self.settings.bandwidth_bytes_per_second
        if not rate:
            return now
        begin = max(self._free_at, now)
        if (begin - now) * rate > self.settings.queue_bytes_max * MICROSECONDS:
            self.dropped += 1
            return -1
        self._free_at = begin + -(-size * MICROSECONDS // rate)
        return self._free_at

    def arrival(self, departure: int) -> int:
        """When what left then arrives, behind all that was sent in order before."""
        arrival = departure + self.latency()
        if arrival < self._in_order:
            return self._in_order
        self._in_order = arrival
        return arrival

    def late_arrival(self, departure: int) -> int:
        """When a packet arrives that others may overtake."""
        return departure + self.latency() + self._choice.below(self.settings.reorder_us + 1)

    def latency(self) -> int:
        """One draw from the distribution."""
        settings, choice = self.settings, self._choice
        latency = settings.latency_us
        if settings.jitter_us:
            latency += choice.below(settings.jitter_us + 1)
        if settings.tail_probability and choice.chance(settings.tail_probability):
            latency += choice.below(settings.tail_us + 1)
        return latency

    def reorders(self) -> bool:
        """Whether the next packet is one that others overtake."""
        return bool(self.settings.reorder) and self._choice.chance(self.settings.reorder)

    def duplicates(self) -> bool:
        """Whether the next packet arrives twice."""
        return bool(self.settings.duplicate) and self._choice.chance(self.settings.duplicate)
