"""Lines: up to which Lamport time is everything known, and up to which is it known that everyone knows.

Implements: [Spread 5.1], AgreedLine and ARU.
Deviations: D-line lines are Lamport times, derived from contiguous sequences and promises, because the thesis compares
time stamps with a line made of sequence numbers; a unit is below a line when its time is at most the line. D-cut a
report counts when everything has come that its site had stamped when it said so: whoever knows a cut to be everywhere
has all units of daemons that had not received it.

A *promise* (sequence s, time t) of a site says: of my units, those with a time of at most t have a sequence of at most
s. Every unit is a promise about itself; updates are promises of silent sites.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

PROMISES_MAX = 64


@dataclass
class SiteLine:
    """What this daemon knows about one site's stream."""

    contiguous: int = 0  # every sequence up to here was received, perhaps as metadata
    heard: int = 0  # every unit of the site with a time of at most this was received, perhaps as metadata
    received_everywhere: int = 0  # the site's own agreed line, as its slowest daemon reported it
    _reports: deque[tuple[int, int]] = field(default_factory=deque)  # sequence and line that wait for it, both growing
    _last_time: int = 0  # of the last contiguous unit
    _promises: deque[tuple[int, int]] = field(default_factory=deque)  # out of reach, both parts growing
    _cleared: int = 0  # of metadata up to this time, content is missing only where it is owed
    _bare: dict[int, int] = field(default_factory=dict)  # sequence to time of metadata that may lack content
    _order: deque[int] = field(default_factory=deque)  # these sequences, and some that were filled; the first is bare
    _owed: dict[int, None] = field(default_factory=dict)  # sequences whose content the source sent here in addition

    @property
    def line(self) -> int:
        """Every unit of the site with a time of at most this was received, with the content that is owed here."""
        if not self._order:
            return self.heard
        return min(self.heard, self._bare[self._order[0]] - 1)

    @property
    def first_bare(self) -> int | None:
        """The first sequence of which metadata is here and content is owed, or may be."""
        return self._order[0] if self._order else None

    @property
    def promised(self) -> int:
        """The highest sequence that the stream itself or a promise says to exist."""
        return self._promises[-1][0] if self._promises else self.contiguous

    def bare(self, sequence: int, lamport: int) -> None:
        """Metadata of an AGREED or SAFE unit came; call in the order of sequences, before `advance`."""
        if lamport > self._cleared or sequence in self._owed:
            self._bare[sequence] = lamport
            self._order.append(sequence)

    def filled(self, sequence: int) -> None:
        """Content came for a unit whose metadata was here."""
        self._bare.pop(sequence, None)
        self._owed.pop(sequence, None)
        self._pass_bare()

    def clear(self, lamport: int, owed: Sequence[int]) -> None:
        """The source knows of every join up to this time; these sequences it sent here in addition."""
        self._cleared = max(self._cleared, lamport)
        for sequence in owed:
            if sequence > self.contiguous or sequence in self._bare:
                self._owed[sequence] = None
        self._pass_bare()

    def _pass_bare(self) -> None:
        """From the first on: what is behind one that is still bare moves no line."""
        order, bare = self._order, self._bare
        while order:
            time = bare.get(order[0])
            if time is not None and (time > self._cleared or order[0] in self._owed):
                return
            bare.pop(order.popleft(), None)

    def follows(self, lamport: int) -> bool:
        """Whether the next unit of the stream can have this time: times grow with sequences."""
        return lamport > self._last_time

    def advance(self, sequence: int, lamport: int) -> bool:
        """The stream is now contiguous through this unit; True when a report counts now that waited for it."""
        assert sequence == self.contiguous + 1 and self.follows(lamport), (sequence, self.contiguous, lamport)
        self.contiguous = sequence
        self._last_time = lamport
        if sequence not in self._bare:
            self._owed.pop(sequence, None)  # it came with its content
        self.heard = max(self.heard, lamport)
        while self._promises and self._promises[0][0] <= sequence:
            self.heard = max(self.heard, self._promises.popleft()[1])
        before = self.received_everywhere
        while self._reports and self._reports[0][0] <= sequence:
            self.received_everywhere = self._reports.popleft()[1]
        return self.received_everywhere > before

    def promise(self, sequence: int, lamport: int) -> bool:
        """Take a promise; True when the line rose at once."""
        if sequence > self.contiguous:
            self._keep(sequence, lamport)
            return False
        if lamport <= self.heard:
            return False
        self.heard = lamport
        return True

    def report(self, sequence: int, line: int) -> bool:
        """Take a report of when the site's sequence was at this; True when the line counts at once, and is news."""
        if line <= (self._reports[-1][1] if self._reports else self.received_everywhere):
            return False
        if sequence > self.contiguous:
            sequence = max(sequence, self._reports[-1][0] if self._reports else 0)
            if len(self._reports) == PROMISES_MAX:
                self._reports.pop()  # this one implies it; the first goes first, so that one of them comes to count
            self._reports.append((sequence, line))
            return False
        self._reports.clear()
        self.received_everywhere = line
        return True

    def _keep(self, sequence: int, lamport: int) -> None:
        newest = self._promises[-1] if self._promises else (0, 0)
        if sequence < newest[0] or lamport <= newest[1]:
            return  # an older one that was overtaken says nothing new
        if len(self._promises) == PROMISES_MAX:
            self._promises.popleft()  # a later one implies it, only later
        self._promises.append((sequence, lamport))


@dataclass
class Lines:
    """The lines of all sites of a daemon view, seen from one daemon."""

    sites: list[SiteLine]
    stable: int = 0  # everything with a time of at most this has been received by every daemon of the view

    @classmethod
    def of(cls, count: int) -> Lines:
        """For a view of this many sites."""
        return cls([SiteLine() for _ in range(count)])

    @property
    def agreed(self) -> int:
        """Everything with a time of at most this has been received here."""
        sites = self.sites
        return sites[0].line if len(sites) == 1 else min(site.line for site in sites)

    @property
    def heard(self) -> int:
        """Everything with a time of at most this has been heard of here, though content may be missing."""
        return min(site.heard for site in self.sites)

    def report(self, site: int, received_everywhere: int, *, sequence: int = 0) -> bool:
        """A site that had stamped up to this sequence says up to where all its daemons have received everything.

        True when that is news and counts now.
        """
        if not self.sites[site].report(sequence, received_everywhere):
            return False
        self.reported()
        return True

    def reported(self) -> None:
        """A report counts now."""
        self.stable = min(each.received_everywhere for each in self.sites)

    def slowest(self) -> list[int]:
        """The sites that hold the agreed line back; for `explain`."""
        agreed = self.agreed
        return [index for index, site in enumerate(self.sites) if site.line == agreed]
