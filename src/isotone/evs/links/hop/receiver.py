"""The receiving half of a hop link: what came, what is missing, and when to ask for it.

Implements: [Spread 4.3, Figure 4.2]. Deviations:
Dh1 the missing range is next_expected … sequence − 1 (lines 10, 32), the line moves if it stood right below the packet
    (line 18), and with nothing missing it is next_expected − 1 (line 27), because the figure would ask for packets that
    arrived and never move its line;
Dh2 the delay before a request adapts to the reordering that was seen; the thesis has a fixed one and suggests this;
Dh3 a packet is given up after a time *and* a number of requests, both from measurements, where the thesis has a fixed
    MaxNACKS: a count alone fails a link under a short outage or heavy loss, a time alone fails it after a pause of this
    process in which nothing was asked;
Dh4 a packet beyond the window is a fault of the peer, because memory must have a bound.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.settings import HopSettings, retry_us

REORDER_MARGIN = 1.5  # the wait is so many times the longest lateness that reordering caused
REORDER_DECAY = 1 / 16  # each packet that was truly lost takes this share off the wait


class Gap(msgspec.Struct, gc=False):
    """One missing packet."""

    noticed_at: int
    due_at: int
    requests: int = 0


class Receiver:
    """Figure 4.2 for one peer; `Hop` sends what this decides."""

    __slots__ = (
        "_missing",
        "_reorder_us",
        "_settings",
        "_timing",
        "all_received_up_to",
        "next_due_at",
        "next_expected",
        "packets_since_acknowledged",
    )

    def __init__(self, settings: HopSettings, timing: Timing) -> None:
        self._settings = settings
        self._timing = timing
        self._missing: OrderedDict[int, Gap] = OrderedDict()  # ascending, since ranges are only added at the end
        self._reorder_us = 0.0  # learned from reordering; the wait is never shorter than `Timing.settle_us`
        self.next_expected = 1  # Next_Packet: above every sequence number known to have been sent
        self.all_received_up_to = 0  # H_ARU: every packet up to here came; below the smallest missing
        self.packets_since_acknowledged = 0
        self.next_due_at: int | None = None  # when the next request is due; may be early, never late

    @property
    def missing(self) -> list[int]:
        """The sequence numbers that are known to be sent and did not come."""
        return list(self._missing)

    @property
    def reorder_us(self) -> int:
        """How long a missing packet may be merely late."""
        return max(int(self._reorder_us), self._timing.settle_us)

    def is_new(self, sequence: int) -> bool:
        """Whether this packet did not come before. Duplicates are recognised as in lines 22 to 28."""
        if sequence > self.all_received_up_to + self._settings.window_max:
            raise RemoteProtocolError("a packet beyond the window")
        return sequence >= self.next_expected or sequence in self._missing

    def take(self, sequence: int, at: int, *, resent: bool) -> None:
        """Note a packet that `is_new`."""
        self.packets_since_acknowledged += 1
        if sequence > self.next_expected:
            self._miss(sequence, at)
            self.next_expected = sequence + 1
        elif sequence == self.next_expected:
            if self.all_received_up_to == self.next_expected - 1:
                self.all_received_up_to = sequence
            self.next_expected = sequence + 1
        else:
            self._learn(self._missing.pop(sequence), at, resent=resent)
            if sequence == self.all_received_up_to + 1:
                smallest = next(iter(self._missing), self.next_expected)
                self.all_received_up_to = smallest - 1

    def announced(self, highest: int, at: int) -> None:
        """The peer says that it has sent up to here; lines 29 to 35."""
        if highest > self.all_received_up_to + self._settings.window_max:
            raise RemoteProtocolError("an announcement beyond the window")
        if highest >= self.next_expected:
            self._miss(highest + 1, at)
            self.next_expected = highest + 1

    def requests_due(self, at: int, count_max: int) -> list[int]:
        """What to ask for now, ascending; what was asked for is due again when an answer must have come."""
        if self.next_due_at is None or at < self.next_due_at:
            return []
        timeout = self._timing.timeout_us
        retry_min, retry_max = retry_us(timeout), self._settings.retry_max_us(timeout)
        due: list[int] = []
        for sequence, gap in self._missing.items():
            if gap.due_at <= at and len(due) < count_max:
                due.append(sequence)
                gap.due_at = at + min(retry_min + timeout * gap.requests // 4, retry_max)
                gap.requests += 1
        self.next_due_at = min((gap.due_at for gap in self._missing.values()), default=None)
        return due

    def failure(self, at: int) -> str | None:
        """Why the link is to be failed, if a packet cannot be recovered; lines 39 and 40."""
        give_up = self._settings.give_up_us(self._timing.timeout_us)
        for sequence, gap in self._missing.items():
            if gap.requests > self._settings.attempts_min and at - gap.noticed_at >= give_up:
                return f"packet {sequence} not received after {gap.requests} requests"
        return None

    def clear(self) -> None:
        """The link failed: ask for nothing."""
        self._missing.clear()
        self.next_due_at = None

    def _miss(self, end: int, at: int) -> None:
        due = at + self.reorder_us
        for sequence in range(self.next_expected, end):
            self._missing[sequence] = Gap(at, due)
        if self.next_due_at is None or due < self.next_due_at:
            self.next_due_at = due

    def _learn(self, gap: Gap, at: int, *, resent: bool) -> None:
        """A packet that came late by itself was reordered: wait longer. One that had to be resent: a little less."""
        if resent:
            self._reorder_us -= self._reorder_us * REORDER_DECAY
        else:
            lateness = (at - gap.noticed_at) * REORDER_MARGIN
            self._reorder_us = min(max(self._reorder_us, lateness), self._timing.timeout_us)
