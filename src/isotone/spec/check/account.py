"""Exercised ids and the first witness against each, for the properties of one layer above group communication."""

from __future__ import annotations

from collections.abc import Iterable

from isotone.spec.properties import Form, Property
from isotone.spec.verdicts import EventId, State, Verdict, Violation
from isotone.trace.events import Row


class Account:
    """Of one run; ids stand without the prefix that all properties of the layer share, such as ``COR-``."""

    def __init__(self, properties: tuple[Property, ...]) -> None:
        self._properties = properties
        self.exercised: set[str] = set()
        self._first: dict[str, tuple[tuple[EventId, ...], str]] = {}
        self._first_proven: dict[str, tuple[tuple[EventId, ...], str]] = {}

    def accuse(self, id: str, events: Iterable[EventId], explanation: str, *, proven: bool = False) -> None:
        """A candidate violation; kept if its witness is the first so far.

        ``proven``: these events alone prove it, whatever other rows were lost.
        """
        candidate = (tuple(sorted(set(events))), explanation)
        self.exercised.add(id)
        for known in (self._first, self._first_proven) if proven else (self._first,):
            if id not in known or candidate < known[id]:
                known[id] = candidate

    def verdicts(self, *, lossy: bool, liveness: State | None) -> dict[str, Verdict]:
        """All verdicts; lost rows leave only what the rows at hand prove."""
        return {
            each.id: self._verdict(each.id, lossy, liveness if each.form is Form.LIVENESS else None)
            for each in self._properties
        }

    def _verdict(self, full_id: str, lossy: bool, overruled: State | None) -> Verdict:
        id = full_id.partition("-")[2]
        found = (self._first_proven if lossy else self._first).get(id)
        if found is not None:
            return Verdict(State.VIOLATED, Violation(full_id, *found))
        if lossy or overruled is State.NOT_JUDGED:
            return Verdict(State.NOT_JUDGED)
        return Verdict(State.HOLDS if id in self.exercised else State.NOT_EXERCISED)


class CollectedRows:
    """The rows of one layer of one run, kept until the end: for checkers that judge a run as a whole."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._is_torn = False

    def __len__(self) -> int:
        return len(self._rows)

    def feed(self, row: Row) -> None:
        """Take one row of the layer's entries."""
        self._rows.append(row)

    def lose(self, row: Row) -> None:
        """Rows of this node are missing here: the run is not whole, and nothing of the layer is judged."""
        self._is_torn = True

    def missing(self) -> set[str]:
        """Nodes that others name, and of which there is no row; layers over daemons leave that to these."""
        return set()
