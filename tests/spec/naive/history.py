"""A whole run in memory, message by message: who was where when, and what happened to it there.

Implements: [Spread 2.2.1], Definitions 2.1 to 2.6. At EVS-C a process is a client's session; at EVS-S it is a daemon's
incarnation and there is one group, whose name is empty. The *stay* of a process in a view lasts from the installation
of that view to the next one, to the process' leave or to its end.

A message that a process delivers again breaks 2.5 there; the formulas of order and of views speak of first deliveries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId, parse_client_id
from isotone.core.services import Service

Message = tuple[str, int]
"""Who sent it, and which of its messages it is."""

Where = tuple[str, int, int]
"""Node, incarnation and index of a row."""

Bundle = Where | Message
"""The row that sent it; of what was never sent, the first message of the row that delivers it."""

EARLY = "early "
"""Stands before the sender of a message that is delivered before its send."""

Stamp = tuple[int, DaemonId]
ViewId = GroupViewId | DaemonViewId


@dataclass(frozen=True)
class Label:
    """What an event says about its message."""

    message: Message
    service: Service
    groups: tuple[str, ...]
    length: int
    digest: int


@dataclass(eq=False)
class Send:
    """A process sent a message; ``stays`` says where it was then, for each of its groups."""

    process: Process
    place: int
    row: Where
    label: Label
    stays: dict[str, Stay]
    leaving: frozenset[str] = frozenset()  # groups that it had asked to leave


@dataclass(eq=False)
class Delivery:
    """A process delivered a message; ``stays`` has the groups of the message that the process was in.

    What was sent says service and groups; where no send is recorded, the delivery does. What is delivered before its
    send in the record of one node is a message of its own.
    """

    process: Process
    place: int
    row: Where
    label: Label
    stamp: Stamp
    stays: dict[str, Stay]
    is_private: bool  # addressed to the process itself, while its session was open
    message: Message
    service: Service  # as it was sent
    bundle: Bundle

    def is_after_signal(self, group: str) -> bool:
        return any(signal < self.place for signal in self.stays[group].signals)


@dataclass(eq=False)
class Signal:
    """A process got the signal; ``stay`` is where it was then."""

    process: Process
    place: int
    group: str
    view: ViewId
    stay: Stay | None


@dataclass(eq=False)
class Stay:
    """The stay of a process in a view."""

    process: Process
    place: int
    group: str
    view: ViewId
    members: frozenset[str]
    transitional: frozenset[str]
    previous: Stay | None
    next: Stay | None = None
    has_left: bool = False
    over: int | None = None  # where the stay ends, if it does
    signals: list[int] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, ViewId, frozenset[str]]:
        """Views are the same when id and members agree."""
        return self.group, self.view, self.members

    def has(self, message: Message) -> bool:
        """Whether the process delivered the message before this stay was over."""
        delivery = self.process.delivered.get(message)
        return delivery is not None and (self.over is None or delivery.place < self.over)

    @property
    def first(self) -> Stay:
        """The first stay of this membership."""
        stay = self
        while stay.previous is not None:
            stay = stay.previous
        return stay

    @property
    def later(self) -> list[Stay]:
        """The further stays of this membership."""
        stays, stay = [], self.next
        while stay is not None:
            stays.append(stay)
            stay = stay.next
        return stays


@dataclass(eq=False)
class Process:
    """A session or an incarnation; ``name`` is what stays the same when it comes back."""

    id: str
    name: str
    is_open: bool = False
    has_ended: bool = False
    length: int = 0  # how many events happened at it
    current: dict[str, Stay] = field(default_factory=dict)
    stays: list[Stay] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)  # first ones only
    repeated: list[Delivery] = field(default_factory=list)
    events: list[Send | Delivery] = field(default_factory=list)
    asked_to_join: set[str] = field(default_factory=set)  # and not to leave again
    asked_to_leave: list[tuple[str, int]] = field(default_factory=list)
    left: list[tuple[str, int]] = field(default_factory=list)
    leaving: Counter[str] = field(default_factory=Counter)  # how often it asked to leave a group and did not yet
    delivered: dict[Message, Delivery] = field(default_factory=dict)
    came_back_to: list[Stay] = field(default_factory=list)  # first views of its name, behind its end

    def next_place(self) -> int:
        self.length += 1
        return self.length


@dataclass
class History:
    """A run at one boundary. Processes stand in the order in which their nodes first name them."""

    is_daemons: bool
    processes: dict[str, Process] = field(default_factory=dict)
    signals: list[Signal] = field(default_factory=list)
    crashed: set[str] = field(default_factory=set)
    components: tuple[tuple[str, ...], ...] | None = None
    is_quiet: bool = False
    has_posthumous: bool = False  # something is recorded of a process behind its end
    sent: dict[Message, tuple[Where, Label]] = field(default_factory=dict)  # every message with its first send

    @property
    def stays(self) -> list[Stay]:
        return [stay for process in self.processes.values() for stay in process.stays]

    @property
    def sends(self) -> list[Send]:
        return [send for process in self.processes.values() for send in process.sends]

    @property
    def deliveries(self) -> list[Delivery]:
        return [delivery for process in self.processes.values() for delivery in process.deliveries]

    @property
    def repeated(self) -> list[Delivery]:
        return [delivery for process in self.processes.values() for delivery in process.repeated]

    @cached_property
    def stamps(self) -> dict[Bundle, set[Stamp]]:
        """The stamps under which each bundle of reliable messages was delivered, first or repeatedly."""
        found: dict[Bundle, set[Stamp]] = defaultdict(set)
        for each in (*self.deliveries, *self.repeated):
            if each.service.is_reliable:
                found[each.bundle].add(each.stamp)
        return found

    @cached_property
    def members_at(self) -> dict[tuple[str, ViewId, str], set[frozenset[str]]]:
        """With which members each view id of a group was installed at each daemon."""
        found: dict[tuple[str, ViewId, str], set[frozenset[str]]] = defaultdict(set)
        for stay in self.stays:
            found[stay.group, stay.view, self.daemon_of(stay.process.id)].add(stay.members)
        return found

    @property
    def is_stable(self) -> bool:
        """Whether liveness can be judged."""
        return self.components is not None and self.is_quiet

    def has_ended(self, process: str) -> bool:
        """By its own disconnect or by the crash of its daemon, even if nothing else of it was recorded."""
        known = self.processes.get(process)
        return (known is not None and known.has_ended) or self.daemon_of(process) in self.crashed

    def daemon_of(self, process: str) -> str:
        return process if self.is_daemons else str(parse_client_id(process).daemon)
