"""Processes: a node has a name for all time, and at most one process at a time; each start is a new incarnation.

A process holds automata by label. Each has a lane: the FIFO stream of its effects across calls, in which a `Persist`
holds back all that stands behind it. A process reads its own clock, which begins anywhere and drifts, so that no
automaton can compare times across nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, Automaton, TimerKey
from isotone.core.errors import IsotoneError
from isotone.core.ids import ClientId, DaemonId
from isotone.sim.disk import Disk

RATE_ONE = 1 << 20
CLIENTS_LABEL = "clients"
SERVICE_LABEL = "service"


class ClockSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How far the clocks of processes differ: where they begin, and how fast they run."""

    offset_max_us: int = 1_000_000_000
    drift_max_ppm: int = 100


class Boot(msgspec.Struct, frozen=True):
    """What a program is given to build the automata of one incarnation."""

    daemon: DaemonId
    address: Address
    site: str
    choice: Choice
    at: int
    players: dict[str, str] = {}
    """The program may enter which label plays the clients of which name; all others are played by "clients"."""


Program = Callable[[Boot], Mapping[str, Automaton]]


class RunFailed(IsotoneError):
    """An automaton raised, or did what the contract forbids: where, when, on which event."""

    def __init__(self, *, process: str, automaton: str, at: int, event: object, problem: str) -> None:
        super().__init__(f"{process}/{automaton} at {at} us, on {_shortened(event)}: {problem}")
        self.process = process
        self.automaton = automaton
        self.at = at
        self.event = event
        self.problem = problem


class Phase(Enum):
    """The life of a process."""

    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class Clock:
    """One process' own monotonic microseconds, as a function of virtual time."""

    __slots__ = ("_began", "_offset", "_rate")

    def __init__(self, began: int, offset: int = 0, drift_ppm: int = 0) -> None:
        self._began = began
        self._offset = offset
        self._rate = RATE_ONE + drift_ppm * RATE_ONE // 1_000_000

    def read(self, now: int) -> int:
        """What the clock shows at this virtual time."""
        return self._offset + ((now - self._began) * self._rate >> 20)

    def when(self, shown: int) -> int:
        """The first virtual time at which the clock shows this or more."""
        return self._began + -((self._offset - shown) * RATE_ONE // self._rate)


class Timer:
    """One timer key of one automaton. Re-arming to a later time moves ``due`` only; its heap entry follows lazily."""

    __slots__ = ("due", "entry", "key", "lane", "periodic")

    def __init__(self, lane: Lane, key: TimerKey) -> None:
        self.lane = lane
        self.key = key
        self.due = -1  # virtual time, −1 while disarmed
        self.entry = -1  # the virtual time of the one heap entry that counts
        self.periodic = lane.is_periodic(key)


class Lane:
    """One automaton of a process, with the stream of its effects."""

    __slots__ = ("automaton", "door", "firing", "handle", "held", "label", "periodic", "process", "stopped", "timers")

    def __init__(self, process: Process, label: str, automaton: Automaton) -> None:
        self.process = process
        self.label = label
        self.automaton = automaton
        self.handle = automaton.handle
        self.held: deque[Action] = deque()  # begins with an unfinished Persist, or is empty
        self.timers: dict[TimerKey, Timer] = {}
        self.firing: set[TimerKey] = set()  # ran out in this instant, neither replaced nor cancelled since
        self.stopped = False  # it returned `Stop` and hears nothing more
        self.periodic: frozenset[str] = frozenset(getattr(automaton, "periodic_timers", ()))
        self.door: Address = getattr(automaton, "door", Address(""))  # where it listens, if not beside its process

    def is_periodic(self, key: TimerKey) -> bool:
        """Whether the automaton says that this timer runs for ever and means no work."""
        return (key if isinstance(key, str) else key[0]) in self.periodic


class Process:
    """One incarnation."""

    __slots__ = (
        "address",
        "clock",
        "daemon",
        "default_label",
        "inbox",
        "inbox_bytes",
        "lanes",
        "late",
        "node",
        "ousted",
        "parted",
        "phase",
        "players",
        "running",
        "sessions",
        "stopping",
    )

    def __init__(self, node: Node, daemon: DaemonId, address: Address, clock: Clock) -> None:
        self.node = node
        self.daemon = daemon
        self.address = address
        self.clock = clock
        self.lanes: dict[str, Lane] = {}
        self.default_label = ""
        self.players: dict[str, str] = {}
        self.phase = Phase.RUNNING
        self.running = True  # phase is RUNNING; read once per event
        self.stopping = False
        self.inbox: deque[tuple[Callable[[Any], None], Any]] = deque()  # what waits while the process is paused
        self.inbox_bytes = 0  # of datagrams in the inbox; bounded by the receive buffer
        self.parted: set[ClientId] = set()  # clients that asked to disconnect; their record is closed
        self.sessions: set[ClientId] = set()  # clients that asked to connect, and not to disconnect
        self.ousted: set[ClientId] = set()  # those whose session ended because the disk hung
        self.late: set[ClientId] = set()  # those of them who went while what they would hear was held back

    def fill(self, automata: Mapping[str, Automaton], players: Mapping[str, str]) -> None:
        """Take the automata that the program built."""
        assert automata, f"{self.daemon}: a process needs at least one automaton"
        self.lanes = {label: Lane(self, label, automaton) for label, automaton in automata.items()}
        self.default_label = SERVICE_LABEL if SERVICE_LABEL in self.lanes else next(iter(self.lanes))
        self.players = dict(players)

    def enter(self, phase: Phase) -> None:
        """Change the phase."""
        self.phase = phase
        self.running = phase is Phase.RUNNING

    def player(self, client: str) -> Lane | None:
        """The automaton that plays the clients of this name; where nobody does, the sessions of the service itself."""
        return self.lanes.get(self.players.get(client, CLIENTS_LABEL)) or self.lanes.get(SERVICE_LABEL)


class Node:
    """A name, its place and its disk, through all incarnations."""

    __slots__ = ("address", "addresses", "disk", "incarnation", "name", "process", "program", "site")

    def __init__(self, name: str, site: str, address: Address, program: Program, disk: Disk) -> None:
        self.name = name
        self.site = site
        self.address = address
        self.addresses = 1  # how many this node has had
        self.program = program
        self.disk = disk
        self.incarnation = 0
        self.process: Process | None = None


def _shortened(event: object, limit: int = 400) -> str:
    text = repr(event)
    return text if len(text) <= limit else f"{text[:limit]}…"
