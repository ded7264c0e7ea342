"""An omniscient EVS-S service for tests of the groups: adversarial in who gets what when, and in where signals fall.

Each daemon view has one log of units; each daemon has received some of them, knows promises and reports of the others
as of some moment, and delivers by the rules of the ordering. When a view is left, those who come along unite what they
have and deliver by the rules of the recovery. Everything is recorded, EVS-S too, so that the checkers judge the model.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.choice import Choice
from isotone.core.contract import Action
from isotone.core.ids import ClientId, DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal, DeliverUnits
from isotone.evs.groups import ChangeInterest, Groups, StateInterest, Submit
from isotone.evs.groups.peek import peek
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit
from isotone.evs.overlay.topology import Site, Topology
from isotone.trace import events as t
from isotone.trace.boundary import entries_of_indication, entry_of_request, message_digest
from isotone.trace.recorder import Recorder

WEAK = (Service.RELIABLE, Service.FIFO, Service.CAUSAL)
CLOCK_FLOOR = 1


@dataclass
class Sent:
    """A unit in the log of its view."""

    unit: Unit
    number: int  # how many units its daemon had sent before, and this one
    session: str


@dataclass
class View:
    id: DaemonViewId
    members: tuple[DaemonId, ...]
    log: dict[Position, Sent] = field(default_factory=dict)

    def streams(self, daemon: int) -> list[Unit]:
        return [sent.unit for sent in self.log.values() if sent.unit.daemon == daemon and sent.unit.sequence]


@dataclass
class Place:
    """What one daemon has of its view."""

    view: View
    came_with: tuple[DaemonId, ...]
    received: set[Position] = field(default_factory=set)
    delivered: set[Position] = field(default_factory=set)
    promised: list[int] = field(default_factory=list)  # by daemon: all its units up to this time are received here
    reported: list[int] = field(default_factory=list)  # by daemon: its agreed line as known here
    agreed: int = 0
    stable: int = 0
    last_agreed: Position = BEFORE_ALL
    weak_past: list[int] = field(default_factory=list)
    agreed_past: Position = BEFORE_ALL
    last_cut: Position = BEFORE_ALL
    cut_past: Position = BEFORE_ALL
    sequence: int = 0
    sessions: dict[str, tuple[int, int, Position]] = field(default_factory=dict)  # previous, weak, agreed
    commit: set[DaemonId] = field(default_factory=set)
    unreliable: dict[int, int] = field(default_factory=dict)


@dataclass
class Attempt:
    view: View
    together: tuple[DaemonId, ...]


class Node:
    def __init__(self, me: DaemonId, clock: int) -> None:
        self.me = me
        self.groups = Groups(me)
        self.clock = clock
        self.sent = 0
        self.place: Place | None = None
        self.attempt: Attempt | None = None
        self.drafts: dict[str, deque[Draft]] = {}
        self.wanted: set[str] = set()  # groups that clients here ever asked to join
        self.stamped: dict[str, list[Draft]] = {}  # fragments of the large message that is being stamped

    @property
    def index(self) -> int:
        assert self.place is not None
        return self.place.view.members.index(self.me)


class World:
    def __init__(self, seed: int | str, names: list[str]) -> None:
        self.choice = Choice(f"groups/{seed}")
        self.names = names
        self.nodes: dict[str, Node] = {}
        self.rows: list[t.Row] = []
        self.recorder = Recorder(self.rows.append)
        self.now = 0
        self.epoch = 0
        self.incarnations: dict[str, int] = {}
        self.clocks: dict[str, int] = {}
        self.side = dict.fromkeys(names, 0)
        self.sessions: dict[ClientId, int] = {}
        self.members: dict[ClientId, list[str]] = {}
        self.opened = 0
        self.heard: list[tuple[tuple[ClientId, ...], b4.Indication]] = []
        self.pruning = 0.5
        self.interest: list[Action] = []

    # --- record and effects ----------------------------------------------------------------------------------------

    def record(self, daemon: DaemonId, entry: t.Entry) -> None:
        self.now += 1
        self.recorder.record(daemon.name, daemon.incarnation, self.now, entry)

    def perform(self, node: Node, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Submit(drafts=drafts):
                    for draft in drafts:
                        node.drafts.setdefault(draft.session, deque()).append(draft)
                case b4.Indicate(receivers=receivers, indication=indication):
                    self.heard.append((receivers, indication))
                    assert receivers and len(set(receivers)) == len(receivers)
                    assert all(client.daemon == node.me for client in receivers)
                    for entry in entries_of_indication(receivers, indication):
                        if not (isinstance(entry, t.Disconnected) and entry.reason == "asked for"):
                            self.record(node.me, entry)
                case StateInterest() | ChangeInterest():
                    self.interest.append(action)
                case _:
                    raise AssertionError(action)

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self.incarnations[name] = self.incarnations.get(name, 0) + 1
        me = DaemonId(name, self.incarnations[name])
        self.nodes[name] = Node(me, self.clocks.get(name, CLOCK_FLOOR))
        self.record(me, t.Recovered(str(me)))

    def crash(self, name: str) -> None:
        node = self.nodes.pop(name)
        self.clocks[name] = node.clock
        self.sessions = {client: left for client, left in self.sessions.items() if client.daemon != node.me}
        self.record(node.me, t.Crashed(str(node.me)))

    # --- stamping --------------------------------------------------------------------------------------------------

    def stamp(self, node: Node) -> None:
        if node.place is None or node.attempt is not None:
            return
        waiting = [session for session, drafts in node.drafts.items() if drafts]
        if not waiting:
            return
        session = self.choice.pick(waiting)
        draft = node.drafts[session].popleft()
        begun = node.stamped.get(session, [])
        node.stamped[session] = [*begun, draft] if draft.large is not None else []
        if draft.large is not None and begun and begun[0].large is not draft.large:
            node.stamped[session] = [draft]
        node.clock += 1
        unit = self._unit(node, node.place, session, draft)
        node.sent += 1
        node.place.view.log[unit.position] = Sent(unit, node.sent, session)
        digests = (message_digest(0, unit.body),)
        self.record(node.me, t.DaemonSent(str(node.me), node.sent, unit.service, (len(unit.body),), digests))
        self._receive(node, unit)

    def _unit(self, node: Node, place: Place, session: str, draft: Draft) -> Unit:
        index = node.index
        previous, weak, agreed = place.sessions.get(session, (0, 0, BEFORE_ALL))
        if draft.service is not Service.UNRELIABLE:
            place.sequence += 1
        sequence = place.sequence if draft.service is not Service.UNRELIABLE else 0
        head = (draft.kind, draft.service, index, index, sequence, node.clock)
        if draft.service.is_agreed:
            place.sessions[session] = (sequence, weak, (node.clock, index))
            return Unit(*head, previous, draft.body)
        past = list(place.weak_past)
        past[index] = max(past[index], weak)
        before = max(place.agreed_past, agreed)
        place.sessions[session] = (sequence or previous, sequence or weak, agreed)
        return Unit(*head, previous if sequence else 0, draft.body, tuple(past), before, self._last_cut(place))

    def _last_cut(self, place: Place) -> Position:
        """Up to which everything was received here, or by somebody of whom this daemon heard."""
        cuts = [sent.unit.position for sent in place.view.log.values() if sent.unit.is_cut]
        return max([place.cut_past, *(each for each in cuts if each[0] <= place.agreed)])

    # --- receiving and delivering ----------------------------------------------------------------------------------

    def _connected(self, one: Node, other: Node) -> bool:
        same = one.place is not None and other.place is not None and one.place.view is other.place.view
        return same and self.side[one.me.name] == self.side[other.me.name] and other.attempt is None

    def transfer(self, node: Node) -> None:
        """A unit, a promise or a report of another daemon comes."""
        if node.place is None or node.attempt is not None:
            return
        others = [other for other in self.nodes.values() if other is node or self._connected(node, other)]
        other = self.choice.pick(others)
        index = other.index
        place, view = node.place, node.place.view
        lacking = [
            sent.unit
            for position, sent in view.log.items()
            if sent.unit.daemon == index and position not in place.received
        ]
        if lacking and self.choice.chance(0.8):
            unit = lacking[0] if self.choice.chance(0.7) else self.choice.pick(lacking)
            if unit.service is Service.UNRELIABLE and self.choice.chance(0.3):
                place.received.add(unit.position)
            else:
                self._receive(node, unit)
        else:
            self._learn(node, other)

    def _learn(self, node: Node, other: Node) -> None:
        place, index = node.place, other.index
        assert place is not None and other.place is not None
        lacking = [unit.lamport for unit in place.view.streams(index) if unit.position not in place.received]
        if self.choice.chance(0.3):
            other.clock = max(other.clock, node.clock)  # a line update carries the time
        place.promised[index] = max(place.promised[index], min([other.clock, *(time - 1 for time in lacking)]))
        place.agreed = max(place.agreed, min(place.promised))
        if not lacking:  # what it had stamped when it says so
            place.reported[index] = max(place.reported[index], other.place.agreed)
        place.reported[node.index] = place.agreed
        place.stable = max(place.stable, min(place.reported))
        self._walk(node)

    def _receive(self, node: Node, unit: Unit) -> None:
        place = node.place
        assert place is not None
        place.received.add(unit.position)
        node.clock = max(node.clock, unit.lamport)
        if unit.service is Service.UNRELIABLE:
            if unit.lamport > max(place.unreliable.get(unit.daemon, 0), place.last_agreed[0]):
                place.unreliable[unit.daemon] = unit.lamport
                self._deliver(node, [unit])
        elif unit.service in WEAK:
            self._try_early(node)

    def _try_early(self, node: Node) -> None:
        place = node.place
        assert place is not None
        progress = True
        while progress:
            progress = False
            for position in sorted(place.received - place.delivered):
                unit = place.view.log[position].unit
                if unit.service in WEAK and unit.sequence and self._is_early(place, unit):
                    self._deliver(node, [unit])
                    progress = True

    def _is_early(self, place: Place, unit: Unit) -> bool:
        if unit.behind > place.last_cut:
            return False
        if unit.service is Service.RELIABLE:
            return True
        if not self._session_complete(place, unit):
            return False
        return unit.service is Service.FIFO or self._past_delivered(place, unit)

    def _session_complete(self, place: Place, unit: Unit) -> bool:
        """Whether everything before it in its session was delivered."""
        mine = {each.unit.sequence: each for each in place.view.log.values() if each.unit.daemon == unit.daemon}
        previous = unit.previous
        while previous:
            if mine[previous].unit.position not in place.delivered:
                return False
            previous = mine[previous].unit.previous
        return True

    def _past_delivered(self, place: Place, unit: Unit) -> bool:
        for sent in place.view.log.values():
            each = sent.unit
            if each.position in place.delivered or not each.sequence:
                continue
            if each.service.is_agreed and each.position <= unit.agreed_before:
                return False
            if each.service in WEAK and each.sequence <= unit.weak_before[each.site] and each.behind <= unit.behind:
                return False
        return True

    def _walk(self, node: Node) -> None:
        place = node.place
        assert place is not None
        out = []
        for position in sorted(place.view.log):
            unit = place.view.log[position].unit
            if unit.lamport > place.agreed or (unit.service is Service.SAFE and unit.lamport > place.stable):
                break
            if not unit.sequence:
                continue
            assert position in place.received
            if position not in place.delivered:
                out.append(unit)
        for unit in out:
            if unit.position not in place.delivered:
                self._deliver(node, [unit])
                self._try_early(node)

    def _deliver(self, node: Node, units: list[Unit]) -> None:
        place = node.place
        assert place is not None
        shown = []
        for unit in units:
            assert unit.position not in place.delivered
            place.delivered.add(unit.position)
            if unit.service.is_agreed:
                place.last_agreed = unit.position
                place.agreed_past = max(place.agreed_past, unit.position)
            else:
                place.weak_past = [max(pair) for pair in zip(place.weak_past, unit.weak_before)]
                place.weak_past[unit.site] = max(place.weak_past[unit.site], unit.sequence)
                place.agreed_past = max(place.agreed_past, unit.agreed_before)
                place.cut_past = max(place.cut_past, unit.behind)
            if unit.is_cut:
                place.last_cut = unit.position
            sender = place.view.members[unit.daemon]
            self.record(
                node.me,
                t.DaemonDelivered(
                    str(node.me),
                    str(sender),
                    place.view.log[unit.position].number,
                    unit.service,
                    (len(unit.body),),
                    (message_digest(0, unit.body),),
                    unit.lamport,
                    str(sender),
                ),
            )
            shown.append(self._pruned(node, unit))
        self.perform(node, node.groups.on_units(DeliverUnits(shown), self.now))

    def _pruned(self, node: Node, unit: Unit) -> Unit:
        """A daemon whose clients cannot want the content may get the metadata alone."""
        groups = peek(unit).groups
        if groups is None or not unit.sequence or not self.choice.chance(self.pruning):
            return unit
        private = [client.private_group for client in node.groups.roster.open.values()]
        return unit if {*groups} & {*node.wanted, *private} else unit.pruned()

    # --- view changes ----------------------------------------------------------------------------------------------

    def form(self, names: list[str]) -> None:
        """An attempt of these daemons: all exchange what they have of their views; each installs it later, or never."""
        nodes = sorted((self.nodes[name] for name in names), key=lambda node: node.me)
        self.epoch += 1
        view = View(DaemonViewId(self.epoch, nodes[0].me), tuple(node.me for node in nodes))
        by_view: dict[int, list[Node]] = {}
        for node in nodes:
            by_view.setdefault(id(node.place.view) if node.place else id(node), []).append(node)
        time = max(node.clock for node in nodes)
        for group in by_view.values():
            self._exchange(group)
            for node in group:
                node.attempt = Attempt(view, tuple(each.me for each in group))
                node.clock = time

    def _exchange(self, nodes: list[Node]) -> None:
        places = [node.place for node in nodes if node.place is not None]
        if not places:
            return
        log = places[0].view.log
        received = {position for place in places for position in place.received if log[position].unit.sequence}
        commit = {daemon for place in places for daemon in place.commit} | {node.me for node in nodes}
        agreed = max(place.agreed for place in places)
        stable = max(place.stable for place in places)
        for place in places:
            place.received |= received
            place.commit |= commit
            place.agreed, place.stable = agreed, stable

    def install(self, node: Node) -> None:
        attempt = node.attempt
        assert attempt is not None
        node.attempt = None
        if node.place is not None:
            self._farewell(node, node.place, attempt)
            self._requeue(node)
        members = attempt.view.members
        count = len(members)
        node.place = Place(
            attempt.view, attempt.together, promised=[0] * count, reported=[0] * count, weak_past=[0] * count
        )
        together = attempt.together
        view = DaemonView(attempt.view.id, members, together)
        self.record(
            node.me,
            t.DaemonViewDelivered(str(node.me), view.id, tuple(map(str, members)), tuple(map(str, together))),
        )
        topology = topology_of([daemon.name for daemon in members])
        self.perform(node, node.groups.on_daemon_view(DeliverDaemonView(view, topology, 1, node.clock), self.now))

    def _requeue(self, node: Node) -> None:
        for session, begun in node.stamped.items():
            waiting = node.drafts.get(session)
            if begun and waiting and waiting[0].large is begun[0].large:
                waiting.extendleft(reversed(begun))
        node.stamped.clear()

    def _farewell(self, node: Node, place: Place, attempt: Attempt) -> None:
        before, after = self._cut(place)
        if before:
            self._deliver_batch(node, before)
        self.record(node.me, t.DaemonSignalDelivered(str(node.me), place.view.id))
        signal = DeliverSignal(place.view.id, attempt.view.id, attempt.together)
        self.perform(node, node.groups.on_signal(signal, self.now))
        if after:
            self._deliver_batch(node, after)

    def _deliver_batch(self, node: Node, units: list[Unit]) -> None:
        cut = self.choice.below(len(units) + 1)
        for batch in (units[:cut], units[cut:]):
            if batch:
                self._deliver(node, batch)

    def _cut(self, place: Place) -> tuple[list[Unit], list[Unit]]:
        """What is delivered before the signal and after it: everybody who comes along computes the same."""
        log, members = place.view.log, place.view.members
        held = [log[position].unit for position in sorted(place.received) if log[position].unit.sequence]
        hole = self._first_hole(place, held)
        before: list[Unit] = []
        after: list[Unit] = []
        walk = replace(place, delivered=set(place.delivered))
        for unit in held:
            if unit.lamport > place.agreed or (unit.service is Service.SAFE and unit.lamport > place.stable):
                break
            if unit.is_cut:
                self._go_ahead(walk, held, before)
                walk.last_cut = unit.position
            if unit.position not in walk.delivered:
                walk.delivered.add(unit.position)
                before.append(unit)
        self._go_ahead(walk, held, before)
        whole = walk.delivered  # and what is delivered by everyone who comes along, by these rules
        for unit in held:
            if unit.position in whole:
                continue
            if self._counts(place, unit, whole, hole, members[unit.daemon] in place.commit):
                whole.add(unit.position)
                after.append(unit)
        return before, after

    def _go_ahead(self, walk: Place, held: list[Unit], out: list[Unit]) -> None:
        for unit in held:  # what it waits for stands before it
            if unit.service in WEAK and unit.position not in walk.delivered and self._is_early(walk, unit):
                walk.delivered.add(unit.position)
                out.append(unit)

    def _counts(self, place: Place, unit: Unit, whole: set[Position], hole: int, committed: bool) -> bool:
        if unit.service is Service.RELIABLE or committed:
            return True
        if unit.service.is_agreed:
            return unit.lamport < hole
        mine = {each.unit.sequence: each.unit for each in place.view.log.values() if each.unit.daemon == unit.daemon}
        previous = unit.previous
        while previous:
            if mine[previous].position not in whole:
                return False
            previous = mine[previous].previous
        if unit.service is Service.FIFO:
            return True
        for sent in place.view.log.values():
            each = sent.unit
            if not each.sequence or each.position in whole:
                continue
            if each.service.is_agreed and each.position <= unit.agreed_before:
                return False
            if each.service in WEAK and each.sequence <= unit.weak_before[each.site]:
                return False
        return True

    def _first_hole(self, place: Place, held: list[Unit]) -> int:
        """The lowest time above which a unit that is known to exist, and is not here, may stand."""
        hole = 1 << 62
        for index in range(len(place.view.members)):
            mine = {unit.sequence: unit for unit in held if unit.daemon == index}
            for sequence in range(1, max(mine, default=0)):
                if sequence not in mine:
                    below = mine[sequence - 1].lamport if sequence > 1 else 0
                    hole = min(hole, below + 1)
                    break
        return max(hole, place.agreed + 1)  # below that nothing is missing

    # --- clients ---------------------------------------------------------------------------------------------------

    def ask(self, client: ClientId, request: b4.Request) -> list[b4.Indication]:
        node = self.nodes[client.daemon.name]
        actions = node.groups.handle(b4.Requested(self.now, client, request))
        heard = [action.indication for action in actions if isinstance(action, b4.Indicate)]
        entry = entry_of_request(client, request)
        if entry is not None and not any(isinstance(each, b4.Refused) for each in heard):
            self.record(node.me, entry)
        self.perform(node, actions)
        return heard

    def connect(self, daemon: str, name: str) -> ClientId:
        self.opened += 1
        client = ClientId(self.nodes[daemon].me, name, self.opened)
        assert self.ask(client, b4.Connect()) == [b4.Connected()]
        self.sessions[client] = 1
        self.members[client] = []
        return client

    def disconnect(self, client: ClientId) -> None:
        del self.sessions[client]
        self.ask(client, b4.Disconnect())

    def join(self, client: ClientId, group: str) -> None:
        self.members[client].append(group)
        self.nodes[client.daemon.name].wanted.add(group)
        assert self.ask(client, b4.Join(group)) == []

    def leave(self, client: ClientId, group: str) -> None:
        self.members[client].remove(group)
        assert self.ask(client, b4.Leave(group)) == []

    def send(self, client: ClientId, service: Service, *groups: str, bodies: list[bytes] | None = None) -> None:
        first = self.sessions[client]
        bodies = bodies or [b"%d" % first]
        assert self.ask(client, b4.Send(bundle_of(client, first, service, groups, bodies))) == []
        self.sessions[client] = first + len(bodies)

    # --- the end ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """One daemon view for each side, and everything delivered."""
        sides: dict[int, list[str]] = {}
        for name in self.names:
            sides.setdefault(self.side[name], []).append(name)
        self.now += 1
        self.recorder.record("", 0, self.now, t.Stabilised(tuple(map(tuple, sides.values()))))
        for side in sides.values():
            self.form(side)
            for name in side:
                self.install(self.nodes[name])
        self.drain()
        self.recorder.record("", 0, self.now + 1, t.Ended(True))

    def drain(self) -> None:
        for _ in range(10_000):
            for node in self.nodes.values():
                while any(node.drafts.values()):
                    self.stamp(node)
            before = len(self.rows)
            for node in self.nodes.values():
                self._catch_up(node)
            if before == len(self.rows) and not any(any(node.drafts.values()) for node in self.nodes.values()):
                top = max(node.clock for node in self.nodes.values())
                if all(node.place is not None and node.place.stable >= top for node in self.nodes.values()):
                    return
                for node in self.nodes.values():
                    node.clock = top
        raise AssertionError("it does not become quiet")

    def _catch_up(self, node: Node) -> None:
        place = node.place
        assert place is not None
        for position in sorted(place.view.log):
            if position not in place.received:
                self._receive(node, place.view.log[position].unit)
        for other in self.nodes.values():
            if other.place is not None and other.place.view is place.view:
                self._learn(node, other)


def topology_of(names: list[str]) -> Topology:
    """Two sites, by the name's last letter being odd or even, or one."""
    odd = tuple(name for name in names if int(name[1:]) % 2)
    even = tuple(name for name in names if not int(name[1:]) % 2)
    sites = [Site(label, daemons, daemons[0]) for label, daemons in (("even", even), ("odd", odd)) if daemons]
    return Topology(tuple(sites), ())
