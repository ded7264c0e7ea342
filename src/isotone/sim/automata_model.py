"""Automata as a model for the explorer: messages in flight, armed timers, disks, crashes, cuts.

Each process is one automaton, reached at the address that is its name. Whatever may happen next is a step: a message
arrives, an armed timer fires (time is no argument: any armed timer may), a sync ends, the next event of a script is
handed in; and, while its budget lasts, a message is lost or doubled, a process crashes, the network parts. ``at``
counts the steps of the path.

Deviations from the world's disk: a crash keeps a prefix of all unsynced writes of the process in the order of writing,
so that the outcomes stay few; cells that overtake each other are the simulator's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from isotone.core.boundary import Ask, Indicate, Indicated, Requested
from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CancelTimer,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    Persist,
    Persisted,
    Record,
    SendDatagrams,
    SetTimer,
    Started,
    Stop,
    TimerFired,
    TimerKey,
    Write,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.sim.canonical import branch, canonical
from isotone.sim.disk import Disk, DiskSettings, Submission

Sides = tuple[tuple[str, ...], ...]
Invariant = Callable[["SystemState"], str | None]
Translate = Callable[[str, Action], "Sequence[tuple[str, Event]] | None"]


@dataclass(frozen=True)
class Flight:
    """A message on its way."""

    source: str
    destination: str
    event: Event

    @cached_property
    def code(self) -> bytes:
        """What identifies it."""
        return canonical((self.source, self.destination, self.event))


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """How many faults of each kind one run may have."""

    drops: int = 0
    duplicates: int = 0
    crashes: int = 0
    partitions: int = 0


@dataclass(frozen=True)
class ProcessState:
    """One process; shared between states until it changes."""

    automaton: Automaton | None  # None while it is down
    timers: frozenset[TimerKey] = frozenset()
    held: tuple[Action, ...] = ()  # begins with an unfinished Persist, or is empty
    durable: tuple[Write, ...] = ()
    incarnation: int = 1
    told: int = 0  # events of the script that were handed in

    @cached_property
    def code(self) -> bytes:
        """What identifies it; written once, since most steps leave most processes alone."""
        return canonical((self.automaton, self.timers, self.held, self.durable, self.incarnation, self.told))


@dataclass(frozen=True)
class SystemState:
    """All processes, what is in flight, and what is left of the budgets."""

    processes: Mapping[str, ProcessState]
    flights: tuple[Flight, ...]
    budgets: Budgets
    sides: Sides = ()
    at: int = 0
    problem: str = ""  # what went wrong on the way here: an exception in an automaton

    def automaton(self, name: str) -> Automaton | None:
        """The automaton of a process, or nothing while it is down."""
        return self.processes[name].automaton

    def is_parted(self, one: str, other: str) -> bool:
        """Whether the network is cut between two processes; who is on no side is alone with the others of that kind."""
        return _side(self.sides, one) != _side(self.sides, other)


@dataclass
class AutomataModel:
    """A model for `isotone.sim.explorer.explore`."""

    programs: Mapping[str, Callable[[], Automaton]]
    invariants: Sequence[Invariant] = ()
    budgets: Budgets = field(default_factory=Budgets)
    fifo: bool = False
    """Whether messages of one link keep their order; otherwise all in flight are a multiset."""
    script: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    partitions: Sequence[Sides] = ()
    service: str | None = None
    """The process that serves boundary B4 for the others; what crosses it is never lost, doubled or reordered."""
    translate: Translate | None = None
    """For automata of inner layers: the messages, with their destinations, that an action of theirs stands for."""
    mortal: Sequence[str] | None = None
    """Who may crash while the budget lasts; everybody but the service when not said."""
    accept: Callable[[SystemState], bool] = lambda state: True

    def initial(self) -> Iterable[SystemState]:
        """All processes have just started."""
        state = SystemState({name: ProcessState(None) for name in self.programs}, (), self.budgets)
        for name in self.programs:
            state = self._start(state, name, 1)
        return [state]

    def identity(self, state: SystemState) -> bytes:
        """Processes, flights as a multiset or per link in order, budgets, sides; no time."""
        kept: list[tuple[tuple[str, str], bytes]] = []
        loose: list[bytes] = []
        for flight in state.flights:
            if self._is_ordered(flight):
                kept.append((_link(flight), flight.code))
            else:
                loose.append(flight.code)
        kept.sort(key=lambda pair: pair[0])
        parts = [process.code for process in state.processes.values()]
        parts += [canonical((state.budgets, state.sides, state.problem)), *(code for _, code in kept), b"|"]
        return b"".join(parts + sorted(loose))

    def problem(self, state: SystemState) -> str | None:
        """An exception on the way, or the first invariant that is broken."""
        if state.problem:
            return state.problem
        return next((problem for invariant in self.invariants if (problem := invariant(state))), None)

    def may_end(self, state: SystemState) -> bool:
        """Whether nothing was left undone, in the opinion of whoever made the model."""
        return self.accept(state)

    # --- steps ---------------------------------------------------------------------------------------------------

    def steps(self, state: SystemState) -> Iterator[tuple[str, SystemState]]:
        """Whatever may happen next."""
        state = replace(state, at=state.at + 1)
        yield from self._arrivals(state)
        for name, process in state.processes.items():
            yield from self._own_steps(state, name, process)
        yield from self._cuts(state)

    def _arrivals(self, state: SystemState) -> Iterator[tuple[str, SystemState]]:
        for place in self._heads(state):
            flight = state.flights[place]
            rest = replace(state, flights=state.flights[:place] + state.flights[place + 1 :])
            what = f"{_told(flight.event)} from {flight.source}"
            faulty = not self._crosses_boundary(flight)
            if faulty and state.is_parted(flight.source, flight.destination):
                yield f"{flight.destination}: lost at the cut: {what}", rest
                continue
            yield f"{flight.destination}: {what}", self._hand(rest, flight.destination, flight.event)
            if faulty and state.budgets.drops:
                yield f"{flight.destination}: lost: {what}", _spend(rest, "drops")
            if faulty and state.budgets.duplicates:
                twice = _spend(state, "duplicates")
                yield f"{flight.destination}: doubled: {what}", self._hand(twice, flight.destination, flight.event)

    def _heads(self, state: SystemState) -> list[int]:
        """Which flights may arrive next; of equal ones only the first."""
        heads, seen = [], set()
        for place, flight in enumerate(state.flights):
            key = _link(flight) if self._is_ordered(flight) else flight.code
            if key not in seen:
                seen.add(key)
                heads.append(place)
        return heads

    def _own_steps(self, state: SystemState, name: str, process: ProcessState) -> Iterator[tuple[str, SystemState]]:
        if process.automaton is None:
            yield f"{name}: restart", self._start(state, name, process.incarnation + 1)
            return
        for key in sorted(process.timers, key=canonical):
            rung = _put(state, name, replace(process, timers=process.timers - {key}))
            yield f"{name}: timer {key!r}", self._hand(rung, name, TimerFired(0, key))
        if process.held:
            yield f"{name}: sync", self._sync(state, name, process)
        script = self.script.get(name, ())
        if process.told < len(script):
            event = script[process.told]
            told = _put(state, name, replace(process, told=process.told + 1))
            yield f"{name}: told {_told(event)}", self._hand(told, name, event)
        if state.budgets.crashes and (name in self.mortal if self.mortal is not None else name != self.service):
            yield from self._crashes(state, name, process)

    def _crashes(self, state: SystemState, name: str, process: ProcessState) -> Iterator[tuple[str, SystemState]]:
        pending = [write for action in process.held if isinstance(action, Persist) for write in action.writes]
        for survivors in range(len(pending) + 1):
            durable = process.durable + tuple(pending[:survivors])
            down = ProcessState(None, durable=durable, incarnation=process.incarnation, told=process.told)
            kept = f", {survivors} of {len(pending)} writes survive" if pending else ""
            yield f"{name}: crash{kept}", _put(_spend(state, "crashes"), name, down)

    def _cuts(self, state: SystemState) -> Iterator[tuple[str, SystemState]]:
        if state.sides:
            yield "network: heal", replace(state, sides=())
        elif state.budgets.partitions:
            for sides in self.partitions:
                text = " | ".join(" ".join(side) for side in sides)
                yield f"network: partition {text}", replace(_spend(state, "partitions"), sides=sides)

    # --- one automaton -------------------------------------------------------------------------------------------

    def _start(self, state: SystemState, name: str, incarnation: int) -> SystemState:
        before = state.processes[name]
        disk = Disk(DiskSettings(), Choice(0))
        if before.durable:
            disk.submit(Submission("", 0, before.durable))
            disk.begin_sync()
            disk.end_sync()
        born = ProcessState(self.programs[name](), durable=before.durable, incarnation=incarnation, told=before.told)
        return self._hand(_put(state, name, born), name, Started(0, disk.storage("")))

    def _hand(self, state: SystemState, name: str, event: Event) -> SystemState:
        """Let a branch of the automaton handle the event; what reaches a process that is down is lost."""
        process = state.processes[name]
        if process.automaton is None:
            return state
        automaton = branch(process.automaton)
        try:
            actions = automaton.handle(msgspec.structs.replace(event, at=state.at))
        except RemoteProtocolError:
            return state  # the shell drops what no correct peer sends
        except Exception as error:
            return replace(state, problem=f"{name} on {_told(event)}: {type(error).__name__}: {error}")
        return self._perform(_put(state, name, replace(process, automaton=automaton)), name, actions)

    def _perform(self, state: SystemState, name: str, actions: Iterable[Action]) -> SystemState:
        for action in actions:
            process = state.processes[name]
            if process.automaton is None:
                break
            if process.held or isinstance(action, Persist):
                state = _put(state, name, replace(process, held=(*process.held, action)))
            else:
                state = self._effect(state, name, process, action)
        return state

    def _effect(self, state: SystemState, name: str, process: ProcessState, action: Action) -> SystemState:
        match action:
            case SetTimer(key=key):
                return _put(state, name, replace(process, timers=process.timers | {key}))
            case CancelTimer(key=key):
                return _put(state, name, replace(process, timers=process.timers - {key}))
            case Stop():
                return _put(state, name, replace(process, automaton=None, timers=frozenset(), held=()))
            case Record():
                return state
        flights = [flight for flight in self._flights(name, action) if self._leaves(state, flight)]
        return replace(state, flights=(*state.flights, *flights))

    def _flights(self, name: str, action: Action) -> list[Flight]:
        messages = self.translate(name, action) if self.translate else None
        if messages is not None:
            return [Flight(name, destination, event) for destination, event in messages]
        match action:
            case SendDatagrams(destination=destination, datagrams=datagrams):
                return _datagrams(name, [destination], datagrams)
            case MulticastDatagrams(datagrams=datagrams):
                return _datagrams(name, [other for other in self.programs if other != name], datagrams)
            case Ask(client=client, request=request):
                assert self.service is not None, "there is no service"
                return [Flight(name, self.service, Requested(0, client, request))]
            case Indicate(receivers=receivers, indication=indication):
                places = dict.fromkeys(receiver.daemon.name for receiver in receivers)
                return [
                    Flight(name, place, Indicated(0, tuple(r for r in receivers if r.daemon.name == place), indication))
                    for place in places
                ]
        raise LocalProtocolError(f"the explorer does not know the action {action!r}")

    def _leaves(self, state: SystemState, flight: Flight) -> bool:
        if self._crosses_boundary(flight):
            return True
        return flight.destination in self.programs and not state.is_parted(flight.source, flight.destination)

    def _sync(self, state: SystemState, name: str, process: ProcessState) -> SystemState:
        """The first `Persist` is durable: the automaton hears so, and what stands behind it is done up to the next."""
        first, *behind = process.held
        assert isinstance(first, Persist)
        ready = 0
        while ready < len(behind) and not isinstance(behind[ready], Persist):
            ready += 1
        durable = process.durable + tuple(first.writes)
        state = _put(state, name, replace(process, held=(), durable=durable))
        state = self._perform(state, name, behind[:ready])
        if state.processes[name].automaton is not None:
            state = _put(state, name, replace(state.processes[name], held=tuple(behind[ready:])))
        return self._hand(state, name, Persisted(0, first.ticket))

    def _is_ordered(self, flight: Flight) -> bool:
        return self.fifo or self._crosses_boundary(flight)

    def _crosses_boundary(self, flight: Flight) -> bool:
        return self.service is not None and self.service in (flight.source, flight.destination)


def _put(state: SystemState, name: str, process: ProcessState) -> SystemState:
    return replace(state, processes={**state.processes, name: process})


def _spend(state: SystemState, kind: str) -> SystemState:
    left = getattr(state.budgets, kind) - 1
    return replace(state, budgets=msgspec.structs.replace(state.budgets, **{kind: left}))


def _datagrams(
    source: str, destinations: Iterable[str], datagrams: Sequence[Sequence[bytes | memoryview]]
) -> list[Flight]:
    packets = [b"".join(parts) for parts in datagrams]
    return [
        Flight(source, destination, DatagramsReceived(0, Address(source), packet, len(packet)))
        for destination in destinations
        for packet in packets
    ]


def _link(flight: Flight) -> tuple[str, str]:
    return flight.source, flight.destination


def _side(sides: Sides, name: str) -> int:
    return next((number for number, side in enumerate(sides, start=1) if name in side), 0)


def _told(event: Event) -> str:
    """An event in one line, without its time."""
    if isinstance(event, DatagramsReceived):
        return repr(bytes(event.data))
    fields = [f"{name}={getattr(event, name)!r}" for name in event.__struct_fields__ if name != "at"]
    return f"{type(event).__name__}({', '.join(fields)})"
