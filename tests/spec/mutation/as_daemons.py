"""A run of clients told as a run of daemons, so that EVS-S has runs before there is a stack of daemons.

One group is taken, and of its traffic the agreed messages that members sent: those keep at EVS-C what EVS-S promises
for every reliable service, so each bundle may be given any such service. A membership of a client becomes an
incarnation of a daemon on a node of its own: the first view is its recovery; leave, disconnect and crash are its
crash. Incarnations count sessions by hundreds and the memberships of a session by ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId, parse_client_id
from isotone.core.services import Service
from isotone.trace import events as trace
from isotone.trace.events import Entry, Row
from tests.spec.mutation.record import renumbered

RELABELLED = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)


def as_daemons(rows: list[Row], group: str) -> list[Row]:
    """The rows of the daemons, in the order of the given rows."""
    translator = _Translator(rows, group)
    for row in rows:
        translator.read(row)
    return renumbered(translator.rows)


class _Translator:
    def __init__(self, rows: list[Row], group: str) -> None:
        self.rows: list[Row] = []
        self._group = group
        entries = [row.entry for row in rows]
        views = {each.view for each in entries if isinstance(each, trace.ViewDelivered) and each.group == group}
        views |= {each.view for each in entries if isinstance(each, trace.SignalDelivered) and each.group == group}
        coordinator = DaemonId("coordinator", 1)
        self._views = {view: DaemonViewId(place + 1, coordinator) for place, view in enumerate(sorted(views))}
        self._sessions = _sessions([each.client for each in entries if isinstance(each, trace.Connected)])
        self._firsts: dict[str, list[GroupViewId]] = defaultdict(list)  # by client: where its memberships begin
        for row in rows:
            self._note_first(row.entry)
        self._memberships: Counter[str] = Counter()  # by client: those that began
        self._daemons: dict[str, str] = {}  # of the clients that are in the group
        self._last: dict[str, str] = {}  # and of those that were
        self._sent: dict[tuple[str, int], tuple[str, int, Service, Service]] = {}
        self._sequences: Counter[str] = Counter()

    def _note_first(self, entry: Entry) -> None:
        match entry:
            case trace.ViewDelivered(group=self._group) as view:
                for client in view.receivers:
                    self._firsts.setdefault(client, [view.view])
                    if view.transitional == (client,) and view.subject == client:
                        self._firsts[client] = sorted({*self._firsts[client], view.view})

    def read(self, row: Row) -> None:
        match row.entry:
            case trace.ViewDelivered(group=self._group) as entry:
                for client in entry.receivers:
                    self._install(row, client, entry)
            case trace.SignalDelivered(group=self._group) as entry:
                for client in entry.receivers:
                    if client in self._daemons:
                        view = self._views[entry.view]
                        self._add(row, client, trace.DaemonSignalDelivered(self._daemons[client], view))
            case trace.Sent() as entry:
                if self._group in entry.groups and entry.client in self._daemons and entry.service.is_agreed:
                    self._send(row, entry)
            case trace.Delivered() as entry:
                for client in entry.receivers:
                    if client in self._daemons and (entry.sender, entry.first_sequence) in self._sent:
                        self._deliver(row, client, entry)
            case trace.SelfLeft(client, self._group) | trace.Disconnected(client):
                self._end(row, client)
            case trace.Crashed(daemon):
                for client in self._sessions:
                    if str(parse_client_id(client).daemon) == daemon:
                        self._end(row, client)
            case trace.Stabilised(components):
                self._stabilise(row, components)
            case trace.Ended():
                self.rows.append(row)

    def _add(self, row: Row, client: str, entry: Entry) -> None:
        name, _, incarnation = self._last[client].rpartition("#")
        self.rows.append(Row(name, int(incarnation), 0, row.at, entry))

    def _install(self, row: Row, client: str, entry: trace.ViewDelivered) -> None:
        if client not in self._daemons:
            self._begin(row, client)
        members, transitional = self._known(entry.members, entry.view), self._known(entry.transitional, entry.view)
        view = self._views[entry.view]
        self._add(row, client, trace.DaemonViewDelivered(self._daemons[client], view, members, transitional))

    def _begin(self, row: Row, client: str) -> None:
        self._memberships[client] += 1
        self._daemons[client] = self._last[client] = self._daemon(client, self._memberships[client])
        self._add(row, client, trace.Recovered(self._daemons[client]))

    def _daemon(self, client: str, membership: int) -> str:
        parsed = parse_client_id(client)
        return f"{parsed.name}.{parsed.daemon.name}#{100 * self._sessions.get(client, 0) + membership}"

    def _known(self, clients: tuple[str, ...], view: GroupViewId) -> tuple[str, ...]:
        """Members by the membership that they have in this view, as far as their own first views tell."""
        begun = {client: sum(first <= view for first in self._firsts[client]) for client in clients}
        return tuple(sorted(self._daemon(client, max(1, number)) for client, number in begun.items()))

    def _send(self, row: Row, entry: trace.Sent) -> None:
        daemon = self._daemons[entry.client]
        first = self._sequences[daemon] + 1 + entry.digests[0] % 3  # they grow, not by one
        service = min(RELABELLED[entry.digests[0] % len(RELABELLED)], entry.service)  # what was not safe never is
        for offset in range(len(entry.lengths)):
            self._sent[entry.client, entry.first_sequence + offset] = (daemon, first + offset, entry.service, service)
        self._sequences[daemon] = first + len(entry.lengths) - 1
        self._add(row, entry.client, trace.DaemonSent(daemon, first, service, entry.lengths, entry.digests))

    def _deliver(self, row: Row, client: str, entry: trace.Delivered) -> None:
        sender, first, asked, service = self._sent[entry.sender, entry.first_sequence]
        if asked is not entry.service:
            service = Service.UNRELIABLE
        stamp = (entry.lamport, entry.stamper)
        self._add(
            row,
            client,
            trace.DaemonDelivered(self._daemons[client], sender, first, service, entry.lengths, entry.digests, *stamp),
        )

    def _end(self, row: Row, client: str) -> None:
        """Others may have seen a member that never came so far as to install a view: it was there nevertheless."""
        if not self._memberships[client]:
            self._begin(row, client)
        daemon = self._daemons.pop(client, None)
        if daemon is not None:
            self._add(row, client, trace.Crashed(daemon))

    def _stabilise(self, row: Row, components: tuple[tuple[str, ...], ...]) -> None:
        names = {daemon.rpartition("#")[0] for daemon in self._last.values()}
        nodes = {name: name.rpartition(".")[2] for name in sorted(names)}
        found = tuple(tuple(name for name, node in nodes.items() if node in component) for component in components)
        self.rows.append(Row(row.node, row.incarnation, row.index, row.at, trace.Stabilised(found)))


def _sessions(clients: list[str]) -> dict[str, int]:
    """The sessions of each name, numbered in their order."""
    numbers: Counter[str] = Counter()
    found = {}
    for client in clients:
        name = parse_client_id(client).private_group
        numbers[name] += 1
        found[client] = numbers[name]
    return found
