"""A run judged by what its records told: each property holds and was exercised, or was not, or needs an exact look.

Implements: [DESIGN 4], verdicts. Deviations: none.
"""

from __future__ import annotations

from isotone.pipeline.conformance.survey.companies import judge_companies
from isotone.pipeline.conformance.survey.facts import Facts
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.people import CLIENTS, DAEMONS, home
from isotone.pipeline.conformance.survey.run import Boundary, Loose, Note, is_settled
from isotone.pipeline.conformance.survey.safe import judge_safe
from isotone.pipeline.conformance.survey.views import judge_views

_ENDS = ("2.15", "2.16", "2.17")


def weigh(records: list[Facts], notes: list[Note], loose: dict[int, list[Loose]] | None) -> Found:
    """The whole run; ``loose`` is by boundary, and none where there were too many."""
    settled, _, components, is_lossy = is_settled(records)
    found = Found(is_lossy=is_lossy)
    for facts in records:
        if facts.odd:
            found.doubt_all(facts.odd)
    if any(note.is_wrong for note in notes) or _is_unexplained(records, notes) or _is_circular(records, notes):
        found.doubt_all("bundles that are not as they were sent")
    if loose is None:
        found.doubt_all("too many bundles that not all had")
    if found.is_odd() or loose is None:
        return found
    for number in (CLIENTS, DAEMONS):
        boundary = Boundary(number, records)
        _take_over(boundary, notes, found)
        judge_views(boundary, found)
        if found.is_odd():
            return found
        judge_companies(boundary, loose.get(number, []), found, is_settled=settled)
        judge_safe(boundary, loose.get(number, []), found, is_settled=settled)
        if settled and components is not None and any(side.is_active for _, side in boundary.sides):
            _judge_precision(boundary, records, components, found)
    if is_lossy or not settled:
        for number in (CLIENTS, DAEMONS):
            found.clear(number, *_ENDS)
    return found


def _is_unexplained(records: list[Facts], notes: list[Note]) -> bool:
    """Whether something is delivered that nobody sent, and it cannot be that the record of its sender lost that."""
    lossy = {(facts.node, facts.incarnation): facts for facts in records if facts.is_lossy}
    for note in notes:
        if note.unsent is not None and note.sender is not None:
            facts = lossy.get(home(note.boundary, note.sender))
            if facts is None or note.unsent <= facts.sides[note.boundary].sent.get(note.sender, -1):
                return True
    return False


def _is_circular(records: list[Facts], notes: list[Note]) -> bool:
    """Whether a node stamped something not above what an earlier incarnation of it had delivered."""
    lowest: dict[tuple[str, int], int] = {}
    for note in notes:
        if note.sender is not None and note.lamport is not None:
            place = home(note.boundary, note.sender)
            lowest[place] = min(lowest.get(place, note.lamport), note.lamport)
    floors: dict[str, int] = {}
    for facts in sorted(records, key=lambda facts: (facts.node, facts.incarnation)):
        if lowest.get((facts.node, facts.incarnation), 1 << 62) <= floors.get(facts.node, -1):
            return True
        if facts.high is not None:
            floors[facts.node] = max(floors.get(facts.node, -1), facts.high[0])
    return False


def _take_over(b: Boundary, notes: list[Note], found: Found) -> None:
    """What records and bundles say by themselves."""
    for _, side in b.sides:
        found.exercise(b.number, *side.exercised)
        found.doubt(b.number, *(id for id in side.doubts if id in _ENDS))
        found.doubt_fully(b.number, *(id for id in side.doubts if id not in _ENDS))
    if sum(side.rows for _, side in b.sides) > 1:
        found.exercise(b.number, "D2.7")
    for note in notes:
        if note.boundary == b.number:
            found.exercise(b.number, *(["2.18"] if note.is_shared else []), *(["2.14.2"] if note.is_safe else []))
            if note.is_altered:
                found.doubt(b.number, "2.6")
            if note.is_placed:
                found.exercise(b.number, "2.9.1", "2.19.1")
    if any(side.is_unsure for _, side in b.sides):
        found.doubt_exercise(b.number, "2.12.2")


def _judge_precision(b: Boundary, records: list[Facts], components: tuple[tuple[str, ...], ...], found: Found) -> None:
    """2.16: in each component the members of a group are in one view with exactly them."""
    seen = {facts.node for facts in records if facts.sides[b.number].is_seen or facts.has_crashed}
    groups: dict[tuple[int, str], dict[str, tuple[str, int] | None]] = {}
    for number, nodes in enumerate(components):
        if b.number == DAEMONS and not seen.issuperset(nodes):
            found.doubt(b.number, "2.16")
        for (node, _), side in b.sides:
            if node not in nodes:
                continue
            for process, group in side.joining:
                groups.setdefault((number, group), {})[process] = None
            for stay in side.stays:
                if not stay.left:
                    groups.setdefault((number, stay.group), {})[stay.process] = (stay.group, stay.hash)
    for places in groups.values():
        found.exercise(b.number, "2.16")
        views = set(places.values())
        (view,) = views if len(views) == 1 else (None,)
        if view is None or b.views[view].members != tuple(sorted(places)):
            found.doubt(b.number, "2.16")
    if b.number == DAEMONS and (b.number, "2.16") in found.doubts and any(map(_is_known_by_messages, records)):
        found.doubt_fully(b.number, "2.16")  # without all of its messages it would seem to be silent


def _is_known_by_messages(facts: Facts) -> bool:
    """Whether a daemon is there, but in no view and not on its way to one."""
    side = facts.sides[DAEMONS]
    return side.is_seen and not (facts.has_crashed or side.stays or side.joining)
