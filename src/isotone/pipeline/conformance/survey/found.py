"""What a look at a run found: which properties had a chance to be broken, and which need an exact look."""

from __future__ import annotations

from isotone.pipeline.conformance.survey.facts import Stamp


class Found:
    """By boundary and id of the property; ``is_lossy``: of the run rows were lost, so that nothing *holds*."""

    def __init__(self, *, is_lossy: bool = False) -> None:
        self.is_lossy = is_lossy
        self.exercised: dict[tuple[int, str], None] = {}
        self.doubts: dict[tuple[int, str], None] = {}
        self.full: dict[tuple[int, str], None] = {}
        self.heights: dict[tuple[int, Stamp], None] = {}
        self.odd = ""

    def is_odd(self) -> bool:
        """Whether everything needs an exact look."""
        return bool(self.odd)

    def exercise(self, boundary: int, *ids: str) -> None:
        """The premise was true."""
        self.exercised.update(dict.fromkeys((boundary, id) for id in ids))

    def doubt(self, boundary: int, *ids: str) -> None:
        """Whether it holds cannot be said from here."""
        self.doubts.update(dict.fromkeys((boundary, id) for id in ids))

    def doubt_fully(self, boundary: int, *ids: str) -> None:
        """The same, and the loose bundles will not do for an exact look."""
        self.doubt(boundary, *ids)
        self.full.update(dict.fromkeys((boundary, id) for id in ids))

    def doubt_below(self, boundary: int, id: str, stamp: Stamp) -> None:
        """The same, and the bundle of this stamp is needed besides the loose ones."""
        self.doubt(boundary, id)
        self.heights[(boundary, stamp)] = None

    def doubt_exercise(self, boundary: int, id: str) -> None:
        """It is not broken; whether its premise was true cannot be said from here. Of a lossy run nobody asks."""
        if not self.is_lossy and (boundary, id) not in self.exercised:
            self.doubt_fully(boundary, id)

    def clear(self, boundary: int, *ids: str) -> None:
        """Nobody asks for these."""
        for id in ids:
            self.doubts.pop((boundary, id), None)
            self.full.pop((boundary, id), None)

    def doubt_all(self, reason: str) -> None:
        """Nothing can be said from here."""
        self.odd = self.odd or reason
