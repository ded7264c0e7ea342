"""What the ring path costs: a bundle stamped and packed at one daemon, received and delivered at another.

Two whole transports of one site, in one process and without IO. Between them is a queue that joins packets as the
kernel's offload does. Only the calls of ``handle`` are timed: submitting, visits of the token at both, receiving data
and delivering at both. So a figure per bundle is the cost at its sender and at one receiver together; a further
receiver costs what the receiver alone costs, and its visits of the token.

Packets and tokens are told apart so that the simulator can charge a daemon for what it does: see `RingCosts`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import FrameType
from typing import Any

import msgspec

from isotone.bench.foundation import Effort, Say
from isotone.bench.measure import Figure
from isotone.core.bundles import bundle_of
from isotone.core.codec import encode_bundle
from isotone.core.contract import Action, Address, DatagramsReceived, Event, MulticastDatagrams, SendDatagrams, Started
from isotone.core.ids import ClientId, DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.links.ring.token import PACKET, PacketKind
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.evs.overlay.topology import make_site, make_topology
from isotone.evs.transport import DeliverUnits, Submitted, Transport, TransportView

MESSAGE_BYTES = 50
FULL_PACKET_BYTES = 1_200  # a bundle of one message that fills most of a packet
OFFLOAD_BYTES_MAX = 60_000
WAITING_BYTES = 512 * 1024  # more than the windows let out at one visit
WARM_UP = 0.2  # of the time to measure
NAMES = ("alba", "brno")
SENT_PACKET = "ring, packet sent"
RECEIVED_PACKET = "ring, packet received"
TOKEN = "ring, visit of the token"


class Work(Enum):
    """What a daemon was busy with, by the event that it handled."""

    SUBMIT = "submit"
    VISIT_SENDING = "visits of the token that send"
    VISIT_SILENT = "visits of the token that send nothing"
    RECEIVE = "receive"


class RingCosts(msgspec.Struct, frozen=True):
    """CPU microseconds of one daemon; what `isotone.sim.figures.ring_acceleration` charges."""

    sent_packet_us: float
    received_packet_us: float
    token_us: float


class RingRun(msgspec.Struct):
    """What was counted: nanoseconds by kind of work, and how much of it there was."""

    spent: dict[Work, int]
    calls: dict[Work, int]
    packets: int = 0
    bundles: int = 0

    def costs(self, token_us: float) -> RingCosts:
        """What visits take beyond the token's own cost belongs to packets: to pack them, later to forget them."""
        sent = self._beyond(Work.VISIT_SENDING, token_us) + self.spent[Work.SUBMIT]
        received = self._beyond(Work.VISIT_SILENT, token_us) + self.spent[Work.RECEIVE]
        return RingCosts(sent / self.packets / 1e3, received / self.packets / 1e3, token_us)

    def _beyond(self, visits: Work, token_us: float) -> float:
        return self.spent[visits] - token_us * 1e3 * self.calls[visits]


