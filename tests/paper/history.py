"""A trace as the theorems of [Spread 6] speak of it: processes, the views that they were in, and what happened in each.

Written from the text and apart from the checkers of `isotone.spec`: plain lists that are walked again for every
question. A process is a daemon's incarnation among daemons, and one membership of a session in a group among clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from isotone.core.ids import DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.trace.events import (
    Crashed,
    DaemonDelivered,
    DaemonSent,
    DaemonSignalDelivered,
    DaemonViewDelivered,
    Delivered,
    Disconnected,
    LeaveRequested,
    Row,
    SelfLeft,
    Sent,
    SignalDelivered,
    ViewDelivered,
)

ViewId = DaemonViewId | GroupViewId
Message = tuple[str, int]  # sender, its number
Order = tuple[int, str]  # ord: Lamport time and who stamped


@dataclass
class Delivery:
    """One message at one process."""

    message: Message
    service: Service
    ord: Order
    place: int  # in the process' node's record
    at: int
    after_signal: bool = False


@dataclass
class Stay:
    """A process in a view."""

    process: str
    view: ViewId
    members: tuple[str, ...]
    transitional: tuple[str, ...]
    place: int
    deliveries: list[Delivery] = field(default_factory=list)
    signals: list[ViewId] = field(default_factory=list)  # as they name their view
    previous: Stay | None = None
    next: Stay | None = None
    ended: bool = False  # the process crashed, disconnected or left in this view

    def messages(self, *services: Service) -> set[Message]:
        """What was delivered in it."""
        return {each.message for each in self.deliveries if not services or each.service in services}


@dataclass
class Send:
    """A message as its sender sent it."""

    message: Message
    service: Service
    groups: tuple[str, ...]
    place: int
    at: int
    stay: Stay | None  # the view that the sender was in
    known: frozenset[Message]  # what it had sent and delivered before


@dataclass
class History:
    """One boundary of one run; among clients, of one group."""

    group: str = ""
    stays: list[Stay] = field(default_factory=list)
    sends: dict[Message, Send] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)  # what happened outside of all views
    quits: set[str] = field(default_factory=set)  # processes that crashed, disconnected or asked to leave
    heard: dict[str, list[Delivery]] = field(default_factory=dict)  # by process, in order, whatever the group

    def of(self, process: str) -> list[Stay]:
        """The views of one process, in order."""
        return [stay for stay in self.stays if stay.process == process]

    @property
    def processes(self) -> list[str]:
        """All of them."""
        return list(dict.fromkeys(stay.process for stay in self.stays))

    def past(self, message: Message) -> set[Message]:
        """Everything that causally precedes the send of this message."""
        found: set[Message] = set()
        wave = set(self.sends[message].known)
        while wave:
            found |= wave
            wave = {each for one in wave for each in self.sends[one].known} - found
        return found

    def together(self) -> Iterator[tuple[Stay, Stay]]:
        """Pairs that are virtually synchronous in a view: both move from it to the same next one."""
        for one in self.stays:
            for other in self.stays:
                if one.process < other.process and one.view == other.view and _same(one.next, other.next):
                    yield one, other


def _same(one: Stay | None, other: Stay | None) -> bool:
    return one is not None and other is not None and one.view == other.view


class _Reader:
    """Walks the record of one node after the other."""

    def __init__(self, group: str = "") -> None:
        self.history = History(group)
        self.current: dict[str, Stay] = {}
        self.known: dict[str, set[Message]] = {}

    def enter(self, process: str, view: ViewId, members: Sequence[str], came: Sequence[str], place: int) -> None:
        before = self.current.get(process)
        stay = Stay(process, view, tuple(members), tuple(came), place, previous=before)
        if before is not None:
            before.next = stay
        self.current[process] = stay
        self.history.stays.append(stay)

    def signal(self, process: str, view: ViewId) -> None:
        stay = self.current.get(process)
        if stay is None:
            self.history.lost.append(f"{process} is signalled in no view")
        else:
            stay.signals.append(view)

    def deliver(self, process: str, delivery: Delivery) -> None:
        stay = self.current.get(process)
        if stay is None:
            self.history.lost.append(f"{process} delivers {delivery.message} in no view")
            return
        delivery.after_signal = bool(stay.signals)
        stay.deliveries.append(delivery)

    def hear(self, process: str, delivery: Delivery) -> None:
        self.history.heard.setdefault(process, []).append(delivery)
        self.known.setdefault(process, set()).add(delivery.message)

    def end(self, process: str) -> None:
        self.history.quits.add(process)
        if (stay := self.current.pop(process, None)) is not None:
            stay.ended = True


def _by_node(rows: Iterable[Row]) -> list[Row]:
    return sorted((row for row in rows if row.node), key=lambda row: (row.node, row.incarnation, row.index))


def of_daemons(rows: Iterable[Row]) -> History:
    """EVS-S."""
    reader = _Reader()
    history = reader.history
    for row in _by_node(rows):
        match row.entry:
            case DaemonViewDelivered(daemon=daemon, view=view, members=members, transitional=came):
                reader.enter(daemon, view, members, came, row.index)
            case DaemonSignalDelivered(daemon=daemon, view=view):
                reader.signal(daemon, view)
            case DaemonSent(daemon=daemon, first_sequence=number, service=service):
                message = (daemon, number)
                known = reader.known.setdefault(daemon, set())
                stay = reader.current.get(daemon)
                if stay is None:
                    history.lost.append(f"{daemon} sends {message} in no view")
                history.sends[message] = Send(message, service, (), row.index, row.at, stay, frozenset(known))
                known.add(message)
            case DaemonDelivered(daemon=daemon, sender=sender, first_sequence=number, service=service) as entry:
                delivery = Delivery((sender, number), service, (entry.lamport, entry.stamper), row.index, row.at)
                reader.hear(daemon, delivery)
                reader.deliver(daemon, delivery)
            case Crashed(daemon=daemon):
                reader.end(daemon)
    return history


def of_clients(rows: Iterable[Row], group: str) -> History:
    """EVS-C, one group; causality runs through all groups."""
    reader = _Reader(group)
    history = reader.history
    for row in _by_node(rows):
        match row.entry:
            case ViewDelivered(receivers=receivers, group=of, view=view, members=members, transitional=came):
                for client in receivers if of == group else ():
                    reader.enter(client, view, members, came, row.index)
            case SignalDelivered(receivers=receivers, group=of, view=view):
                for client in receivers if of == group else ():
                    reader.signal(client, view)
            case Sent(client=client, first_sequence=number, service=service, groups=groups, lengths=lengths):
                known = reader.known.setdefault(client, set())
                for message in [(client, number + place) for place in range(len(lengths))]:
                    stay = reader.current.get(client)
                    send = Send(message, service, groups, row.index, row.at, stay, frozenset(known))
                    history.sends[message] = send
                    known.add(message)
            case Delivered(receivers=receivers, sender=sender, groups=groups) as entry:
                for number in range(entry.first_sequence, entry.first_sequence + len(entry.lengths)):
                    for client in receivers:
                        order = (entry.lamport, entry.stamper)
                        delivery = Delivery((sender, number), entry.service, order, row.index, row.at)
                        reader.hear(client, delivery)
                        if group in groups and (client in reader.current or groups == (group,)):
                            reader.deliver(client, delivery)
            case SelfLeft(client=client, group=of):
                if of == group:
                    reader.end(client)
            case LeaveRequested(client=client, group=of):
                if of == group:
                    history.quits.add(client)
            case Disconnected(client=client):
                reader.end(client)
            case Crashed(daemon=daemon):
                for client in [each for each in reader.known | reader.current if daemon_of(each) == daemon]:
                    reader.end(client)
    return history


def daemon_of(client: str) -> str:
    """The incarnation in ``#name#daemon#incarnation#session``."""
    _, _, name, incarnation, _ = client.split("#")
    return f"{name}#{incarnation}"


def name_of(process: str) -> str:
    """What stays the same when a daemon or a client comes back."""
    if process.startswith("#"):
        _, client, name, _, _ = process.split("#")
        return f"#{client}#{name}"
    return process.partition("#")[0]
