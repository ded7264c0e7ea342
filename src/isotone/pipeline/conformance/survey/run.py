"""A run as its records told it: views, stays and ends of all nodes together, and the loose bundles row by row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from isotone.pipeline.conformance.survey.facts import Facts, Side, Stamp, Stay, View, ViewId
from isotone.pipeline.conformance.survey.people import home, lasting_name

ViewKey = tuple[str, int]
"""Group, and the hash of id and members."""
Home = tuple[str, int]
NEVER = 1 << 62
"""A row behind all others."""


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
    unsent: int | None = None
    """The lowest sequence of those of which there is no send."""


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
        self.heard: dict[ViewKey, list[tuple[Home, dict[str, Stamp | None]]]] = {}  # `Side.heard` of all records
        self.ended: dict[str, tuple[int, int]] = {}  # process: incarnation and row
        self.lossy = {(facts.node, facts.incarnation) for facts in records if facts.is_lossy}
        self._newest = {facts.node: facts.incarnation for facts in sorted(records, key=_by_incarnation)}
        self.by_place: dict[tuple[str, str], list[Stay]] = {}
        for place, side in self.sides:
            self.ended.update({process: (place[1], index) for process, index in side.ended.items()})
            for group, hash, senders in side.heard:
                self.heard.setdefault((group, hash), []).append((place, senders))
            for view in side.views:
                self.views.setdefault((view.group, view.hash), view)
            for stay in side.stays:
                self.stays.append((place, stay))
                self.in_view.setdefault((stay.group, stay.hash), []).append((place, stay))
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
        stays = self.by_place.get((process, group), [])
        place = bisect_left(stays, index, key=lambda stay: stay.at) - 1
        if place < 0 or (stays[place].left and index >= stays[place].left_at):
            return None
        return stays[place]

    def is_lost(self, process: str) -> bool:
        """Whether the end of the record of its home is lost, so that it owes nothing."""
        return home(self.number, process) in self.lossy

    def end_of(self, process: str) -> tuple[int, int] | None:
        """Where it ended, as incarnation and row; if that is lost and its node went on, behind all."""
        if process in self.ended or not self.is_lost(process):
            return self.ended.get(process)
        node, incarnation = home(self.number, process)
        return (incarnation, NEVER) if self._newest[node] > incarnation else None


def _by_incarnation(facts: Facts) -> int:
    return facts.incarnation


def is_settled(records: Iterable[Facts]) -> tuple[bool, bool | None, tuple[tuple[str, ...], ...] | None, bool]:
    """Whether the run had a stable, quiet end; how quiet; its components; whether rows were lost."""
    driver = [facts for facts in records if not facts.node]
    stable = max(((each.incarnation, each.stable_at) for each in driver if each.stable_at >= 0), default=None)
    end = max(((each.incarnation, each.end_at) for each in driver if each.end_at >= 0), default=None)
    by_number = {each.incarnation: each for each in driver}
    quiet = by_number[end[0]].quiet if end is not None and (stable is None or end > stable) else None
    components = by_number[stable[0]].components if stable is not None else None
    return stable is not None and bool(quiet), quiet, components, any(facts.is_lossy for facts in records)
