"""What is promised about each message and its senders: Definition 2.7, 2.1, 2.5, 2.6, 2.9, 2.15, 2.17, 2.18 and 2.19.

Each function yields one truth value for every case in which the premise of its property is true.
Implements: [Spread 2.2.1], [Spread 2.2.3.2], [Spread 2.2.3.3], [Spread 2.2.5].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, groupby
from typing import TypeGuard

from isotone.core.ids import DaemonViewId, GroupViewId
from isotone.core.services import Service
from tests.spec.naive.history import (
    EARLY,
    Bundle,
    Delivery,
    History,
    Message,
    Process,
    Send,
    Stamp,
    Stay,
    ViewId,
    Where,
)

Cases = Iterator[bool]


def deliveries_by_message(history: History) -> dict[Message, list[Delivery]]:
    found: dict[Message, list[Delivery]] = defaultdict(list)
    for delivery in history.deliveries:
        found[delivery.message].append(delivery)
    return found


# --- the order function ---------------------------------------------------------------------------------------------


def order_function(history: History) -> Cases:
    """D2.7: one stamp per bundle, one bundle per stamp, and stamps that follow the causal order of the sends."""
    reliable = [each for each in (*history.deliveries, *history.repeated) if each.service.is_reliable]
    bundles: dict[Stamp, set[Bundle]] = defaultdict(set)
    senders: dict[Stamp, set[str]] = defaultdict(set)
    for each in reliable:
        sent = history.sent.get((each.message[0].removeprefix(EARLY), each.message[1]))
        senders[each.stamp].add(each.message[0].removeprefix(EARLY))
        if sent:  # parts of a bundle whose send is not there share its stamp rightly
            bundles[each.stamp].add(sent[0])
    if len({each.row for each in reliable}) > 1:
        yield all(len(found) == 1 for found in history.stamps.values())
        yield all(len(found) == 1 for found in (*bundles.values(), *senders.values()))
    for process in history.processes.values():
        yield from _causal_stamps(history, process)


def _causal_stamps(history: History, process: Process) -> Cases:
    """Every stamp of what a process sends is above all that it delivered or sent before."""
    known: Stamp | None = None  # the highest of them
    for row, events in groupby(process.events, key=lambda event: event.row):
        reliable = [event for event in events if _service(event).is_reliable]
        mine = {each.stamp for each in reliable if isinstance(each, Delivery)}
        if any(isinstance(each, Send) for each in reliable):
            mine = history.stamps.get(row, set())
            if known is not None and mine:
                yield known < min(mine)
        known = max([*mine, known] if known is not None else mine, default=None)


def _service(event: Send | Delivery) -> Service:
    return event.service if isinstance(event, Delivery) else event.label.service


# --- at one delivery ------------------------------------------------------------------------------------------------


def initial_view_event(history: History) -> Cases:
    """2.1: deliveries happen in a view of one of the message's groups, signals in the view that they name."""
    for process in history.processes.values():
        for delivery in process.deliveries + process.repeated:
            yield bool(delivery.stays) or delivery.is_private
    for signal in history.signals:
        yield signal.stay is not None and signal.stay.view == signal.view


def no_duplication(history: History) -> Cases:
    """2.5: a process delivers a message at most once."""
    for process in history.processes.values():
        if process.deliveries:
            yield not process.repeated


def delivery_integrity(history: History) -> Cases:
    """2.6: what is delivered was sent before by the named sender, with the same content, service and groups.

    *Before* means: there is an order of all rows that keeps each node's own and has every send before its deliveries.
    """
    for process in history.processes.values():
        for delivery in process.deliveries + process.repeated:
            yield delivery.message in history.sent and history.sent[delivery.message][1] == delivery.label
    if history.deliveries:
        yield can_be_ordered(history)


def can_be_ordered(*histories: History) -> bool:
    """Take the rows node by node, a delivery only when its send is taken; whether that takes them all."""
    needs: dict[Where, set[Where]] = defaultdict(set)
    for history in histories:
        for process in history.processes.values():
            for event in process.events:
                needs[event.row] |= {history.sent[event.message][0]} if _has_send(event, history) else set()
    queues: dict[str, list[Where]] = defaultdict(list)
    for row in sorted(needs):
        queues[row[0]].append(row)
    taken: set[Where] = set()
    is_moving = True
    while is_moving:
        is_moving = False
        for queue in queues.values():
            while queue and needs[queue[0]] <= taken:
                taken.add(queue.pop(0))
                is_moving = True
    return not any(queues.values())