class Pair:
    """Two daemons of a site; the first sends bundles of one body, as many at each visit as the windows allow."""

    def __init__(self, body: bytes, waiting_bytes: int) -> None:
        members = tuple(DaemonId(name, 1) for name in NAMES)
        addresses = {name: Address(name) for name in NAMES}
        topology = make_topology([make_site("lan", NAMES)], [])
        view = TransportView(DaemonViewId(1, members[0]), members, topology, addresses)
        self._daemons = [Transport(me=name, view=view) for name in NAMES]
        self._queue: deque[tuple[int, Event]] = deque((place, Started(0)) for place in range(len(NAMES)))
        self._drafts_max = max(1, waiting_bytes // len(body))
        self._draft = Draft("client", UnitKind.BUNDLE, Service.AGREED, body)
        self._at = 0
        self.run = nothing_yet()
        self.watch: Callable[[Callable[[Event], list[Action]], Event], list[Action]] | None = None

    def rotate(self) -> None:
        """One rotation of the token: both daemons did all that belongs to it."""
        silent = self.run.calls[Work.VISIT_SILENT]
        while self.run.calls[Work.VISIT_SILENT] == silent:
            self._step()

    def _step(self) -> None:
        missing = self._drafts_max - self._daemons[0].stamper.waiting_bytes // len(self._draft.body)
        if missing > self._drafts_max // 2:
            self._handle(0, Submitted(self._at, [self._draft] * missing))
        else:
            self._handle(*self._queue.popleft())

    def _handle(self, place: int, event: Event) -> None:
        handle, self._at = self._daemons[place].handle, self._at + 1
        began = time.process_time_ns()
        actions = handle(event) if self.watch is None else self.watch(handle, event)
        taken = time.process_time_ns() - began
        packets = sum(map(_data_packets, actions))
        work = _work(event, packets)
        if work is not None:
            self.run.spent[work] += taken
            self.run.calls[work] += 1
        self.run.packets += packets
        for action in actions:
            self._carry_out(place, action)

    def _carry_out(self, place: int, action: Action) -> None:
        match action:
            case MulticastDatagrams(datagrams=datagrams) | SendDatagrams(datagrams=datagrams):
                for train in _trains([b"".join(parts) for parts in datagrams]):
                    event = DatagramsReceived(self._at, Address(NAMES[place]), b"".join(train), len(train[0]))
                    self._queue.append((1 - place, event))
            case DeliverUnits(units=units) if place == 1:
                self.run.bundles += len(units)
            case _:
                pass  # timers: no time passes here, and nothing is lost


def measure_ring(effort: Effort, say: Say) -> Iterator[Figure]:
    """All figures of the ring path, as they come."""
    for count in effort.ring_counts:
        say(f"ring path, {count} messages a bundle")
        run = _run(_body(count, MESSAGE_BYTES), effort.ring_seconds)
        yield from _bundle_figures(count, run)
        yield from _allocation_figures(count, effort.ring_watched_bytes)
    say("ring path, one bundle a packet")
    body = _body(1, FULL_PACKET_BYTES)
    yield from _cost_figures(_run(body, effort.ring_seconds), _run(body, effort.ring_seconds, len(body)))


def _run(body: bytes, seconds: float, waiting_bytes: int = WAITING_BYTES) -> RingRun:
    pair = Pair(body, waiting_bytes)
    gc.collect()
    gc.disable()  # as the daemon does on this path
    try:
        for share in (WARM_UP, 1.0):
            pair.run = nothing_yet()
            end = time.process_time() + seconds * share
            while time.process_time() < end or not pair.run.bundles:
                pair.rotate()
    finally:
        gc.enable()
    return pair.run


def _bundle_figures(count: int, run: RingRun) -> Iterator[Figure]:
    name = f"bundles of {count} message{'' if count == 1 else 's'}"
    total = sum(run.spent.values()) / run.bundles / 1e3
    receive = run.spent[Work.RECEIVE] / run.bundles / 1e3
    over = f"{run.bundles:,} bundles, {run.bundles / run.packets:.3g} a packet, messages of {MESSAGE_BYTES} bytes"
    yield Figure(f"ring path, {name}", total, "µs per bundle", f"sender and one receiver; {over}")
    yield Figure(f"ring path, {name}", total / count, "µs per message", "the same")
    yield Figure(f"ring path, receiver alone, {name}", receive, "µs per bundle", "data packets to delivery, no token")


def _cost_figures(many: RingRun, single: RingRun) -> Iterator[Figure]:
    """A silent visit of a ring that carries one packet a rotation is the cost of the token alone."""
    visits = single.calls[Work.VISIT_SILENT]
    costs = many.costs(single.spent[Work.VISIT_SILENT] / visits / 1e3)
    over = f"{many.packets:,} packets, a bundle of {FULL_PACKET_BYTES} bytes in each"
    yield Figure(SENT_PACKET, costs.sent_packet_us, "µs per packet", f"{over}: submit, stamp, pack, deliver")
    yield Figure(RECEIVED_PACKET, costs.received_packet_us, "µs per packet", f"{over}: unpack, order, deliver, forget")
    yield Figure(TOKEN, costs.token_us, "µs per token", f"{visits:,} visits that send nothing, one packet a rotation")


# --- objects -------------------------------------------------------------------------------------------------------


class Allocations:
    """Counts the blocks of memory that Python's allocator hands out while a call runs.

    Before every bytecode instruction the number of blocks in use is read; what it grew by since the one before was
    allocated in between, and growth is summed. So what is freed again before the call ends counts too. Left out is what
    one instruction both allocates and frees, and what comes from a free list of the interpreter (small integers, some
    tuples and frames): those cost no allocation. Watching itself adds one block to each Python function called, which
    is taken off again.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._last = 0

    def watch(self, call: Callable[[Event], list[Action]], event: Event) -> list[Action]:
        """The call's result."""
        sys.settrace(self._trace)
        try:
            return call(event)
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, kind: str, argument: object) -> Any:
        grown = sys.getallocatedblocks() - self._last
        if kind == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            self.blocks -= 1
        elif grown > 0:
            self.blocks += grown
        self._last = sys.getallocatedblocks()
        return self._trace


