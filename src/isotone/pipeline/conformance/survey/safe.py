"""SAFE: when one process delivers, all members have it, or those who go on together.

Implements: [Spread 2.14.2], [Spread 2.14.3]. Deviations: D-other-side.
"""

from __future__ import annotations

from isotone.pipeline.conformance.survey.cohorts import SAFE
from isotone.pipeline.conformance.survey.companies import bare
from isotone.pipeline.conformance.survey.facts import ENDED, INSTALLED, LEFT, View
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.people import DAEMONS
from isotone.pipeline.conformance.survey.run import Boundary, Held, Loose, ViewKey
from isotone.pipeline.conformance.survey.views import comparable


class Unsure(Exception):
    """Of a member nothing is recorded."""


def judge_safe(b: Boundary, loose: list[Loose], found: Found, *, is_settled: bool) -> None:
    """Of the loose bundles; the plain ones are had by everyone."""
    for each in loose:
        if each.service != SAFE:
            continue
        by_view: dict[ViewKey, list[Held]] = {}
        for held in each.held:
            if held.stay is not None:
                by_view.setdefault((held.stay.group, held.stay.hash), []).append(held)
        for key, holders in by_view.items():
            try:
                _judge(b, b.views[key], holders, _Members(b, b.views[key], each, is_settled=is_settled), found)
            except Unsure:
                found.doubt_fully(b.number, "2.14.2", "2.14.3")


class _Members:
    """Whether a member of a view has a message (true), owes it (false), or is excused (none)."""

    def __init__(self, b: Boundary, view: View, message: Loose, *, is_settled: bool) -> None:
        self._b = b
        self._view = view
        self._rows = {held.process: held.row for held in message.held}
        self._is_settled = is_settled
        self._known: dict[str, bool | None] = {}

    def __getitem__(self, member: str) -> bool | None:
        if member not in self._known:
            self._known[member] = self._daemon(member) if self._b.number == DAEMONS else self._client(member)
        return self._known[member]

    def _owes_at_end(self, member: str) -> bool | None:
        return False if self._is_settled and member not in self._b.ended else None

    def _client(self, member: str) -> bool | None:
        """In whatever view, before the step by which it is too late."""
        stays = self._b.by_place.get((member, self._view.group))
        if stays is None:
            raise Unsure
        delivered, step = self._rows.get(member), self._step(member)
        if delivered is not None and (step is None or delivered < step):
            return True
        return False if step is not None else self._owes_at_end(member)

    def _step(self, member: str) -> int | None:
        """It came to a later daemon view, or left from this view or a later one."""
        view, b = self._view.id, self._b
        stays = b.by_place[(member, self._view.group)]
        highest: dict[int, tuple[object, ...]] = {}
        for stay in stays:
            highest[stay.membership] = max(highest.get(stay.membership, ()), comparable(b.id_of(stay)))
        steps = [stay.at for stay in stays if bare(b.id_of(stay)) and b.id_of(stay)[:3] > view[:3]]
        steps += [
            stay.left_at
            for stay in stays
            if stay.left == LEFT and b.id_of(stay) >= view and highest[stay.membership] >= comparable(view)
        ]
        return min(steps, default=None)

    def _daemon(self, member: str) -> bool | None:
        """In the view; who never came to it owes it when it came to a later one."""
        stays = self._b.by_place.get((member, self._view.group))
        if stays is None:
            raise Unsure
        here = next((stay for stay in stays if stay.hash == self._view.hash), None)
        if here is None:
            later = max(self._b.id_of(stay) for stay in stays) > self._view.id
            return False if later else self._owes_at_end(member)
        delivered = self._rows.get(member)
        if delivered is not None and (not here.left or delivered < here.left_at):
            return True
        if here.left == ENDED or (not here.left and not self._is_settled):
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