def _has_send(event: Send | Delivery, history: History) -> TypeGuard[Delivery]:
    return isinstance(event, Delivery) and event.message in history.sent


# --- sane views -----------------------------------------------------------------------------------------------------


def sane_view(history: History) -> Cases:
    """2.9.1: an agreed message is not delivered in a view earlier than the one in which it was sent.

    Groups that the sender had asked to leave do not count.
    2.19.1 at EVS-S: any reliable one.
    """
    delivered = deliveries_by_message(history)
    for send in history.sends:
        if send.label.service.is_agreed or (history.is_daemons and send.label.service.is_reliable):
            for delivery in delivered.get(send.label.message, ()):
                for group in sorted((send.stays.keys() & delivery.stays.keys()) - send.leaving):
                    yield send.stays[group].view <= delivery.stays[group].view  # type: ignore[operator]


def sane_view_after_recovery(history: History) -> Cases:
    """2.9.2: a message of a process that ended and came back in view v is delivered only in views before v.

    Which way out of a daemon view the views stand on orders nothing: groups' views go by daemon view and stamp.
    2.19.2 at EVS-S.
    """
    delivered = deliveries_by_message(history)
    for before, after in came_back(history):
        for send in before.sends:
            if send.label.service.is_reliable and after.group in send.label.groups:
                for delivery in delivered.get(send.label.message, ()):
                    if after.group in delivery.stays:
                        yield comparable(delivery.stays[after.group].view) < comparable(after.view)  # type: ignore[operator]


def comparable(view: ViewId) -> DaemonViewId | tuple[DaemonViewId, object]:
    return (view.daemon_view, view.stamp) if isinstance(view, GroupViewId) else view


def came_back(history: History) -> Iterator[tuple[Process, Stay]]:
    """Every process that ended, with every first view of a later one of its name."""
    for before in history.processes.values():
        for stay in before.came_back_to:
            yield before, stay


# --- liveness -------------------------------------------------------------------------------------------------------


def self_delivery(history: History) -> Cases:
    """2.15: a process delivers what it sends to a group that it is in, unless it leaves or ends."""
    for send, group in _sent_inside(history):
        if not send.process.has_ended and not _leaves(send, group):
            yield send.label.message in send.process.delivered


def _leaves(send: Send, group: str) -> bool:
    """Whether the sender left the group behind this send; asking to leave is leaving."""
    gone = send.process.asked_to_leave + send.process.left
    return any(each == group and place > send.place for each, place in gone)


def termination_of_delivery(history: History) -> Cases:
    """2.17: a message sent in a view reaches every member of it, unless the sender installs a later one.

    Nor if it asked to leave and sent nothing more.
    """
    for send, group in _sent_inside(history):
        stay = send.stays[group]
        last = [each for each, there in _sent_inside(history) if there == group and each.stays[group] is stay][-1]
        if stay.next is None and not _leaves(last, group) and not send.process.has_ended:
            for member in sorted(stay.members):
                yield member in history.processes and send.label.message in history.processes[member].delivered


def _sent_inside(history: History) -> Iterator[tuple[Send, str]]:
    """On a run with a stable and quiet end: every reliable send with each of its groups that the sender was in."""
    for send in history.sends if history.is_stable else ():
        if send.label.service.is_reliable:
            for group in send.label.groups:
                if group in send.stays:
                    yield send, group


# --- same view ------------------------------------------------------------------------------------------------------


def same_view(history: History) -> Cases:
    """2.18: all who deliver a message deliver it in the same view.

    At EVS-C in each of its groups, and only what is delivered before the signal of the view.
    """
    for deliveries in deliveries_by_message(history).values():
        for one, other in combinations([each for each in deliveries if each.service.is_reliable], 2):
            for group in sorted(one.stays.keys() & other.stays.keys()):
                late = not history.is_daemons and (one.is_after_signal(group) or other.is_after_signal(group))
                if one.process is not other.process and not late:
                    yield one.stays[group].view == other.stays[group].view
