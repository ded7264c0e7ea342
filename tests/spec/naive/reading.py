"""From rows to a `History`: bundles taken apart, processes followed through their views.

Implements: [Spread 2.2.1], the external signature of EVS-C; [Spread 2.2.5], that of EVS-S.
"""

from __future__ import annotations

from isotone.core.ids import parse_client_id, parse_daemon_id
from isotone.trace import events as trace
from isotone.trace.events import Row
from tests.spec.naive.history import EARLY, Bundle, Delivery, History, Label, Process, Send, Signal, Stay, ViewId

DAEMONS = ("",)
"""The groups of every message at EVS-S."""

Sending = trace.Sent | trace.DaemonSent
Delivering = trace.Delivered | trace.DaemonDelivered
Installing = trace.ViewDelivered | trace.DaemonViewDelivered


def client_history(rows: list[Row]) -> History:
    """The run as the clients saw it."""
    reader = Reader(History(is_daemons=False))
    ordered = in_record_order(rows)
    for row in ordered:
        match row.entry:
            case trace.Sent(client) as entry:
                reader.note_send(row, client, entry, entry.groups)
            case trace.Disconnected(over) | trace.Crashed(over):
                reader.note_end(over)
    for row in ordered:
        reader.read_client(row)
        reader.read_run(row)
    return reader.history


def daemon_history(rows: list[Row]) -> History:
    """The run as the daemons saw it."""
    reader = Reader(History(is_daemons=True))
    ordered = in_record_order(rows)
    for row in ordered:
        match row.entry:
            case trace.DaemonSent(daemon) as entry:
                reader.note_send(row, daemon, entry, DAEMONS)
            case trace.Crashed(over):
                reader.note_end(over)
    for row in ordered:
        reader.read_daemon(row)
        reader.read_run(row)
    return reader.history


def in_record_order(rows: list[Row]) -> list[Row]:
    """Each node's rows in its own order: nothing else may be relied on."""
    return sorted(rows, key=lambda row: (row.node, row.incarnation, row.index))


def labels(entry: Sending | Delivering, sender: str, groups: tuple[str, ...]) -> list[Label]:
    """What a row says of each of its messages."""
    return [
        Label((sender, sequence), entry.service, groups, length, digest)
        for sequence, (length, digest) in enumerate(zip(entry.lengths, entry.digests), start=entry.first_sequence)
    ]


