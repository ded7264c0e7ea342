"""Every checker over one run: rows in, verdicts out.

Implements: [DESIGN 4]. Rows that were lost anywhere make every verdict *not judged*, but for violations that the
rows at hand prove. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from isotone.core.names import is_private_group
from isotone.spec.check.engine import Engine
from isotone.spec.check.layers import LAYERS, LayerChecker, TellsRecords
from isotone.spec.check.network import NetworkChecker
from isotone.spec.check.people import parse_daemon
from isotone.spec.check.rules import CLIENTS, DAEMONS
from isotone.spec.check.sequencer import Need, Sequencer
from isotone.spec.check.terms import Seen
from isotone.spec.properties import Boundary
from isotone.spec.verdicts import Report, State, Verdict
from isotone.trace import events as trace
from isotone.trace.events import Row

ALL_BOUNDARIES = (Boundary.CLIENTS, Boundary.DAEMONS, Boundary.NETWORK)
LINGER = 4096
DAEMON_GROUP = ("",)


class Checker:
    """Judges one run, row by row. The rows of each node come in their order; nothing is assumed across nodes."""

    def __init__(self, boundaries: Collection[Boundary] = ALL_BOUNDARIES, *, linger: int = LINGER) -> None:
        self._clients = Engine(CLIENTS, linger=linger) if Boundary.CLIENTS in boundaries else None
        self._daemons = Engine(DAEMONS, linger=linger) if Boundary.DAEMONS in boundaries else None
        self._network = NetworkChecker() if Boundary.NETWORK in boundaries else None
        self._layers = [(layer, layer.checker()) for layer in LAYERS]
        self._engines = [engine for engine in (self._clients, self._daemons) if engine is not None]
        self._sequencer = Sequencer(self._take, self._need)
        self._handlers = self._table()
        self._incarnations: dict[str, int] = {}  # the latest of each node
        self._homes: set[tuple[str, int]] = set()  # all that have rows
        self._crashed: set[tuple[str, int]] = set()  # those that say so themselves
        self._components: tuple[tuple[str, ...], ...] | None = None
        self._quiet: bool | None = None
        self._lossy = False
        self._early: dict[Row, None] = {}  # sends that were taken before their place, in circles
        self.rows = 0
        self.events = 0

    def feed(self, row: Row) -> None:
        """Take one row."""
        self.rows += 1
        self._sequencer.feed(row)

    def feed_many(self, rows: Iterable[Row]) -> None:
        """Take many rows."""
        take = self._sequencer.feed
        for row in rows:
            self.rows += 1
            take(row)

    def finish(self) -> Report:
        """The verdicts; the checker is used up."""
        self._sequencer.flush(self._sends, self._circle, self._send_early)
        settled = self._components is not None and self._quiet is True
        homes = self._missing_homes()
        missing = self._told_missing(homes)
        lossy = self._lossy
        self._lossy |= bool(missing)
        for engine in self._engines:
            engine.people.missing = homes
            is_whole = not lossy and not missing
            engine.finish(settled=settled, lossy=lossy, is_whole=is_whole, components=self._components or ())
        if self._network is not None:
            self._network.finish(quiet=settled, lossy=self._lossy, components=self._components or ())
        return Report(self._verdicts(), self.rows, self.events, missing)

    def _missing_homes(self) -> frozenset[tuple[str, int]]:
        """Incarnations that others name, and that have no row: their files are not here."""
        named = set[tuple[str, int]]().union(*(engine.named_homes() for engine in self._engines))
        if self._network is not None:
            named |= {parse_daemon(daemon)[0] for daemon in self._network.named()}
        named |= self._returned()
        return frozenset(home for home in named - self._homes if home[0] and home[1] >= 0)

    def _missing_nodes(self) -> set[str]:
        """Those without any row of which a layer or the end of the run knows."""
        named = {node for component in self._components or () for node in component}
        for _, checker in self._layers:
            if isinstance(checker, TellsRecords):
                named |= checker.missing()
        there = {f"{node}#{incarnation}" for node, incarnation in self._homes}
        return named - self._incarnations.keys() - there - {""}

    def _returned(self) -> set[tuple[str, int]]:
        """Who crashed by all that is told, and is there at the end: of these the last record is not here.

        Clients and daemons owe nothing behind a crash; layers above them owe what their server found on disk.
        """
        if not any(len(checker) for _, checker in self._layers):
            return set()
        last = {(node, self._incarnations.get(node, -1)) for component in self._components or () for node in component}
        return {(node, incarnation + 1) for node, incarnation in last & self._crashed}

    def _told_missing(self, homes: frozenset[tuple[str, int]]) -> tuple[str, ...]:
        """By name where nothing of a node is there, else by incarnation."""
        told = {node if node not in self._incarnations else f"{node}#{incarnation}" for node, incarnation in homes}
        return tuple(sorted(told | self._missing_nodes()))

    def retained(self) -> int:
        """Rows that wait and objects that are held, without what is constant per client and per view id."""
        held = sum(engine.retained() for engine in self._engines)
        return len(self._sequencer) + held + (self._network.retained() if self._network is not None else 0)

    def work(self) -> int:
        """A count of elementary steps: rows, and entries of causal vectors."""
        return self.rows + sum(engine.orders.work for engine in self._engines)

    def _verdicts(self) -> dict[str, Verdict]:
        liveness = None
        if self._quiet is False:
            liveness = State.NOT_JUDGED
        elif self._components is None or self._quiet is None:
            liveness = State.NOT_EXERCISED
        tallies = [engine.tally for engine in self._engines]
        if self._network is not None:
            tallies.append(self._network.tally)
        found: dict[str, Verdict] = {}
        for tally in tallies:
            found |= tally.verdicts(lossy=self._lossy, liveness=liveness)
        for _, checker in self._layers:
            if len(checker):  # a run without replicas is not told that it keeps their promises
                found |= checker.finish(lossy=self._lossy, liveness=liveness, components=self._components or ())
        return found

    # --- the order of work -----------------------------------------------------------------------------------------

    def _need(self, row: Row) -> Need | None:
        """What a row must wait for."""
        entry = row.entry
        kind = type(entry)
        if kind is trace.Delivered:
            engine, boundary = self._clients, 0
        elif kind is trace.DaemonDelivered:
            engine, boundary = self._daemons, 1
        else:
            return None
        first: int = entry.first_sequence  # type: ignore[attr-defined]  # the kind is known
        last = first + len(entry.lengths) - 1  # type: ignore[attr-defined]
        sender: str = entry.sender  # type: ignore[attr-defined]
        if engine is None or engine.ready(row.node, sender, last):
            return None
        return Need(boundary, sender, first, last)

    def _sends(self, row: Row) -> Need | None:
        entry = row.entry
        if isinstance(entry, trace.Sent):
            return Need(0, entry.client, entry.first_sequence, entry.first_sequence + len(entry.lengths) - 1)
        if isinstance(entry, trace.DaemonSent):
            return Need(1, entry.daemon, entry.first_sequence, entry.first_sequence + len(entry.lengths) - 1)
        return None

    def _circle(self, rows: list[Row]) -> None:
        """Each of these deliveries waits for a send that stands behind the next of them."""
        engine = self._clients if isinstance(rows[0].entry, trace.Delivered) else self._daemons
        assert engine is not None
        nodes = " and ".join(sorted({row.node for row in rows}))
        engine.tally.accuse(
            "2.6",
            [(row.node, row.incarnation, row.index) for row in rows],
            f"Deliveries at {nodes} stand before the sends that they depend on, in a circle.",
        )
        for each in self._engines:
            each.orders.causality_known = False
            each.tally.doubt("2.12.2")

    def _send_early(self, row: Row) -> None:
        """This send is behind a delivery of its own message, in a circle."""
        if row not in self._early:
            self._early[row] = None
            self._handlers[type(row.entry)](row, row.entry)

    def _take(self, row: Row) -> None:
        known = self._incarnations.get(row.node)
        if known != row.incarnation:
            self._incarnations[row.node] = row.incarnation
            self._homes.add((row.node, row.incarnation))
            if known is not None:
                self._end_lost(row.node, known)
                self._skip(row.node, range(known + 1, row.incarnation))
            else:
                self._sequencer.wake_all()  # of an earlier incarnation nothing will come
        if self._early and row in self._early:
            self._come_to_send(row)
            return
        handler = self._handlers.get(type(row.entry))
        if handler is not None:
            handler(row, row.entry)

    def _skip(self, node: str, incarnations: range) -> None:
        """Of these nothing is there. Nobody need know of them; but what a disk went through then is not known."""
        for incarnation in incarnations[:1]:
            for _, checker in self._layers:
                if isinstance(checker, TellsRecords):
                    checker.lose(Row(node, incarnation, 0, 0, trace.Gap(1)))

    def _come_to_send(self, row: Row) -> None:
        entry = row.entry
        if isinstance(entry, trace.Sent):
            engine, text = self._clients, entry.client
        else:
            assert isinstance(entry, trace.DaemonSent)
            engine, text = self._daemons, entry.daemon
        assert engine is not None
        engine.come_to_send(engine.home(row.node, row.incarnation), row.index, text, entry.first_sequence)

    # --- what rows mean --------------------------------------------------------------------------------------------

    def _table(self) -> dict[type, Callable[[Row, Any], None]]:
        table: dict[type, Callable[[Row, Any], None]] = {
            trace.Crashed: self._on_crash,
            trace.Gap: self._on_loss,
            trace.Truncated: self._on_loss,
            trace.Stabilised: self._on_stable,
            trace.Ended: self._on_end,
        }
        for layer, checker in self._layers:
            table |= dict.fromkeys(layer.entries, _feeding(checker))
        if self._clients is not None:
            table |= {
                trace.Disconnected: self._on_disconnect,
                trace.JoinRequested: self._on_join,
                trace.LeaveRequested: self._on_leave,
                trace.Sent: self._on_send,
                trace.Delivered: self._on_deliver,
                trace.ViewDelivered: self._on_view,
                trace.SignalDelivered: self._on_signal,
                trace.SelfLeft: self._on_self_leave,
                trace.Connected: self._on_connect,
            }
        if self._daemons is not None:
            table |= {
                trace.DaemonSent: self._on_daemon_send,
                trace.DaemonDelivered: self._on_daemon_deliver,
                trace.DaemonViewDelivered: self._on_daemon_view,
                trace.DaemonSignalDelivered: self._on_daemon_signal,
                trace.Recovered: self._on_recover,
            }
        if self._network is not None:
            table |= {
                trace.NetworkStarted: self._network.started,
                trace.NetworkSent: self._network.sent,
                trace.NetworkReceived: self._network.received,
                trace.LinkFailed: self._network.failed,
            }
        return table

    def _on_connect(self, row: Row, entry: trace.Connected) -> None:
        assert self._clients is not None
        self._clients.people.meet(self._clients.home(row.node, row.incarnation), entry.client)

    def _on_disconnect(self, row: Row, entry: trace.Disconnected) -> None:
        assert self._clients is not None
        home = self._clients.home(row.node, row.incarnation)
        self._clients.end(self._clients.people.meet(home, entry.client), row.index)
        self._sequencer.wake(0, entry.client)

    def _on_join(self, row: Row, entry: trace.JoinRequested) -> None:
        assert self._clients is not None
        process = self._clients.people.meet(self._clients.home(row.node, row.incarnation), entry.client)
        if is_private_group(entry.group):
            return  # which is refused
        if entry.group not in process.stays or entry.group in process.leaving:
            process.joining.setdefault(entry.group, row.index)
            self._clients.active = True

    def _on_leave(self, row: Row, entry: trace.LeaveRequested) -> None:
        assert self._clients is not None
        home = self._clients.home(row.node, row.incarnation)
        self._clients.ask_leave(self._clients.people.meet(home, entry.client), entry.group)

    def _on_send(self, row: Row, entry: trace.Sent) -> None:
        assert self._clients is not None
        home = self._clients.home(row.node, row.incarnation)
        content = (entry.service, _as_set(entry.groups), entry.lengths, entry.digests)
        self._clients.send(home, row.index, entry.client, entry.first_sequence, content)
        self.events += len(entry.lengths)
        self._sequencer.wake(0, entry.client)

    def _on_deliver(self, row: Row, entry: trace.Delivered) -> None:
        assert self._clients is not None
        content = (entry.service, _as_set(entry.groups), entry.lengths, entry.digests)
        sent, stamp = (entry.sender, entry.first_sequence, content), (entry.lamport, entry.stamper)
        self._clients.deliver(self._clients.home(row.node, row.incarnation), row.index, entry.receivers, sent, stamp)
        self.events += len(entry.lengths) * len(entry.receivers)

    def _on_view(self, row: Row, entry: trace.ViewDelivered) -> None:
        assert self._clients is not None
        home = self._clients.home(row.node, row.incarnation)
        seen = Seen(entry.group, entry.view, _as_set(entry.members), _as_set(entry.transitional))
        self._clients.install(home, row.index, entry.receivers, seen)

    def _on_signal(self, row: Row, entry: trace.SignalDelivered) -> None:
        assert self._clients is not None
        home = self._clients.home(row.node, row.incarnation)
        self._clients.signal(home, row.index, entry.receivers, entry.group, entry.view)

    def _on_self_leave(self, row: Row, entry: trace.SelfLeft) -> None:
        assert self._clients is not None
        self._clients.leave(self._clients.home(row.node, row.incarnation), row.index, entry.client, entry.group)

    def _on_recover(self, row: Row, entry: trace.Recovered) -> None:
        assert self._daemons is not None
        process = self._daemons.people.meet(self._daemons.home(row.node, row.incarnation), entry.daemon)
        process.joining[""] = row.index

    def _on_daemon_send(self, row: Row, entry: trace.DaemonSent) -> None:
        assert self._daemons is not None
        home = self._daemons.home(row.node, row.incarnation)
        content = (entry.service, DAEMON_GROUP, entry.lengths, entry.digests)
        self._daemons.send(home, row.index, entry.daemon, entry.first_sequence, content)
        self.events += len(entry.lengths)
        self._sequencer.wake(1, entry.daemon)

    def _on_daemon_deliver(self, row: Row, entry: trace.DaemonDelivered) -> None:
        assert self._daemons is not None
        content = (entry.service, DAEMON_GROUP, entry.lengths, entry.digests)
        sent, stamp = (entry.sender, entry.first_sequence, content), (entry.lamport, entry.stamper)
        self._daemons.deliver(self._daemons.home(row.node, row.incarnation), row.index, (entry.daemon,), sent, stamp)
        self.events += len(entry.lengths)

    def _on_daemon_view(self, row: Row, entry: trace.DaemonViewDelivered) -> None:
        assert self._daemons is not None
        home = self._daemons.home(row.node, row.incarnation)
        seen = Seen("", entry.view, _as_set(entry.members), _as_set(entry.transitional))
        self._daemons.install(home, row.index, (entry.daemon,), seen)

    def _on_daemon_signal(self, row: Row, entry: trace.DaemonSignalDelivered) -> None:
        assert self._daemons is not None
        home = self._daemons.home(row.node, row.incarnation)
        self._daemons.signal(home, row.index, (entry.daemon,), "", entry.view)

    # --- about the run ---------------------------------------------------------------------------------------------

    def _on_crash(self, row: Row, entry: trace.Crashed) -> None:
        self._crashed.add((row.node, row.incarnation))
        self._end_node(row.node, row.incarnation, row.index)

    def _end_node(self, node: str, incarnation: int, index: int) -> None:
        for engine in self._engines:
            engine.end_home(engine.home(node, incarnation), index)
        if self._network is not None:
            self._network.crashed(node, incarnation)
        self._sequencer.wake_all()

    def _end_lost(self, node: str, incarnation: int) -> None:
        """A later incarnation is there, and the crash of this one may be among the rows that were lost."""
        if any(engine.home(node, incarnation).lossy for engine in self._engines):
            self._end_node(node, incarnation, -1)
        else:
            self._sequencer.wake_all()

    def _on_loss(self, row: Row, entry: trace.Gap | trace.Truncated) -> None:
        self._lossy = True
        for engine in self._engines:
            home = engine.home(row.node, row.incarnation)
            engine.lose(home, row.index, truncated=isinstance(entry, trace.Truncated))
        if self._network is not None:
            self._network.lost(row.node)
        for _, checker in self._layers:
            if isinstance(checker, TellsRecords):
                checker.lose(row)
        self._sequencer.wake_all()

    def _on_stable(self, row: Row, entry: trace.Stabilised) -> None:
        self._components = entry.components
        self._quiet = None

    def _on_end(self, row: Row, entry: trace.Ended) -> None:
        self._quiet = entry.quiet


def _feeding(checker: LayerChecker) -> Callable[[Row, Any], None]:
    return lambda row, entry: checker.feed(row)


def _as_set(names: tuple[str, ...]) -> tuple[str, ...]:
    """Sorted and unique, for sets are what the properties compare."""
    return names if len(names) < 2 else tuple(sorted(set(names)))


def check(rows: Iterable[Row], boundaries: Collection[Boundary] = ALL_BOUNDARIES) -> Report:
    """Judge a whole run."""
    checker = Checker(boundaries)
    checker.feed_many(rows)
    return checker.finish()
