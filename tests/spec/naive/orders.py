"""What is promised about the order of messages, about holes in it and about those who are together.

2.7, 2.11 to 2.14. Each function yields one truth value for every case in which the premise of its property is true.
Implements: [Spread 2.2.3.2].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, groupby, pairwise

from isotone.core.ids import NO_DAEMON_VIEW, NO_STAMP, DaemonViewId, GroupViewId
from tests.spec.naive.history import Delivery, History, Message, Send, Stamp, Stay, ViewId, Where
from tests.spec.naive.messages import comparable
from tests.spec.naive.views import together

Cases = Iterator[bool]


# --- virtual synchrony ----------------------------------------------------------------------------------------------


def virtual_synchrony(history: History) -> Cases:
    """2.7: processes that are together in a view delivered the same messages in it."""
    for one, other in together(history):
        for delivery in one.deliveries:
            if delivery.service.is_reliable:
                there = other.process.delivered.get(delivery.message)
                yield there is not None and there.stays.get(one.group) is other


def is_by_network(stay: Stay) -> bool:
    """Whether no join, leave or kill made the view."""
    return isinstance(stay.view, GroupViewId) and stay.view.stamp == NO_STAMP


def daemon_view(stay: Stay) -> DaemonViewId:
    return stay.view.daemon_view if isinstance(stay.view, GroupViewId) else stay.view


def is_before_signal(stay: Stay) -> bool:
    """Whether the view was made before the signal of its daemon view, or by the network."""
    return not isinstance(stay.view, GroupViewId) or stay.view.next_daemon_view == NO_DAEMON_VIEW


# --- first in, first out; causes ------------------------------------------------------------------------------------


def fifo_order(history: History) -> Cases:
    """2.11.2: a FIFO message is delivered after every earlier reliable message of its sender."""
    for process in history.processes.values():
        by_sender: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in process.deliveries:
            if delivery.message in history.sent and delivery.service.is_reliable:
                by_sender[delivery.message[0]].append(delivery)
        for deliveries in by_sender.values():
            for one, other in combinations(deliveries, 2):
                if one.message < other.message and other.service.is_fifo:
                    yield True
                if one.message > other.message and one.service.is_fifo:
                    yield False


def causal_order(history: History) -> Cases:
    """2.12.2: a causal message is delivered after every reliable message that causally precedes it."""
    numbers = {message: number for number, message in enumerate(sorted(_all_messages(history)))}
    pasts = causal_pasts(history, numbers)
    for process in history.processes.values():
        reliable = [each for each in process.deliveries if each.service.is_reliable and each.message in pasts]
        everything, before = sum(1 << numbers[each.message] for each in reliable), 0
        for delivery in reliable:
            past = pasts[delivery.message] & everything
            if delivery.service.is_causal and past:
                yield not past & ~before
            before |= 1 << numbers[delivery.message]


def causal_pasts(history: History, numbers: dict[Message, int]) -> dict[Message, int]:
    """For every message that was sent, as a set of bits, those whose send precedes its send: the smallest fixed point.

    A process knows at a send what it sent before and, of every message that it delivered before, that message and its
    past. UNRELIABLE messages carry knowledge too: Definition 2.6 makes no difference.
    """
    pasts: dict[Message, int] = {}
    while True:
        found: dict[Message, int] = {}
        for process in history.processes.values():
            known = 0
            for event in process.events:
                message = event.label.message if isinstance(event, Send) else event.message
                if isinstance(event, Send):
                    found[message] = known
                known |= pasts.get(message, 0) | 1 << numbers[message]
        if found == pasts:
            return pasts
        pasts = found


def _all_messages(history: History) -> set[Message]:
    return {*history.sent, *(each.message for each in history.deliveries)}


# --- one order ------------------------------------------------------------------------------------------------------


def agreed_order(history: History) -> Cases:
    """2.13.2: no lower stamp after an agreed message; no two agreed messages in different orders at two processes."""
    for process in history.processes.values():
        highest: Stamp | None = None  # of the agreed messages in earlier rows
        for _, row in groupby([each for each in process.deliveries if each.service.is_reliable], key=_row):
            deliveries = list(row)
            if highest is not None:
                yield all(not each.stamp < highest for each in deliveries)
            agreed = [each.stamp for each in deliveries if each.service.is_agreed]
            highest = max(agreed if highest is None else [highest, *agreed], default=None)
    for one, other in combinations(history.processes.values(), 2):
        common = [each for each in one.deliveries if each.service.is_agreed and each.message in other.delivered]
        for first, second in pairwise(common):
            there = other.delivered[first.message], other.delivered[second.message]
            if first.bundle != second.bundle:  # the order within a bundle is a matter of 2.11.2
                yield there[0].place < there[1].place


def _row(delivery: Delivery) -> Where:
    return delivery.row


# --- no holes -------------------------------------------------------------------------------------------------------


def _lower(history: History, stay: Stay, deliveries: list[Delivery]) -> Iterator[Delivery]:
    """What others delivered in the same view below the highest of these; at EVS-C of agreed messages only."""
    highest = max(delivery.stamp for delivery in deliveries)
    for other in history.stays:
        if other.key == stay.key and other.process is not stay.process:
            for each in other.deliveries:
                counts = each.service.is_reliable
                if counts and each.stamp < highest:
                    yield each


def no_holes_before_signal(history: History) -> Cases:
    """2.13.3: who delivers an agreed message before the signal has every lower one that anyone delivered there."""
    for stay in history.stays:
        before = [each for each in stay.deliveries if each.service.is_agreed and not each.is_after_signal(stay.group)]
        if before and (stay.over is not None or history.is_stable):
            for lower in _lower(history, stay, before):
                yield stay.has(lower.message)


def no_holes_after_signal(history: History) -> Cases:
    """2.13.4: after the signal it has every lower one that a member of its next transitional set sent."""
    for stay in history.stays:
        after = [each for each in stay.deliveries if each.service.is_agreed and each.is_after_signal(stay.group)]
        if after and stay.next is not None:
            for lower in _lower(history, stay, after):
                if lower.message[0] in stay.next.transitional:
                    yield stay.has(lower.message)


# --- safe -----------------------------------------------------------------------------------------------------------


def safe_before_signal(history: History) -> Cases:
    """2.14.2: a safe message before the signal reaches every member of the view that does not end too early."""
    for stay in history.stays:
        for delivery in stay.deliveries:
            if delivery.service.is_safe and not delivery.is_after_signal(stay.group):
                yield from _reaches(history, delivery, stay, stay.members)


def safe_after_signal(history: History) -> Cases:
    """2.14.3: a safe message after the signal reaches every member of the next transitional set."""
    for stay in history.stays:
        for delivery in stay.deliveries:
            if delivery.service.is_safe and delivery.is_after_signal(stay.group) and stay.next is not None:
                yield from _reaches(history, delivery, stay, stay.next.transitional & stay.members)


def _reaches(history: History, delivery: Delivery, stay: Stay, owed: frozenset[str]) -> Cases:
    """Daemons have it in the view, clients in whatever view."""
    return (_reaches_there if history.is_daemons else _reaches_anywhere)(history, delivery, stay, owed)


def _reaches_there(history: History, delivery: Delivery, stay: Stay, owed: frozenset[str]) -> Cases:
    """At EVS-S: everyone else who is owed it comes to the view and has it when it goes, or ends before a later view.

    Who may still come or deliver when the record ends owes it only at a stable, quiet end.
    """
    for member in sorted(owed - {stay.process.id}):
        there = [each for each in _stays_of(history, member, stay.group) if each.view == stay.view]
        has_it = any(each.has(delivery.message) for each in there)
        if has_it:
            yield True
        elif _is_disputed(history, member, stay) or _ends_before_a_later_view(history, member, stay):
            continue
        elif history.is_stable or _has_passed(history, member, stay):
            yield False


def _reaches_anywhere(history: History, delivery: Delivery, stay: Stay, owed: frozenset[str]) -> Cases:
    """At EVS-C: everyone else has it, in whatever view, when it leaves the group or comes to a later daemon view.

    It comes there with a view made before the signal: an id without next daemon view.
    Who ends before either owes nothing; who is not yet there when the record ends, only at a stable, quiet end.
    """
    for member in sorted(owed - {stay.process.id}):
        mine = _stays_of(history, member, stay.group)
        is_there = any(each.key == stay.key for each in mine)
        if not is_there and _is_disputed(history, member, stay):
            continue
        passed = [each.place for each in mine if is_before_signal(each) and daemon_view(each) > daemon_view(stay)]
        passed += [each.over for each in mine if each.has_left and each.over and _has_reached(each, stay)]
        known = history.processes.get(member)
        there = known.delivered.get(delivery.message) if known is not None else None
        if there is not None:
            yield not passed or there.place < min(passed)
        elif passed or (history.is_stable and not history.has_ended(member)):
            yield False


def _has_reached(left: Stay, stay: Stay) -> bool:
    """Whether a membership ends in this view or a later one, and had one that is not lower by daemon view and stamp."""
    if left.view < stay.view:  # type: ignore[operator]
        return False
    views: list[ViewId] = [left.view]
    while left.previous is not None:
        left = left.previous
        views.append(left.view)
    return any(comparable(view) >= comparable(stay.view) for view in views)  # type: ignore[operator]


def _is_disputed(history: History, member: str, stay: Stay) -> bool:
    """Whether at the member's daemon a view with this id came with other members: that is a matter of 2.20."""
    there = history.members_at.get((stay.group, stay.view, history.daemon_of(member)), set())
    return bool(there - {stay.members})


def _has_passed(history: History, member: str, stay: Stay) -> bool:
    """Whether the member can no longer come to the view, or deliver in it."""
    stays = _stays_of(history, member, stay.group)
    return any(each.view > stay.view or (each.view == stay.view and each.over is not None) for each in stays)  # type: ignore[operator]


def _ends_before_a_later_view(history: History, member: str, stay: Stay) -> bool:
    stays = _stays_of(history, member, stay.group)
    came_further = any(each.view > stay.view for each in stays)  # type: ignore[operator]
    has_left = any(each.key == stay.key and each.has_left for each in stays)
    return history.has_ended(member) and not came_further and not has_left


def _stays_of(history: History, member: str, group: str) -> list[Stay]:
    known = history.processes.get(member)
    return [each for each in known.stays if each.group == group] if known else []
