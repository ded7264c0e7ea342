"""SAFE: when one process delivers, all members have it, or those who go on together.

Implements: [Spread 2.14.2], [Spread 2.14.3]. Deviations: D-other-side.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from isotone.pipeline.conformance.survey.cohorts import SAFE
from isotone.pipeline.conformance.survey.companies import bare
from isotone.pipeline.conformance.survey.facts import ENDED, INSTALLED, LEFT, LOST, Stay, View, ViewId
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.people import DAEMONS
from isotone.pipeline.conformance.survey.run import Boundary, Held, Loose, ViewKey
from isotone.pipeline.conformance.survey.views import comparable


class Unsure(Exception):
    """Of a member nothing is recorded."""


def judge_safe(b: Boundary, loose: list[Loose], found: Found, *, is_settled: bool) -> None:
    """Of the loose bundles; the plain ones are had by everyone."""
    ways = _Ways(b)
    for each in loose:
        if each.service != SAFE:
            continue
        by_view: dict[ViewKey, list[Held]] = {}
        for held in each.held:
            if held.stay is not None:
                by_view.setdefault((held.stay.group, held.stay.hash), []).append(held)
        for key, holders in by_view.items():
            try:
                members = _Members(b, ways, b.views[key], each, is_settled=is_settled)
                _judge(b, b.views[key], holders, members, found)
            except Unsure:
                found.doubt_fully(b.number, "2.14.2", "2.14.3")


class Way:
    """The stays of one process in one group; their ids grow, as `judge_views` has seen."""

    def __init__(self, b: Boundary, stays: list[Stay]) -> None:
        placed = [(b.id_of(stay), stay) for stay in stays]
        highest: dict[int, tuple[object, ...]] = {}
        for id, stay in placed:
            highest[stay.membership] = max(highest.get(stay.membership, ()), comparable(id))
        self.here = {stay.hash: stay for stay in stays}
        self.last = placed[-1][0]
        self._came = [(id[:3], stay.at) for id, stay in placed if bare(id)]
        self._left = [(id, highest[stay.membership], stay.left_at) for id, stay in placed if stay.left == LEFT]

    def step(self, view: ViewId) -> int | None:
        """Where it is too late for what others had in a view: it came to a later daemon view, or left from there on."""
        place = bisect_right(self._came, view[:3], key=itemgetter(0))
        steps = [at for _, at in self._came[place : place + 1]]
        for place in range(bisect_left(self._left, view, key=itemgetter(0)), len(self._left)):
            _, highest, left_at = self._left[place]
            if highest >= comparable(view):
                steps.append(left_at)
                break
        return min(steps, default=None)


class _Ways:
    """All of them, each made when it is asked for."""

    def __init__(self, b: Boundary) -> None:
        self._b = b
        self._known: dict[tuple[str, str], Way] = {}

    def get(self, process: str, group: str) -> Way | None:
        """None: no view of the group is recorded of it."""
        place = (process, group)
        if place not in self._known and place in self._b.by_place:
            self._known[place] = Way(self._b, self._b.by_place[place])
        return self._known.get(place)


class _Members:
    """Whether a member of a view has a message (true), owes it (false), or is excused (none)."""

    def __init__(self, b: Boundary, ways: _Ways, view: View, message: Loose, *, is_settled: bool) -> None:
        self._b = b
        self._ways = ways
        self._view = view
        self._rows = {held.process: held.row for held in message.held}
        self._is_settled = is_settled
        self._known: dict[str, bool | None] = {}

    def __getitem__(self, member: str) -> bool | None:
        if member not in self._known:
            self._known[member] = self._state(member)
        return self._known[member]

    def _state(self, member: str) -> bool | None:
        way = self._ways.get(member, self._view.group)
        if way is not None:
            return self._daemon(member, way) if self._b.number == DAEMONS else self._client(member, way)
        if self._b.is_lost(member):
            return None
        raise Unsure

    def _owes_at_end(self, member: str) -> bool | None:
        is_there = member not in self._b.ended and not self._b.is_lost(member)
        return False if self._is_settled and is_there else None

    def _client(self, member: str, way: Way) -> bool | None:
        """In whatever view, before the step by which it is too late."""
        delivered, step = self._rows.get(member), way.step(self._view.id)
        if delivered is not None and (step is None or delivered < step):
            return True
        return False if step is not None else self._owes_at_end(member)

    def _daemon(self, member: str, way: Way) -> bool | None:
        """In the view; who never came to it owes it when it came to a later one."""
        here = way.here.get(self._view.hash)
        if here is None:
            return False if way.last > self._view.id else self._owes_at_end(member)
        delivered = self._rows.get(member)
        if delivered is not None and (not here.left or delivered < here.left_at):
            return True
        if here.left in (ENDED, LOST) or (not here.left and not self._is_settled):
            return None
        return False


def _judge(b: Boundary, view: View, holders: list[Held], members: _Members, found: Found) -> None:
    """What is had by as many as the view has members is fine; else each member is looked at."""
    before = [held.process for held in holders if not held.is_late]
    late = [held for held in holders if held.is_late and held.stay is not None and held.stay.left == INSTALLED]
    if len(holders) >= len(view.members):
        if before and len(view.members) > 1:
            found.exercise(b.number, "2.14.2")
        for held in late:
            if held.stay is not None and {*held.stay.next_transitional} & {*view.members} - {held.process}:
                found.exercise(b.number, "2.14.3")
        return
    for process in before:
        _owed(b, "2.14.2", [each for each in view.members if each != process], members, found)
    for held in late:
        mates = () if held.stay is None else held.stay.next_transitional
        owing = [each for each in view.members if each != held.process and each in mates]
        _owed(b, "2.14.3", owing, members, found)


def _owed(b: Boundary, id: str, others: list[str], members: _Members, found: Found) -> None:
    for member in others:
        state = members[member]
        if state is not None:
            found.exercise(b.number, id)
        if state is False:
            found.doubt(b.number, id)