class Reader:
    """Fills a history row by row."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._over: set[str] = set()
        self._reached: dict[str, int] = {}

    def read_client(self, row: Row) -> None:
        """What a row says about clients."""
        match row.entry:
            case trace.Connected(client):
                self._process(client).is_open = True
            case trace.Disconnected(client):
                self._end(self._process(client))
            case trace.JoinRequested(client, group):
                if not group.startswith("#"):  # private ones are refused
                    self._process(client).asked_to_join.add(group)
            case trace.LeaveRequested(client, group):
                process = self._process(client)
                process.leaving[group] += group in process.current or group in process.asked_to_join
                process.asked_to_join.discard(group)
                process.asked_to_leave.append((group, process.next_place()))
            case trace.Sent() as entry:
                self._send(row, self._process(entry.client), labels(entry, entry.client, entry.groups))
            case trace.Delivered() as entry:
                for receiver in entry.receivers:
                    self._deliver(row, self._process(receiver), entry, entry.groups)
            case trace.ViewDelivered() as entry:
                for receiver in entry.receivers:
                    self._install(self._process(receiver), entry.group, entry)
            case trace.SignalDelivered() as entry:
                for receiver in entry.receivers:
                    self._signal(self._process(receiver), entry.group, entry.view)
            case trace.SelfLeft(client, group):
                self._leave(self._process(client), group)
            case trace.Crashed(daemon):
                for process in self.history.processes.values():
                    if self.history.daemon_of(process.id) == daemon:
                        self._end(process)

    def read_daemon(self, row: Row) -> None:
        """What a row says about daemons; a daemon that recovers wants to be in a view."""
        match row.entry:
            case trace.Recovered(daemon):
                self._process(daemon).is_open = True
                self._process(daemon).asked_to_join.add("")
            case trace.Crashed(daemon):
                self._end(self._process(daemon))
            case trace.DaemonSent() as entry:
                self._send(row, self._process(entry.daemon), labels(entry, entry.daemon, DAEMONS))
            case trace.DaemonDelivered() as entry:
                self._deliver(row, self._process(entry.daemon), entry, DAEMONS)
            case trace.DaemonViewDelivered() as entry:
                self._install(self._process(entry.daemon), "", entry)
            case trace.DaemonSignalDelivered() as entry:
                self._signal(self._process(entry.daemon), "", entry.view)

    def read_run(self, row: Row) -> None:
        """What a row says about the run itself."""
        match row.entry:
            case trace.Stabilised(components):
                self.history.components = components
            case trace.Ended(quiet):
                self.history.is_quiet = quiet
            case trace.Crashed(daemon):
                self.history.crashed.add(daemon)
            case trace.Gap() | trace.Truncated():
                raise AssertionError("only whole records can be judged here")

    def note_send(self, row: Row, sender: str, entry: Sending, groups: tuple[str, ...]) -> None:
        """Know what was sent before anything is delivered; who has ended sends nothing."""
        if sender in self._over or self.history.daemon_of(sender) in self._over:
            return
        if self.history.is_daemons and entry.first_sequence <= self._reached.get(sender, 0):
            return  # the sequences of a daemon grow
        if not self.history.is_daemons and entry.first_sequence != self._reached.get(sender, 0) + 1:
            return  # those of a client are dense, and what is not is refused
        self._reached[sender] = entry.first_sequence + len(entry.lengths) - 1
        for label in labels(entry, sender, groups):
            self.history.sent.setdefault(label.message, ((row.node, row.incarnation, row.index), label))

    def note_end(self, process: str) -> None:
        """From here on in the record a session, or all of a daemon, is over."""
        self._over.add(process)

    # --- one event at one process ------------------------------------------------------------------------------------

    def _process(self, id: str) -> Process:
        processes = self.history.processes
        self.history.has_posthumous |= id in processes and processes[id].has_ended
        if id not in processes:
            name = parse_daemon_id(id).name if self.history.is_daemons else parse_client_id(id).private_group
            processes[id] = Process(id, name)
        return processes[id]

    def _end(self, process: Process) -> None:
        place = process.next_place()
        for stay in process.current.values():
            stay.over = place
        process.has_ended, process.is_open, process.current = True, False, {}

    def _send(self, row: Row, process: Process, messages: list[Label]) -> None:
        where = (row.node, row.incarnation, row.index)
        for label in messages if not process.has_ended else ():
            if self.history.sent.get(label.message, (None,))[0] != where:
                continue
            event = Send(
                process, process.next_place(), where, label, dict(process.current), frozenset(+process.leaving)
            )
            process.sends.append(event)
            process.events.append(event)

    def _deliver(self, row: Row, process: Process, entry: Delivering, groups: tuple[str, ...]) -> None:
        where = (row.node, row.incarnation, row.index)
        for said in labels(entry, entry.sender, groups):
            message, label = said.message, said
            sent_at, sent = self.history.sent.get(message, (where, None))
            bundle: Bundle = (entry.sender, entry.first_sequence)
            if sent_at[0] == where[0] and sent_at > where:
                message, bundle = (EARLY + message[0], message[1]), (EARLY + message[0], entry.first_sequence)
            elif sent is not None:
                label, bundle = sent, sent_at
            self._note_delivery(
                Delivery(
                    process=process,
                    place=process.next_place(),
                    row=where,
                    label=said,
                    stamp=(entry.lamport, parse_daemon_id(entry.stamper)),
                    stays={group: stay for group, stay in process.current.items() if group in label.groups},
                    is_private=not process.has_ended and process.name in label.groups,
                    message=message,
                    service=label.service,
                    bundle=bundle,
                )
            )

    def _note_delivery(self, event: Delivery) -> None:
        process = event.process
        if event.message in process.delivered:
            process.repeated.append(event)
            return
        process.deliveries.append(event)
        process.delivered[event.message] = event
        process.events.append(event)
        for stay in event.stays.values():
            stay.deliveries.append(event)

    def _install(self, process: Process, group: str, entry: Installing) -> None:
        previous = process.current.get(group)
        members, transitional = frozenset(entry.members), frozenset(entry.transitional)
        stay = Stay(process, process.next_place(), group, entry.view, members, transitional, previous)
        if previous is not None:
            previous.next, previous.over = stay, stay.place
        process.current[group] = stay
        process.stays.append(stay)
        for each in self.history.processes.values() if previous is None else ():
            if each.has_ended and each.name == process.name and each is not process:
                each.came_back_to.append(stay)

    def _signal(self, process: Process, group: str, view: ViewId) -> None:
        place, stay = process.next_place(), process.current.get(group)
        self.history.signals.append(Signal(process, place, group, view, stay))
        if stay is not None:
            stay.signals.append(place)

    def _leave(self, process: Process, group: str) -> None:
        place = process.next_place()
        process.left.append((group, place))
        process.leaving[group] = max(0, process.leaving[group] - 1)
        stay = process.current.pop(group, None)
        if stay is not None:
            stay.has_left, stay.over = True, place
