"""A run as its records told it: views, stays and ends of all nodes together, and the loose bundles row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from isotone.pipeline.conformance.survey.facts import Facts, Side, Stamp, Stay, View, ViewId
from isotone.pipeline.conformance.survey.people import lasting_name

ViewKey = tuple[str, int]
"""Group, and the hash of id and members."""
Home = tuple[str, int]


class Held(NamedTuple):
    """A delivery of a loose bundle by one process; ``stay`` is none outside views."""

    process: str
    home: Home
    row: int
    is_late: bool
    stay: Stay | None


class Loose(NamedTuple):
    """A loose bundle in one group."""

    sender: str
    first: int
    group: str
    service: int
    stamp: Stamp
    held: list[Held]
    sent: tuple[Home, int, int, bool] | None
    """Where its sender was: home, row, view (0: none), whether it counts for 2.9.1."""


class Note(NamedTuple):
    """What the bundles of a sender, or all of a boundary, say in sum."""

    boundary: int
    sender: str | None
    is_wrong: bool
    lamport: int | None
    is_shared: bool
    is_placed: bool
    is_safe: bool
    is_altered: bool = False


class Boundary:
    """One boundary of a run."""

    def __init__(self, number: int, records: list[Facts]) -> None:
        self.number = number
        self.sides: list[tuple[Home, Side]] = [
            ((facts.node, facts.incarnation), facts.sides[number]) for facts in records
        ]
        self.views: dict[ViewKey, View] = {}
        self.stays: list[tuple[Home, Stay]] = []
        self.in_view: dict[ViewKey, list[tuple[Home, Stay]]] = {}
        self.ended: dict[str, tuple[int, int]] = {}  # process: incarnation and row
        self.by_place: dict[tuple[str, str], list[Stay]] = {}
        for home, side in self.sides:
            self.ended.update({process: (home[1], index) for process, index in side.ended.items()})
            for view in side.views:
                self.views.setdefault((view.group, view.hash), view)
            for stay in side.stays:
                self.stays.append((home, stay))
                self.in_view.setdefault((stay.group, stay.hash), []).append((home, stay))
                self.by_place.setdefault((stay.process, stay.group), []).append(stay)
        self.asked = {(process, group): index for _, side in self.sides for process, group, index in side.asked}

    def id_of(self, stay: Stay) -> ViewId:
        """The id of the view of a stay."""
        return self.views[(stay.group, stay.hash)].id

    def name(self, process: str) -> str:
        """What stays over sessions."""
        return lasting_name(self.number, process)

    def companies(self) -> Iterator[list[Stay]]:
        """Stays that were left together with others for the same view."""
        for stays in self.in_view.values():
            together: dict[ViewId, list[Stay]] = {}
            for _, stay in stays:
                if stay.next is not None:
                    together.setdefault(stay.next, []).append(stay)
            yield from (each for each in together.values() if len(each) > 1)

    def stay_at(self, process: str, group: str, index: int) -> Stay | None:
        """The stay that a row of a process falls into."""
        for stay in self.by_place.get((process, group), ()):
            if stay.at < index and (not stay.left or index < stay.left_at):
                return stay
        return None


def is_settled(records: Iterable[Facts]) -> tuple[bool, bool | None, tuple[tuple[str, ...], ...] | None, bool]:
    """Whether the run had a stable, quiet end; how quiet; its components; whether rows were lost."""
    driver = [facts for facts in records if not facts.node]
    stable = max(((each.incarnation, each.stable_at) for each in driver if each.stable_at >= 0), default=None)
    end = max(((each.incarnation, each.end_at) for each in driver if each.end_at >= 0), default=None)
    by_number = {each.incarnation: each for each in driver}
    quiet = by_number[end[0]].quiet if end is not None and (stable is None or end > stable) else None
    components = by_number[stable[0]].components if stable is not None else None
    return stable is not None and bool(quiet), quiet, components, any(facts.is_lossy for facts in records)
