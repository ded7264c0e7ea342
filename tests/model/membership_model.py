"""Memberships as they are for the explorer: who is there, what is on its way, when timers are due, what was delivered.

See `tests.model.test_membership_model` for what is explored and what is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    Persist,
    Record,
    SendDatagrams,
    SetTimer,
    Started,
    TimerFired,
    TimerKey,
    Write,
)
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal, DeliverUnits, Submitted
from isotone.evs.membership import KnownDaemon, Membership, MembershipSettings, State
from isotone.evs.membership.node import LOOKUP_TIMER
from isotone.evs.membership.watch import DETECTOR_TIMER
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.sim.canonical import branch, canonical
from isotone.sim.disk import Disk, DiskSettings, Submission
from tests.model.evs_rules import Delivered, Incarnation, broken_rule
from tests.model.told_detector import Told

SPARING = MembershipSettings(alive_us=200_000, join_us=200_000, gather_us=150_000, newmemb_us=500_000, count_us=0)
"""Nothing is repeated while all goes well, and no packets are counted, so that there are fewer states."""
LOOKUPS_MAX = 2
"""Periodic looks for others in one run, each only when nothing else is left to happen."""
START_STEPS_MAX = 300


@dataclass(frozen=True)
class Daemon:
    """One daemon; shared between states until it changes."""

    membership: Membership | None  # None while it is down
    incarnation: int = 1
    timers: tuple[tuple[int, TimerKey], ...] = ()  # when each is due; sorted
    durable: tuple[Write, ...] = ()
    history: tuple[Delivered, ...] = ()  # of this incarnation

    @cached_property
    def code(self) -> bytes:
        return canonical((self.membership, self.incarnation, self.timers, self.durable, self.history))

    @property
    def detector(self) -> Told:
        assert self.membership is not None
        detector = self.membership.node.watch.detector
        assert isinstance(detector, Told)
        return detector


@dataclass(frozen=True)
class Flight:
    source: str
    destination: str
    data: bytes

    @property
    def link(self) -> tuple[str, str]:
        return self.source, self.destination


@dataclass(frozen=True)
class Whole:
    """The system: everybody, what is under way in the order of sending, and what may still go wrong."""

    daemons: Mapping[str, Daemon]
    ended: Mapping[Incarnation, tuple[Delivered, ...]] = field(default_factory=dict)  # histories of crashed ones
    flights: tuple[Flight, ...] = ()
    now: int = 0
    sides: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()  # still to come, in this order
    departures: int = 0  # still allowed
    lookups: int = LOOKUPS_MAX
    problem: str = ""
    stopped: int = 0  # packets that a cut kept back; no part of the state, `MembershipModel` compares it

    @property
    def up(self) -> list[str]:
        return [name for name, daemon in self.daemons.items() if daemon.membership is not None]

    def passes(self, one: str, other: str) -> bool:
        """Whether the network lets packets through between these two."""
        return not self.sides or any(one in side and other in side for side in self.sides)

    def histories(self) -> Iterator[tuple[Incarnation, tuple[Delivered, ...]]]:
        yield from self.ended.items()
        for name, daemon in self.daemons.items():
            if daemon.membership is not None:
                yield (name, daemon.incarnation), daemon.history

    def is_together(self) -> bool:
        """Whether everybody who is up and not cut off is in one daemon view that works. Sides may overlap."""
        for name in self.up:
            membership = self.daemons[name].membership
            assert membership is not None
            reached = [name]
            for one in reached:
                reached += [other for other in self.up if other not in reached and self.passes(one, other)]
            if membership.state is not State.OP or sorted(each.name for each in membership.members) != sorted(reached):
                return False
        return True


Steps = Iterator[tuple[str, Whole]]


@dataclass
class MembershipModel:
    """``sites`` as in "ab c". ``faults``: "crash a", "restart a", "cut a bc", "heal", each at any point, in order.

    What is in ``first`` happens in the beginning, behind ``talk``.
    """

    sites: str
    faults: Sequence[str] = ()
    departures: int = 0
    talk: Sequence[tuple[str, Service]] = ()
    first: Sequence[str] = ()
    settings: MembershipSettings = SPARING

    def __post_init__(self) -> None:
        self.home = {letter: word for word in self.sites.split() for letter in word}
        known = tuple(KnownDaemon(name, site, Address(name)) for name, site in self.home.items())
        self.settings = msgspec.structs.replace(self.settings, known=known, multicast=False)

    # --- the model -------------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[Whole]:
        """Everybody in one daemon view, with drafts just submitted, before anything goes wrong."""
        state = Whole({name: Daemon(None, 0) for name in self.home})
        for name in self.home:
            state = self._start(state, name)
        for _ in range(START_STEPS_MAX):
            if (step := next(self._regular(state), None)) is None:
                break
            state = step[-1]
        assert state.is_together() and not state.problem, state.problem
        for number, (name, service) in enumerate(self.talk):
            body = f"{name}{number}".encode()
            state = self._hand(state, name, Submitted(0, [Draft("s", UnitKind.BUNDLE, service, body)]))
        for fault in self.first:
            _, state = self._fault(state, fault)
        return [replace(state, faults=tuple(self.faults), departures=self.departures)]

    def identity(self, state: Whole) -> bytes:
        links: dict[tuple[str, str], list[bytes]] = {}
        for flight in state.flights:
            links.setdefault(flight.link, []).append(flight.data)
        order = list(links)  # the regular schedule depends on it
        rest = (state.ended, order, links, state.now, state.sides, state.faults, state.departures, state.lookups)
        return b"".join([*(each.code for each in state.daemons.values()), canonical((rest, state.problem))])

    def problem(self, state: Whole) -> str | None:
        return state.problem or broken_rule(list(state.histories()))

    def may_end(self, state: Whole) -> bool:
        return state.is_together() and not state.faults

    def steps(self, state: Whole) -> Steps:
        """The regular step; while departures are left, everything else that may come first; and the next fault."""
        regular = list(islice(self._regular(state), None if state.departures else 1))
        for place, (text, _, after) in enumerate(regular):
            yield text, after if place == 0 else replace(after, departures=state.departures - 1)
        if state.departures:
            for link in dict.fromkeys(flight.link for flight in state.flights):
                rest = tuple(flight for flight in state.flights if flight.link != link)
                yield f"{'→'.join(link)} lost", replace(state, flights=rest, departures=state.departures - 1)
        if state.faults and not (regular and all(self._can_wait(state, link, after) for _, link, after in regular)):
            yield self._fault(replace(state, faults=state.faults[1:]), state.faults[0])

    def _can_wait(self, state: Whole, link: tuple[str, str] | None, after: Whole) -> bool:
        """Whether the next fault leads to the same whether it comes before this step or behind it.

        So it is with packets that arrive where no crash is, and neither cross nor lead to others that cross a cut.
        """
        kind, *names = state.faults[0].split()
        if link is None or kind == "restart":
            return False
        if kind == "crash":
            return link[1] != names[0]
        before = sum(flight.link != link for flight in state.flights)
        parted = replace(state, sides=tuple(names))
        links = [link, *(flight.link for flight in after.flights[before:])]
        return after.stopped == state.stopped and all(parted.passes(*each) for each in links)

    # --- what may happen -------------------------------------------------------------------------------------------

    def _regular(self, state: Whole) -> Iterator[tuple[str, tuple[str, str] | None, Whole]]:
        """In the order of a calm network: packets, then what the detectors find out, then time passes."""
        for link in dict.fromkeys(flight.link for flight in state.flights):
            yield "→".join(link), link, self._deliver(state, link)
        yield from ((text, None, after) for text, after in self._verdicts(state))
        due = self._next_timer(state)
        if due is not None:
            at, name, key = due
            daemon = state.daemons[name]
            rung = replace(daemon, timers=tuple(each for each in daemon.timers if each[1] != key))
            spent = replace(state, now=at, lookups=state.lookups - (key == LOOKUP_TIMER))
            yield f"{name}: {key}", None, self._hand(_put(spent, name, rung), name, TimerFired(0, key))

    def _next_timer(self, state: Whole) -> tuple[int, str, TimerKey] | None:
        found = [
            (at, name, key)
            for name, daemon in state.daemons.items()
            for at, key in daemon.timers
            if key != LOOKUP_TIMER or (state.lookups and not state.is_together())
        ]
        busy = [each for each in found if each[2] != LOOKUP_TIMER]
        return min(busy or found, key=lambda each: each[:2], default=None)

    def _deliver(self, state: Whole, link: tuple[str, str]) -> Whole:
        """All that is under way from one to the other, in its order."""
        source, destination = link
        arriving = [flight for flight in state.flights if flight.link == link]
        state = replace(state, flights=tuple(flight for flight in state.flights if flight.link != link))
        state = _put(state, destination, _branched(state.daemons[destination]))
        for flight in arriving:
            event = DatagramsReceived(0, Address(source), flight.data, len(flight.data))
            state = self._hand(state, destination, event, branched=True)
        return state

    def _verdicts(self, state: Whole) -> Steps:
        """Who is gone will be suspected, who is back will be asked and answer."""
        for name in state.up:
            for peer, suspected in state.daemons[name].detector.suspects.items():
                is_there = state.daemons[peer].membership is not None and state.passes(name, peer)
                if is_there and (suspected or self._has_lost_probe(state, name, peer)):
                    yield f"{name}: {peer} is asked", self._tell(state, name, asked=peer)
                elif not is_there and not suspected:
                    yield f"{name}: {peer} is accused", self._tell(state, name, accused=peer)

    def _has_lost_probe(self, state: Whole, name: str, peer: str) -> bool:
        """Whether somebody who is there did not answer, and no packet is left that could change it."""
        membership = state.daemons[name].membership
        assert membership is not None
        links = {flight.link for flight in state.flights}
        under_way = (name, peer) in links or (peer, name) in links
        return not membership.node.peers.by_name[peer].two_way and not under_way

    def _tell(self, state: Whole, name: str, *, asked: str = "", accused: str = "") -> Whole:
        daemon = _branched(state.daemons[name])
        daemon.detector.asked, daemon.detector.accused = asked, accused
        return self._hand(_put(state, name, daemon), name, TimerFired(0, DETECTOR_TIMER), branched=True)

    def _fault(self, state: Whole, fault: str) -> tuple[str, Whole]:
        kind, *names = fault.split()
        match kind:
            case "crash":
                daemon = state.daemons[names[0]]
                ended = {**state.ended, (names[0], daemon.incarnation): daemon.history}
                down = Daemon(None, daemon.incarnation, durable=daemon.durable)
                return fault, _put(replace(state, ended=ended), names[0], down)
            case "restart":
                return fault, self._start(state, names[0])
            case "cut":
                state = replace(state, sides=tuple(names))
                crossing = tuple(flight for flight in state.flights if state.passes(*flight.link))
                return fault, replace(state, flights=crossing)
            case "heal":
                return fault, replace(state, sides=())
        raise AssertionError(fault)

    # --- one daemon ------------------------------------------------------------------------------------------------

    def _start(self, state: Whole, name: str) -> Whole:
        before = state.daemons[name]
        incarnation = before.incarnation + 1
        membership = Membership(
            me=DaemonId(name, incarnation),
            identity=blake2b(name.encode(), digest_size=16).digest(),
            site=self.home[name],
            address=Address(name),
            settings=self.settings,
        )
        membership.node.watch.detector = Told()
        disk = Disk(DiskSettings(), Choice(0))
        if before.durable:
            disk.submit(Submission("", 0, before.durable))
            disk.begin_sync()
            disk.end_sync()
        born = Daemon(membership, incarnation, durable=before.durable)
        return self._hand(_put(state, name, born), name, Started(0, disk.storage("")))

    def _hand(self, state: Whole, name: str, event: Event, *, branched: bool = False) -> Whole:
        """Let a branch of the membership handle it; ``branched``: it is a branch of this step's own."""
        daemon = state.daemons[name]
        if daemon.membership is None or state.problem:
            return state
        if not branched:
            daemon = _branched(daemon)
        assert daemon.membership is not None
        try:
            actions = daemon.membership.handle(msgspec.structs.replace(event, at=state.now))
        except RemoteProtocolError:
            return _put(state, name, daemon)  # the shell drops what no correct peer sends
        except Exception as error:
            return replace(state, problem=f"{name} on {type(event).__name__}: {type(error).__name__}: {error}")
        return self._perform(state, name, daemon, actions)

    def _perform(self, state: Whole, name: str, daemon: Daemon, actions: Sequence[Action]) -> Whole:
        timers = {key: at for at, key in daemon.timers}
        durable, history, sent = list(daemon.durable), list(daemon.history), list[Flight]()
        for action in actions:
            match action:
                case SetTimer(key=key, after_us=after_us):
                    timers[key] = state.now + after_us
                case CancelTimer(key=key):
                    timers.pop(key, None)
                case SendDatagrams(destination=destination, datagrams=datagrams):
                    sent += [Flight(name, str(destination), b"".join(parts)) for parts in datagrams]
                case MulticastDatagrams(datagrams=datagrams):
                    near = [each for each in self.home if each != name and self.home[each] == self.home[name]]
                    sent += [Flight(name, each, b"".join(parts)) for each in near for parts in datagrams]
                case DeliverDaemonView(view=view):
                    history.append(view)
                case DeliverSignal():
                    history.append(action)
                case DeliverUnits(units=units):
                    history += [bytes(unit.body) for unit in units]
                case Persist(writes=writes):
                    durable += writes
                case Record():
                    pass
                case _:
                    raise AssertionError(f"the model knows no {action!r}")
        armed = tuple(sorted(((at, key) for key, at in timers.items()), key=lambda each: (each[0], repr(each[1]))))
        daemon = replace(daemon, timers=armed, durable=tuple(durable), history=tuple(history))
        passing = [flight for flight in sent if state.passes(*flight.link)]
        stopped = state.stopped + len(sent) - len(passing)
        return _put(replace(state, flights=(*state.flights, *passing), stopped=stopped), name, daemon)


def _branched(daemon: Daemon) -> Daemon:
    return replace(daemon, membership=branch(daemon.membership))


def _put(state: Whole, name: str, daemon: Daemon) -> Whole:
    return replace(state, daemons={**state.daemons, name: daemon})
