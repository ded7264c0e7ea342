"""Broadcasts of one process that are not delivered here yet, and which of them are on their way to the primary.

A few batches are under way at a time. What the primary has ordered makes room; an answer that says nothing new does
not, so the counters never run away from one that was lost. What is late is submitted again from the first one on.

Implements: [HAB Figure 3], ``broadcast``; [HAB Figures 4 and 5], HA-Broadcast. Deviations: Dh5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from isotone.hab.settings import HabSettings


@dataclass
class Pending:
    """A broadcast: the application's number for it, and our own, dense from 1."""

    request: int
    counter: int
    record: bytes


@dataclass
class Submissions:
    """Of one process, in one life of its centre."""

    settings: HabSettings
    pending: deque[Pending] = field(default_factory=deque)
    last: int = 0  # the counter of the newest broadcast
    ordered: int = 0  # (this epoch) counters up to here are ordered
    answered: bool = False  # the primary answered since the last look
    measurements = frozenset({"_since"})
    _submitted: int = 0  # (this epoch) counters up to here are on their way
    _under_way: deque[int] = field(default_factory=deque)  # the last counter of each batch that is not ordered
    _since: int = 0  # nothing was ordered since then, though something is under way

    def begin(self, request: int, record: bytes) -> int:
        """The counter of a new broadcast."""
        self.last += 1
        self.pending.append(Pending(request, self.last, record))
        return self.last

    def due(self, at: int) -> Iterator[list[Pending]]:
        """The next batches, as many as there is room for; each is on its way then."""
        while len(self._under_way) < self.settings.stores_under_way_max and (batch := self._next_batch()):
            if not self._under_way:
                self._since = at
            self._submitted = batch[-1].counter
            self._under_way.append(self._submitted)
            yield batch

    def _next_batch(self) -> list[Pending]:
        found: list[Pending] = []
        size = 0
        skip = self._submitted + 1 - self.pending[0].counter if self.pending else 0
        for place in range(max(0, skip), len(self.pending)):
            each = self.pending[place]
            size += len(each.record)
            if found and (len(found) >= self.settings.batch_max or size > self.settings.batch_bytes_max):
                break
            found.append(each)
        return found

    def note_ordered(self, counter: int, at: int) -> None:
        """The primary has ordered broadcasts up to here."""
        self.ordered = max(self.ordered, counter)
        self._submitted = max(self._submitted, self.ordered)
        while self._under_way and self._under_way[0] <= self.ordered:
            self._under_way.popleft()
            self._since = at

    def is_late(self, at: int) -> bool:
        """Whether the first one under way is not ordered in time."""
        return bool(self._under_way) and at - self._since >= self.settings.answer_us

    def again(self) -> None:
        """What is not ordered is submitted again."""
        self._submitted = self.ordered
        self._under_way.clear()

    def begin_epoch(self) -> None:
        """What is not delivered is submitted again: the primary is another one."""
        self.ordered = self.pending[0].counter - 1 if self.pending else self.last
        self.again()

    def delivered(self, counter: int) -> list[int]:
        """The requests that are done with the delivery of this one."""
        done: list[int] = []
        while self.pending and self.pending[0].counter <= counter:
            done.append(self.pending.popleft().request)
        return done

    def give_up(self) -> list[int]:
        """Begin anew, with counters from 1; the requests of which nobody will know."""
        left = [each.request for each in self.pending]
        self.pending.clear()
        self.last = self.ordered = 0
        self.again()
        return left
