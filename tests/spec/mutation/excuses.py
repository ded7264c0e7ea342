"""Why a corruption may be none: situations in which the altered trace is one that the specification allows as well.

Each excuse looks at the original run at the place of the corruption and names what it finds there, or finds nothing.
Whoever accepts one must also ask the dumb second version whether the corrupted run keeps every promise.

Implements: [Spread 2.2.3], what it leaves open; [DESIGN 3] for UNRELIABLE.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from isotone.core.services import Service
from tests.spec.mutation.kinds import Corrupted, Message
from tests.spec.naive.history import Delivery, History, Process, Stay
from tests.spec.naive.reading import client_history
from tests.spec.naive.views import came_together


class Reason(Enum):
    """What the specification leaves open."""

    UNRELIABLE_LOST = "UNRELIABLE may be lost"
    UNRELIABLE_UNORDERED = "UNRELIABLE has no place in the order and in no view"
    PRIVATE = "a private message: nobody else can tell"
    ENDS = "the receiver ends in that view"
    LEAVES = "the receiver leaves in that view"
    ALONE = "nobody moved together with the receiver"
    NOBODY_HAS_IT = "those who moved together with the receiver have it no more or never had it"
    OPEN_SENDER = "the last view, and the sender was not in it"
    BEHIND_SIGNAL = "all others in a view of that group delivered it behind the signal"
    ONLY_RECEIVER = "nobody else delivered it in a view of that group"
    ONLY_ROW = "no other row delivers it"
    ONLY_INSTALLER = "no other row installs that view"
    ONLY_ID = "nobody came to that view, nor moved on from it, together with the receiver"
    ABSENT = "the one removed never installs that view"
    NEVER_DELIVERED = "nobody delivered what was sent"
    NOBODY_THERE = "no client of that daemon was in a group or had to be told"


Excuse = Callable[[History, Corrupted], Reason | None]


def excuse(kind: str, original: History, corrupted: Corrupted) -> Reason | None:
    """The reason why this corruption of the run need not be noticed, if there is one."""
    for prefix, function in EXCUSES.items():
        if kind.startswith(prefix):
            return function(original, corrupted)
    return None


# --- lost deliveries ------------------------------------------------------------------------------------------------


def _lost(original: History, corrupted: Corrupted) -> Reason | None:
    """All losses must be excused; the first reason is named."""
    reasons = [
        _lost_one(original, original.processes[process], message, corrupted)
        for process in corrupted.processes
        for message in corrupted.messages
    ]
    return reasons[0] if all(reasons) else None


def _lost_one(original: History, process: Process, message: Message, corrupted: Corrupted) -> Reason | None:
    delivery = process.delivered[message]
    if delivery.service is Service.UNRELIABLE:
        return Reason.UNRELIABLE_LOST
    if not delivery.stays:
        return Reason.PRIVATE
    reasons = [_lost_in(original, stay, delivery, corrupted) for stay in delivery.stays.values()]
    return reasons[0] if all(reasons) else None


def _lost_in(original: History, stay: Stay, delivery: Delivery, corrupted: Corrupted) -> Reason | None:
    if stay.next is None:
        return _went(stay) or _from_outside(original, stay, delivery.message)
    companions = together_with(original, stay)
    if not companions:
        return Reason.ALONE
    holders = [
        each
        for each in companions
        if delivery.message in each.process.delivered and each.process.id not in corrupted.processes
    ]
    return None if holders else Reason.NOBODY_HAS_IT


def _went(stay: Stay) -> Reason | None:
    """How the process went from its last view, if it did."""
    if stay.has_left:
        return Reason.LEAVES
    return Reason.ENDS if stay.process.has_ended else None


def _from_outside(original: History, stay: Stay, message: Message) -> Reason | None:
    """Termination of delivery speaks of messages that a member of the view sent in it."""
    sender = original.processes[message[0]]
    send = next(each for each in sender.sends if each.label.message == message)
    there = send.stays.get(stay.group)
    return Reason.OPEN_SENDER if there is None or there.view != stay.view or there.over is not None else None


def together_with(original: History, stay: Stay) -> list[Stay]:
    """The stays of the others who were in the same view and moved on to the same view."""
    return [
        each
        for each in original.stays
        if each.key == stay.key
        and each.process is not stay.process
        and each.next is not None
        and stay.next is not None
        and each.next.view == stay.next.view
    ]


# --- moved deliveries -----------------------------------------------------------------------------------------------


def _in_another_view(original: History, corrupted: Corrupted) -> Reason | None:
    (process,) = corrupted.processes
    delivery = original.processes[process].delivered[corrupted.messages[0]]
    if delivery.service is Service.UNRELIABLE:
        return Reason.UNRELIABLE_UNORDERED
    others = [each for each in original.deliveries if each.message == delivery.message and each is not delivery]
    there = [each for each in others if corrupted.group in each.stays]
    if not there:
        return Reason.ONLY_RECEIVER
    return Reason.BEHIND_SIGNAL if all(each.is_after_signal(corrupted.group) for each in there) else None


def _across_signal(original: History, corrupted: Corrupted) -> Reason | None:
    (process,) = corrupted.processes
    delivery = original.processes[process].delivered[corrupted.messages[0]]
    return _alone_in(original, delivery.stays[corrupted.group])


def _alone_in(original: History, stay: Stay) -> Reason | None:
    """Nobody compares what this process had in the view, or on which side of the signal."""
    if stay.next is None:
        return _went(stay)
    return None if together_with(original, stay) else Reason.ALONE


# --- views and signals ----------------------------------------------------------------------------------------------


def _stays_in(original: History, corrupted: Corrupted) -> list[Stay]:
    return [each for each in original.stays if (each.group, each.view) == (corrupted.group, corrupted.view)]


def _only_installer(original: History, corrupted: Corrupted) -> Reason | None:
    others = [each for each in _stays_in(original, corrupted) if each.process.id not in corrupted.processes]
    return None if others else Reason.ONLY_INSTALLER


def _other_id(original: History, corrupted: Corrupted) -> Reason | None:
    """Who came from nowhere with nobody, and goes nowhere with anybody, may call its view as it likes.

    So may who ends in it: that others came along is said only of those who are in one view (2.4.3).
    """
    if reason := _only_installer(original, corrupted):
        return reason
    stays = _stays_in(original, corrupted)
    mine = [each for each in stays if each.process.id in corrupted.processes]
    if all(each.next is None and _went(each) for each in mine):
        return _went(mine[0])
    others = [each for each in stays if each.process.id not in corrupted.processes]
    is_known = any(
        came_together(one, other) or other in together_with(original, one) for one in mine for other in others
    )
    return None if is_known else Reason.ONLY_ID


def _left_out(original: History, corrupted: Corrupted) -> Reason | None:
    """Sets are compared among those whose installations are recorded."""
    gone = original.processes.get(corrupted.subject)
    is_there = gone is not None and any(each in gone.stays for each in _stays_in(original, corrupted))
    return None if is_there else Reason.ABSENT


def _alone_in_view(original: History, corrupted: Corrupted) -> Reason | None:
    (process,) = corrupted.processes
    (stay,) = (each for each in _stays_in(original, corrupted) if each.process.id == process)
    return _alone_in(original, stay)


# --- stamps, sends, crashes -----------------------------------------------------------------------------------------


def _stamp(original: History, corrupted: Corrupted) -> Reason | None:
    message = corrupted.messages[0]
    delivered = [each for each in original.deliveries if each.message == message]
    if delivered[0].service is Service.UNRELIABLE:
        return Reason.UNRELIABLE_UNORDERED
    if {each.process.id for each in delivered} <= set(corrupted.processes):
        return Reason.ONLY_ROW
    return None


def _send(original: History, corrupted: Corrupted) -> Reason | None:
    if any(each.message in corrupted.messages for each in original.deliveries):
        return None
    return Reason.NEVER_DELIVERED


def _crash(original: History, corrupted: Corrupted) -> Reason | None:
    """No session is left over, or those that are were in no group and wanted into none."""
    after = client_history(corrupted.rows).processes
    left_over = [after[process] for process in corrupted.processes if not after[process].has_ended]
    return None if any(each.current or each.asked_to_join for each in left_over) else Reason.NOBODY_THERE


EXCUSES: dict[str, Excuse] = {
    "drop a delivery": _lost,
    "move a delivery into": _in_another_view,
    "move an agreed delivery across the signal": _across_signal,
    "add to a member set": _only_installer,
    "remove from a member set": _only_installer,
    "remove from a transitional set": _left_out,
    "alter a view id": _other_id,
    "drop a view": _alone_in_view,
    "drop a signal": _alone_in_view,
    "move a signal": _alone_in_view,
    "alter a stamp": _stamp,
    "drop a send": _send,
    "remove a crash": _crash,
}