def _allocation_figures(count: int, waiting_bytes: int) -> Iterator[Figure]:
    pair = Pair(_body(count, MESSAGE_BYTES), waiting_bytes)  # little, since watching is slow
    allocations = Allocations()
    gc.collect()
    gc.disable()
    try:
        for watch, rotations in ((None, 5), (allocations.watch, 1)):
            pair.run, pair.watch = nothing_yet(), watch
            for _ in range(rotations):
                pair.rotate()
    finally:
        gc.enable()
    name = f"ring path, bundles of {count} message{'' if count == 1 else 's'}"
    over = f"allocated at sender and receiver; {pair.run.bundles:,} bundles"
    yield Figure(name, allocations.blocks / pair.run.bundles, "objects per bundle", over)


# --- parts ---------------------------------------------------------------------------------------------------------


def nothing_yet() -> RingRun:
    """The beginning of a count."""
    return RingRun(dict.fromkeys(Work, 0), dict.fromkeys(Work, 0))


def _body(count: int, message_bytes: int) -> bytes:
    sender = ClientId(DaemonId(NAMES[0], 1), "client", 1)
    bundle = bundle_of(sender, 1, Service.AGREED, ("story",), [b"x" * message_bytes] * count)
    return b"".join(encode_bundle(bundle, None))


def _work(event: Event, packets: int) -> Work | None:
    if isinstance(event, Submitted):
        return Work.SUBMIT
    if not isinstance(event, DatagramsReceived):
        return None
    if not _is_token(event):
        return Work.RECEIVE
    return Work.VISIT_SENDING if packets else Work.VISIT_SILENT


def _is_token(event: DatagramsReceived) -> bool:
    return bool(PACKET.unpack_from(event.data)[0] == PacketKind.TOKEN)


def _data_packets(action: Action) -> int:
    if not isinstance(action, MulticastDatagrams) or PACKET.unpack_from(action.datagrams[0][0])[0] != PacketKind.DATA:
        return 0
    return len(action.datagrams)


def _trains(packets: list[bytes]) -> Iterator[list[bytes]]:
    """Packets as receive offload joins them: of one size, the last perhaps shorter, up to about 60 KB."""
    train: list[bytes] = []
    for packet in packets:
        if train and (len(packet) > len(train[-1]) or len(train[-1]) < len(train[0]) or _is_full(train)):
            yield train
            train = []
        train.append(packet)
    if train:
        yield train


def _is_full(train: list[bytes]) -> bool:
    return (len(train) + 1) * len(train[0]) > OFFLOAD_BYTES_MAX
