"""Processes compared: who had the loose bundles of a view, and who left it with whom.

Plain bundles were had by all members alike, so differences can be among the loose ones only.

Implements: [Spread 2.7], [Spread 2.8.2], [Spread 2.9.1], [Spread 2.13.3], [Spread 2.13.4], [Spread 2.17],
[Spread 2.18], [Spread 2.19.1]. Deviations: D-cut, D-other-side.
"""

from __future__ import annotations

from isotone.pipeline.conformance.survey.cohorts import AGREED, RELIABLE
from isotone.pipeline.conformance.survey.facts import INSTALLED, LOST, Stay, ViewId
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.people import DAEMONS
from isotone.pipeline.conformance.survey.run import Boundary, Home, Loose, ViewKey


def sane_from(b: Boundary) -> int:
    """From which service on nothing is delivered in a view before that of the send."""
    return RELIABLE if b.number == DAEMONS else AGREED


def judge_companies(b: Boundary, loose: list[Loose], found: Found, *, is_settled: bool) -> None:
    """Everything that compares what processes had."""
    companies = list(b.companies())
    company_of: dict[int, int] = {}
    for number, company in enumerate(companies):
        company_of.update((id(stay), number) for stay in company)
        _exercise_company(b, company, found)
    for each in loose:
        if each.service < RELIABLE:
            continue
        _judge_moves(b, each, companies, company_of, found)
        _judge_places(b, each, found)
        _judge_holes(b, each, found, is_settled=is_settled)
        if is_settled:
            _judge_termination(b, each, found)
    _exercise_holes(b, found, is_settled=is_settled)
    for (process, group), stays in b.by_place.items():
        if not stays[-1].left and stays[-1].last_send > b.asked.get((process, group), -1):
            found.exercise(b.number, "2.17")


def _exercise_company(b: Boundary, company: list[Stay], found: Found) -> None:
    if any(stay.low is not None for stay in company):
        found.exercise(b.number, "2.7")
    signals = sum(stay.signal >= 0 for stay in company)
    if signals:
        found.exercise(b.number, "2.8.2")
    if 0 < signals < len(company):
        found.doubt(b.number, "2.8.2")


def _judge_moves(
    b: Boundary, each: Loose, companies: list[list[Stay]], company_of: dict[int, int], found: Found
) -> None:
    """2.7 and 2.8.2: all of a company have it, on the same side of the signal, or none."""
    sides: dict[int, list[int]] = {}
    for held in each.held:
        if held.stay is not None and id(held.stay) in company_of:
            sides.setdefault(company_of[id(held.stay)], [0, 0])[held.is_late] += 1
    for number, (before, after) in sides.items():
        company = companies[number]
        if before + after != len(company):
            found.doubt(b.number, "2.7")
        if each.service >= AGREED and any(stay.signal >= 0 for stay in company):
            if len(company) not in (before, after):
                found.doubt(b.number, "2.8.2")


def _judge_places(b: Boundary, each: Loose, found: Found) -> None:
    """2.18: all in one view; 2.9.1: not in one before that of the send."""
    inside = [held for held in each.held if held.stay is not None]
    bound = [held for held in inside if b.number == DAEMONS or not held.is_late]
    ids = {b.id_of(held.stay) for held in bound if held.stay is not None}
    if len({held.process for held in bound}) > 1:
        found.exercise(b.number, "2.18")
    if len(ids) > 1:
        found.doubt(b.number, "2.18")
    if each.service < sane_from(b) or each.sent is None or not each.sent[2]:
        return
    if not (each.sent[3] or b.number == DAEMONS):
        return
    sent_view = b.views[(each.group, each.sent[2])].id
    for held in inside:
        found.exercise(b.number, "2.9.1", "2.19.1")
        if held.stay is not None and b.id_of(held.stay) < sent_view:
            found.doubt(b.number, "2.9.1", "2.19.1")


def _judge_holes(b: Boundary, each: Loose, found: Found, *, is_settled: bool) -> None:
    """2.13.3 and 2.13.4: who had an agreed message of a higher stamp in a view had this one too, until it left."""
    views = {(held.stay.group, held.stay.hash) for held in each.held if held.stay is not None}
    had = {(held.home, held.process): held for held in each.held}
    for view in views:
        for home, stay in b.in_view[view]:
            held = had.get((home, stay.process))
            if held is not None and (held.stay is stay or not stay.left or held.row < stay.left_at):
                continue
            if stay.high is not None and each.stamp < stay.high and _is_known(stay, is_settled=is_settled):
                found.doubt_below(b.number, "2.13.3", stay.high)
            late = stay.high_late
            if late is not None and each.stamp < late and stay.left == INSTALLED:
                if each.sender in stay.next_transitional:
                    found.doubt_below(b.number, "2.13.4", late)


def _is_known(stay: Stay, *, is_settled: bool) -> bool:
    """Whether all that the process did in the view is known."""
    return stay.left != LOST if stay.left else is_settled


def _exercise_holes(b: Boundary, found: Found, *, is_settled: bool) -> None:
    is_unsure = False
    for view, stays in b.in_view.items():
        lows = sorted((stay.low, stay.process) for _, stay in stays if stay.low is not None)[:2]
        for _, stay in stays:
            if stay.high is not None and _is_known(stay, is_settled=is_settled):
                if any(process != stay.process and low < stay.high for low, process in lows):
                    found.exercise(b.number, "2.13.3")
        is_unsure |= _exercise_late(b, view, stays, found)
    if is_unsure:
        found.doubt_exercise(b.number, "2.13.4")


def _exercise_late(b: Boundary, view: ViewKey, stays: list[tuple[Home, Stay]], found: Found) -> bool:
    """2.13.4, as far as other nodes say; whether neighbours at the same node could say more."""
    if (b.number, "2.13.4") in found.exercised:
        return False
    late = [(home, stay) for home, stay in stays if stay.high_late is not None and stay.left == INSTALLED]
    is_unsure = False
    for home, senders in b.heard.get(view, ()) if late else ():
        for mine, stay in late:
            assert stay.high_late is not None
            lows = [senders.get(sender) for sender in stay.next_transitional]
            if any(low is not None and low < stay.high_late for low in lows):
                if home != mine:
                    found.exercise(b.number, "2.13.4")
                    return False
                is_unsure = True
    return is_unsure


def _judge_termination(b: Boundary, each: Loose, found: Found) -> None:
    """2.17: what was sent in a sender's last view has reached all members of that view."""
    if each.sent is None or not each.sent[2]:
        return
    stay, asked = b.stay_at(each.sender, each.group, each.sent[1]), b.asked.get((each.sender, each.group), -1)
    if stay is None or stay.left or stay.last_send <= asked:
        return
    if {held.process for held in each.held}.issuperset(b.views[(stay.group, stay.hash)].members):
        return
    if each.sent[1] > asked:
        found.doubt(b.number, "2.17")
    else:
        found.doubt_fully(b.number, "2.17")  # it is owed because of a later send, which may be in a plain bundle


def bare(id: ViewId) -> bool:
    """Whether no next daemon view is in it."""
    return id[3] == 0 and id[4] == ""
