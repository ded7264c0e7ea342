"""A ring of members on a virtual LAN with loss, reordering and duplication; origins that stamp plain numbers."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    SendDatagrams,
    SetTimer,
    Started,
    TimerFired,
)
from isotone.evs.links.contract import DeclareFailed, Frame, FramesArrived, LinkRoomy, frame_of
from isotone.evs.links.ring import Origination, Ring, RingSettings
from isotone.evs.links.ring.events import SiteLineRose, TokenWanted
from isotone.evs.links.ring.token import PacketKind

DATA = 7
Stamp = tuple[int, int, int]  # site sequence, Lamport time, member


@dataclass
class Numbers:
    """An origin: waiting bodies, the stamps given, and a line that follows what was received."""

    member: int
    waiting: list[bytes] = field(default_factory=list)
    stamped: list[Stamp] = field(default_factory=list)
    received: dict[int, int] = field(default_factory=dict)  # site sequence to Lamport time
    line: int = 0
    through: int = 0
    lamport_seen: int = 0

    def is_waiting(self) -> bool:
        return bool(self.waiting)

    def agreed_line(self) -> int:
        return self.line

    def originate(self, *, site_sequence: int, site_lamport: int, bytes_max: int) -> Origination:
        frames: list[Frame] = []
        lamport = max(site_lamport, self.lamport_seen)
        while self.waiting and bytes_max > 0:
            body = self.waiting.pop(0)
            site_sequence, lamport = site_sequence + 1, lamport + 1
            stamp = b"%d %d %d " % (site_sequence, lamport, self.member)
            frames.append(frame_of(DATA, stamp, body))
            bytes_max -= len(stamp) + len(body)
            self.stamped.append((site_sequence, lamport, self.member))
            self.take(site_sequence, lamport)
        return Origination(frames, site_sequence, lamport)

    def take(self, sequence: int, lamport: int) -> None:
        self.received[sequence] = lamport
        self.lamport_seen = max(self.lamport_seen, lamport)
        while self.through + 1 in self.received:
            self.through += 1
            self.line = self.received[self.through]


@dataclass
class Lan:
    """The world of one ring."""

    rings: dict[int, Ring]
    origins: dict[int, Numbers]
    choice: Choice
    loss: float = 0.0
    duplication: float = 0.0
    latency_us: int = 100
    jitter_us: int = 300
    now: int = 0
    sent: int = 0
    stalled: set[int] = field(default_factory=set)
    deaf: set[int] = field(default_factory=set)  # no data packet reaches these, all else does
    arrived: dict[int, list[Stamp]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    _heap: list[tuple[int, int, int, Event]] = field(default_factory=list)
    _timers: dict[tuple[int, object], int] = field(default_factory=dict)
    _count: int = 0

    def schedule(self, at: int, member: int, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, member, event))

    def tell(self, member: int, event: Event) -> None:
        for action in self.rings[member].handle(event):
            self._do(member, action)

    def submit(self, member: int, *bodies: bytes) -> None:
        self.origins[member].waiting.extend(bodies)
        self.tell(member, TokenWanted(self.now))

    def run(self, until: int) -> bool:
        """Until then, or until nothing more is to happen; True in the second case."""
        while self._heap and self._heap[0][0] <= until:
            self.now, count, member, event = heapq.heappop(self._heap)
            if isinstance(event, TimerFired):
                if self._timers.get((member, event.key)) != count:
                    continue
                del self._timers[member, event.key]
            if member not in self.stalled:
                self.tell(member, event)
        self.now = max(self.now, until)
        return not self._heap

    def _do(self, member: int, action: Action) -> None:
        match action:
            case SendDatagrams(destination=destination, datagrams=datagrams):
                self._carry(member, [int(destination)], datagrams)
            case MulticastDatagrams(datagrams=datagrams):
                self._carry(member, [each for each in self.rings if each != member], datagrams)
            case SetTimer(key=key, after_us=after):
                self.schedule(self.now + after, member, TimerFired(self.now + after, key))
                self._timers[member, key] = self._count
            case CancelTimer(key=key):
                self._timers.pop((member, key), None)
            case FramesArrived(frames=frames):
                for frame in frames:
                    sequence, lamport, sender = map(int, bytes(frame.body()).split(b" ", 3)[:3])
                    self.arrived.setdefault(member, []).append((sequence, lamport, sender))
                    self.origins[member].take(sequence, lamport)
            case SiteLineRose(line=line):
                self.lines[member] = line
            case DeclareFailed(reason=reason):
                self.failed[member] = reason
            case LinkRoomy():
                pass
            case _:
                raise AssertionError(action)

    def _carry(self, member: int, receivers: list[int], datagrams: object) -> None:
        for datagram in datagrams:  # type: ignore[attr-defined]
            data = b"".join(datagram)
            self.sent += 1
            for receiver in receivers:
                if receiver in self.deaf and data[0] == PacketKind.DATA:
                    continue
                copies = 0 if self.choice.chance(self.loss) else 1 + self.choice.chance(self.duplication)
                for _ in range(copies):
                    at = self.now + self.latency_us + self.choice.below(self.jitter_us + 1)
                    self.schedule(at, receiver, DatagramsReceived(at, Address(str(member)), data, len(data)))


def lan_of(
    count: int, seed: int, *, settings: RingSettings | None = None, loss: float = 0.0, duplication: float = 0.0
) -> Lan:
    members = list(range(count))
    addresses = {member: Address(str(member)) for member in members}
    origins = {member: Numbers(member) for member in members}
    rings = {
        member: Ring(
            ring=99,
            site="lan",
            members=members,
            me=member,
            addresses=addresses,
            origin=origins[member],
            settings=settings or RingSettings(),
        )
        for member in members
    }
    lan = Lan(rings, origins, Choice(f"ring/{seed}"), loss=loss, duplication=duplication)
    for member in members:
        lan.tell(member, Started(0))
    return lan
