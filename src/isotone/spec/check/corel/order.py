"""The one green order, as all servers tell it: Agreed Green, and what stands before each place.

Implements: [COReL 5.4, Agreed Green]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isotone.spec.check.account import Account
from isotone.spec.check.corel.trail import Trail, Vector, event_of, parted
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace


class GreenOrder:
    """Place by place: the message, and who said so first by event id."""

    def __init__(self, trails: Sequence[Trail], account: Account, earlier: GreenOrder | None = None) -> None:
        self.names: dict[int, str] = {}
        self.places: dict[str, int] = {}
        self.in_primary: dict[int, tuple[int, EventId]] = {}  # the highest place greened in the context of each
        self.by_proposal: dict[int, tuple[int, EventId]] = {}  # the same, where a proposal was applied in its epoch
        self._first: dict[int, EventId] = {}
        self._digests: dict[str, tuple[EventId, int, str]] = {}  # of each message, as it was sent or first told green
        self._account = account
        self._prefixes: dict[int, Vector] = {}
        told = sorted(
            ((event_of(row), row.entry) for trail in trails for row in trail.rows),
            key=lambda each: each[0],
        )
        for event, entry in told:
            if isinstance(entry, trace.Initiated):
                self._judge_sent(event, entry)
        for event, entry in told:
            if isinstance(entry, trace.Greened):
                self._take(event, entry)
        if earlier is not None:
            self._fill(earlier, trails)
        found = [trail.rows[0].entry for trail in trails if trail.rows]
        lines = [entry.green for entry in found if isinstance(entry, trace.ReplicaStarted)]
        lines += [entry.place for _, entry in told if isinstance(entry, trace.StateInstalled)]
        self.highest = max([*self.names, *lines], default=0)  # place that anybody told as green, or brought along

    def _fill(self, earlier: GreenOrder, trails: Iterable[Trail]) -> None:
        """What a server has green by a state or a copy, others told before they were left behind."""
        lines = [trail.copied_green for trail in trails]
        lines += [
            row.entry.place for trail in trails for row in trail.rows if isinstance(row.entry, trace.StateInstalled)
        ]
        for place in range(1, max(lines, default=0) + 1):
            if place not in self.names and place in earlier.names:
                self.names[place] = earlier.names[place]
                self.places.setdefault(earlier.names[place], place)

    def _take(self, event: EventId, entry: trace.Greened) -> None:
        for place, name in enumerate(entry.messages, entry.place):
            if place in self._first:
                self._account.exercised.add("AGREED")
                self._compare(event, place, name)
            else:
                self.names[place] = name
                self._first[place] = event
            elsewhere = self.places.setdefault(name, place)
            if elsewhere != place:
                text = f"{name} is green at {elsewhere} and at {place}."
                self._account.accuse("AGREED", (event, self._first[elsewhere]), text, proven=True)
        for name, digest in zip(entry.messages, entry.digests, strict=False):  # their number is judged elsewhere
            self._compare_content(event, name, digest)
        last = entry.place + len(entry.messages) - 1
        known = self.by_proposal if entry.proposal else self.in_primary
        if last > known.get(entry.primary, (0, event))[0]:
            known[entry.primary] = (last, event)

    def _compare(self, event: EventId, place: int, name: str) -> None:
        if self.names[place] != name:
            self._account.accuse(
                "AGREED",
                (event, self._first[place]),
                f"At place {place} one server has {self.names[place]} green, another {name}.",
                proven=True,
            )

    def _judge_sent(self, event: EventId, entry: trace.Initiated) -> None:
        """A name is given once: two messages of one name would be two contents at one place."""
        known = self._digests.setdefault(entry.message, (event, entry.digest, "was sent"))
        if known[1] != entry.digest:
            text = f"{entry.message} was sent twice, with two contents."
            self._account.accuse("AGREED", (event, known[0]), text, proven=True)

    def _compare_content(self, event: EventId, name: str, digest: int) -> None:
        """With what was sent, or if no row tells that, with what another server has."""
        known = self._digests.setdefault(name, (event, digest, "has at another server"))
        if known[0] != event:
            self._account.exercised.add("AGREED")
        if known[1] != digest:
            text = f"{name} is green with another content than it {known[2]}."
            self._account.accuse("AGREED", (event, known[0]), text, proven=True)

    def prefix(self, place: int) -> Vector:
        """Of each origin the last message at a place up to this one."""
        found = self._prefixes.get(place)
        if found is None:
            start = max((known for known in self._prefixes if known < place), default=0)
            found = dict(self._prefixes.get(start, {}))
            for each in range(start + 1, place + 1):
                name = self.names.get(each)
                if name is not None:
                    origin, counter = parted(name)
                    found[origin] = max(counter, found.get(origin, 0))
            self._prefixes[place] = found
        return dict(found)

    def owed(self, primary: int, *, including: bool) -> tuple[int, EventId | None]:
        """The highest place greened in the context of a primary below this one, or of it too.

        What a proposal ordered is owed by later primaries only: who accepted it need not know that all did.
        """
        best: tuple[int, EventId | None] = (0, None)
        for known, limit in ((self.in_primary, primary + including), (self.by_proposal, primary)):
            for number, (place, event) in known.items():
                if number < limit and place > best[0]:
                    best = (place, event)
        return best
