"""Two ends of a link in virtual time: datagrams and streams over paths that lose, double, delay and reorder them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    SendDatagrams,
    SetTimer,
    TimerFired,
    TimerKey,
)
from isotone.evs.links.contract import (
    DeclareFailed,
    Frame,
    FramesArrived,
    FramesOffered,
    Link,
    LinkRoomy,
    frame_of,
)
from isotone.evs.links.hop import Hop, HopSettings

DATAGRAM_OVERHEAD = 28
SECOND = 1_000_000
ANYWHERE = Address("")


@dataclass
class Path:
    """One direction of a network: a queue in front of a wire of some rate, then delay, loss and copies."""

    choice: Choice
    delay_us: int = 1_000
    jitter_us: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    burst: float = 0.0  # chance that a packet begins an outage
    burst_us: int = 200_000
    rate: int | None = None  # bytes in a second
    queue_bytes: int = 1 << 30
    drops: Callable[[bytes], bool] = lambda _: False
    sent: int = 0
    overflowed: int = 0
    busy_us: float = 0.0
    _free_at: float = 0.0
    _outage_until: int = 0

    def arrivals(self, data: bytes, now: int) -> list[int]:
        """When copies of a packet that is sent now arrive; none if it is lost."""
        self.sent += 1
        leaves: float = now
        if self.rate is not None:
            took = (len(data) + DATAGRAM_OVERHEAD) * SECOND / self.rate
            begins = max(float(now), self._free_at)
            if (begins - now) * self.rate / SECOND > self.queue_bytes:
                self.overflowed += 1
                return []
            leaves = self._free_at = begins + took
            self.busy_us += took
        if self._lost(data, now):
            return []
        copies = 2 if self.choice.chance(self.duplicate) else 1
        return [int(leaves) + self.delay_us + self.choice.below(self.jitter_us + 1) for _ in range(copies)]

    def wait_us(self, now: int) -> float:
        """How long a packet that is sent now waits in the queue."""
        return max(0.0, self._free_at - now)

    def _lost(self, data: bytes, now: int) -> bool:
        if self.burst and self.choice.chance(self.burst):
            self._outage_until = now + self.burst_us
        return self.drops(data) or now < self._outage_until or self.choice.chance(self.loss)


@dataclass
class End:
    """One end: its link, its clock, and what the link said."""

    link: Link
    clock_offset: int = 0
    paused: bool = False
    paths: dict[Address, tuple[Path, End]] = field(default_factory=dict)
    address: Address = ANYWHERE
    timers: dict[TimerKey, int] = field(default_factory=dict)
    arrived: list[tuple[int, Frame]] = field(default_factory=list)
    roomy: list[int] = field(default_factory=list)
    failed: tuple[int, str] | None = None
    memory_peak: int = 0
    waiting: list[Frame] = field(default_factory=list)
    on_frame: Callable[[Frame, int], None] = lambda frame, at: None
    on_roomy: Callable[[], None] = lambda: None
    others: list[Action] = field(default_factory=list)


class World:
    """Virtual time."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: int, what: Callable[[], None]) -> None:
        """Do something later."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, what))

    def run(self, until: int) -> None:
        """Let everything happen that happens before ``until``."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what = heapq.heappop(self._heap)
            what()
        self.now = until

    def run_quiet(self, until: int) -> int:
        """Run until nothing is left to happen; when that was. Fails if something still happens at ``until``."""
        while self._heap:
            assert self._heap[0][0] <= until, "not quiet in time"
            self.now, _, what = heapq.heappop(self._heap)
            what()
        return self.now

    def give(self, end: End, event: Event) -> None:
        """Hand an event to an end and carry out what it answers."""
        if end.paused:
            return
        for action in end.link.handle(event):
            self._perform(end, action)
        end.memory_peak = max(end.memory_peak, end.link.counters.buffered_bytes)

    def time(self, end: End) -> int:
        """This end's clock."""
        return self.now + end.clock_offset

    def _perform(self, end: End, action: Action) -> None:
        match action:
            case SendDatagrams(destination, datagrams):
                path, other = end.paths[destination]
                for datagram in datagrams:
                    data = b"".join(datagram)
                    for when in path.arrivals(data, self.now):
                        self.at(when, lambda data=data: self._deliver(other, end.address, data))  # type: ignore[misc]
            case SetTimer(key, after_us):
                mark = end.timers[key] = self._count
                self.at(self.now + after_us, lambda: self._fire(end, key, mark))
            case CancelTimer(key):
                end.timers.pop(key, None)
            case FramesArrived(frames):
                for frame in frames:
                    end.arrived.append((self.now, frame))
                    end.on_frame(frame, self.now)
            case LinkRoomy(room):
                assert 0 < room == end.link.room
                end.roomy.append(room)
                self.push(end)
                end.on_roomy()
            case DeclareFailed(reason):
                assert end.failed is None
                end.failed = (self.now, reason)
            case _:
                end.others.append(action)

    def _deliver(self, end: End, source: Address, data: bytes) -> None:
        self.give(end, DatagramsReceived(self.time(end), source, data, max(1, len(data))))

    def _fire(self, end: End, key: TimerKey, mark: int) -> None:
        if end.timers.get(key) == mark:
            del end.timers[key]
            self.give(end, TimerFired(self.time(end), key))

    def offer(self, end: End, *frames: Frame) -> None:
        """Offer frames, now or as soon as there is room."""
        end.waiting.extend(frames)
        self.push(end)

    def push(self, end: End) -> None:
        """Offer what waits, frame by frame while there is room."""
        while end.waiting and end.link.room >= end.waiting[0].size and not end.failed:
            self.give(end, FramesOffered(self.time(end), [end.waiting.pop(0)]))


def connect(world: World, one: Link, other: Link, there: Path, back: Path) -> tuple[End, End]:
    """Two links, each with the other as its peer."""
    left, right = End(one, address=Address("left")), End(other, address=Address("right"), clock_offset=987_654_321_000)
    left.paths[right.address] = (there, right)
    right.paths[left.address] = (back, left)
    return left, right


def hop_pair(world: World, there: Path, back: Path, settings: HopSettings | None = None) -> tuple[End, End]:
    """A hop link."""
    left = Hop(peer="right", address=Address("right"), link=7, settings=settings)
    right = Hop(peer="left", address=Address("left"), link=7, settings=settings)
    return connect(world, left, right, there, back)


def numbered(count: int, sizes: Sequence[int], choice: Choice, *, kinds: int = 3) -> list[Frame]:
    """Frames that differ, of these sizes."""
    out = []
    for number in range(count):
        size = choice.pick(sizes)
        body = (number.to_bytes(4, "big") * (size // 4 + 1))[: max(size, 4)]
        cut = choice.below(len(body) + 1)
        out.append(frame_of(choice.below(kinds), body[:cut], memoryview(body)[cut:]))
    return out


def bodies(end: End) -> list[tuple[int, bytes]]:
    """Kind and bytes of what arrived, sorted."""
    return sorted((frame.kind, bytes(frame.body())) for _, frame in end.arrived)


def bodies_of(frames: Sequence[Frame]) -> list[tuple[int, bytes]]:
    """The same of what was offered."""
    return sorted((frame.kind, bytes(frame.body())) for frame in frames)
