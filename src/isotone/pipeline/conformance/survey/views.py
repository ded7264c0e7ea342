"""Views: each process's own, and those of two compared.

Implements: [Spread 2.2], [Spread 2.3], [Spread 2.4], [Spread 2.9.2], [Spread 2.19.2], [Spread 2.20]. Deviations:
D-first-view, D-agreement.
"""

from __future__ import annotations

from itertools import pairwise

from isotone.pipeline.conformance.survey.facts import Stay, ViewId
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.run import Boundary

Place = tuple[ViewId | tuple[object, ...], ...]


def comparable(id: ViewId) -> tuple[object, ...]:
    """What orders a view among those of other components: the next daemon view orders nothing."""
    return (*id[:3], *id[6:])


def judge_views(b: Boundary, found: Found) -> None:
    """Everything about views alone."""
    for _, stay in b.stays:
        found.exercise(b.number, "2.2")
        if stay.process not in b.views[(stay.group, stay.hash)].members:
            found.doubt_all("a view without its process")
        _judge_origin(b, stay, found)
    _judge_growth(b, found)
    _judge_company(b, found)
    _judge_agreement(b, found)
    _judge_returns(b, found)


def _judge_origin(b: Boundary, stay: Stay, found: Found) -> None:
    """2.4.1 and 2.4.2."""
    if stay.previous is None:
        found.exercise(b.number, "2.4.1")
        if stay.transitional != (stay.process,):
            found.doubt(b.number, "2.4.1")
        return
    found.exercise(b.number, "2.4.2")
    both = {*b.views[(stay.group, stay.hash)].members} & {*b.views[(stay.group, stay.previous)].members}
    if not both.issuperset(stay.transitional):
        found.doubt(b.number, "2.4.2")


def _judge_growth(b: Boundary, found: Found) -> None:
    """2.3: ids grow under one name."""
    named: dict[tuple[str, str], list[tuple[int, int, ViewId]]] = {}
    for home, stay in b.stays:
        named.setdefault((b.name(stay.process), stay.group), []).append((home[1], stay.at, b.id_of(stay)))
    for places in named.values():
        ids = [id for *_, id in sorted(places)]
        if len(ids) > 1:
            found.exercise(b.number, "2.3")
        if any(later <= earlier for earlier, later in pairwise(ids)):
            found.doubt_all("view ids that do not grow")


def _judge_company(b: Boundary, found: Found) -> None:
    """2.4.3 and 2.4.4: two are in each other's sets exactly when they came from the same view; equal sets then."""
    for stays in b.in_view.values():
        everyone = {stay.process for _, stay in stays}
        together: dict[ViewId, list[Stay]] = {}
        for _, stay in stays:
            if stay.previous is not None:
                together.setdefault(b.views[(stay.group, stay.previous)].id, []).append(stay)
        for _, stay in stays:
            if stay.previous is None:
                if len(everyone) > 1:
                    found.exercise(b.number, "2.4.3")
                if not everyone.intersection(stay.transitional) <= {stay.process}:
                    found.doubt(b.number, "2.4.3")
        for company in together.values():
            found.exercise(b.number, "2.4.3", *(("2.4.4",) if len(company) > 1 else ()))
            expected = {stay.process for stay in company}
            if any(everyone.intersection(stay.transitional) != expected for stay in company):
                found.doubt(b.number, "2.4.3")
            if any(stay.transitional != company[0].transitional for stay in company):
                found.doubt(b.number, "2.4.4")


def _judge_agreement(b: Boundary, found: Found) -> None:
    """2.20: one id, one set of members."""
    ids: dict[tuple[str, ViewId], set[int]] = {}
    for (group, hash), stays in b.in_view.items():
        known = ids.setdefault((group, b.views[(group, hash)].id), set())
        known.add(hash)
        if len(stays) > 1:
            found.exercise(b.number, "2.20")
        if len(known) > 1:
            found.exercise(b.number, "2.20")
            found.doubt_all("one view id with two sets of members")


def _judge_returns(b: Boundary, found: Found) -> None:
    """2.9.2 and 2.19.2: messages of a session that ended are delivered before the view of its name's return."""
    firsts: dict[tuple[str, str], list[tuple[int, int, ViewId]]] = {}
    for home, stay in b.stays:
        if stay.previous is None:
            firsts.setdefault((b.name(stay.process), stay.group), []).append((home[1], stay.at, b.id_of(stay)))
    latest: dict[tuple[str, str], tuple[object, ...]] = {}
    for (group, hash), heard in b.heard.items():
        place = comparable(b.views[(group, hash)].id)
        for sender in (each for _, senders in heard for each in senders):
            if place > latest.get((sender, group), ()):
                latest[(sender, group)] = place
    for (sender, group), place in latest.items():
        ended = b.end_of(sender)
        backs = [each for each in firsts.get((b.name(sender), group), ()) if ended is not None and each[:2] > ended]
        if backs:
            found.exercise(b.number, "2.9.2", "2.19.2")
            if place >= comparable(min(backs)[2]):
                found.doubt_fully(b.number, "2.9.2", "2.19.2")
