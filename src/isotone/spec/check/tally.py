"""The account of one boundary: what was exercised, and the first witness against each property.

Candidates come in any order, since rows do; the smallest witness stays (ties: the smaller sentence), so the outcome
depends on the run alone. Numbers in sentences count as numbers, so that of several messages the first is named.

Implements: [DESIGN 4], verdicts and witnesses. Deviations: none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.spec.verdicts import EventId, State, Verdict, Violation

LIVENESS = frozenset(each.id for each in PROPERTIES if each.form is Form.LIVENESS)


class Tally:
    """Exercised ids, accusations and doubts at one boundary; ids stand without the ``EVS-``."""

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.exercised: set[str] = set()
        self._doubted: set[str] = set()
        self._first: dict[str, tuple[tuple[EventId, ...], str]] = {}

    def accuse(self, id: str, events: Iterable[EventId], explanation: str) -> None:
        """A candidate violation; kept if its witness is the first so far."""
        witness = tuple(sorted(set(events)))
        self.exercised.add(id)
        best = self._first.get(id)
        if best is not None and witness > best[0]:
            return
        if best is None or witness < best[0] or _natural(explanation) < _natural(best[1]):
            self._first[id] = (witness, explanation)

    def doubt(self, *ids: str) -> None:
        """Something was judged without all that the property needs: it can no longer be said to hold."""
        self._doubted.update(ids)

    def verdicts(self, *, lossy: bool, liveness: State | None) -> dict[str, Verdict]:
        """All verdicts. ``liveness`` overrules those of the liveness properties where the run does not allow them."""
        found = {}
        for each in PROPERTIES:
            if self.boundary not in each.boundaries or each.form is Form.DEFINITION:
                continue
            overruled = liveness if each.form is Form.LIVENESS else None
            found[each.label(self.boundary)] = self._verdict(each.id, lossy=lossy, overruled=overruled)
        return found

    def _verdict(self, full_id: str, *, lossy: bool, overruled: State | None) -> Verdict:
        id = full_id.removeprefix("EVS-")
        if id in self._first and overruled is None:
            witness, explanation = self._first[id]
            return Verdict(State.VIOLATED, Violation(full_id, witness, explanation))
        if lossy or overruled is State.NOT_JUDGED or id in self._doubted:
            return Verdict(State.NOT_JUDGED)
        if overruled is not None or id not in self.exercised:
            return Verdict(State.NOT_EXERCISED)
        return Verdict(State.HOLDS)


def _natural(sentence: str) -> list[tuple[str, int]]:
    """A key that sorts numbers by value."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", sentence)]
