"""Byte streams that behave as TCP does: handshake, windows, loss, order, resets and timeouts, packet by packet.

Segments travel over the same links as datagrams, so cuts, loss, delay and queues meet them too. Losses make a stream
slower and later, never wrong. The peer of a crashed process hears a reset, or finds out by silence when
``StreamSettings.crash_resets`` is off (the machine died, not the process). Streams that a peer opened get negative
numbers, which no automaton chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

import msgspec

from isotone.core.contract import Address, Event, StreamClosed, StreamOpened, StreamReceived, StreamWritable
from isotone.core.errors import LocalProtocolError
from isotone.sim.congestion import INITIAL_TIMEOUT_US, RetransmitTimeout
from isotone.sim.process import Lane, Phase, Process
from isotone.sim.stream_ends import Cut, Incoming, Outgoing

if TYPE_CHECKING:
    from isotone.sim.network import Network

HEADER_BYTES = 40
WRITTEN_BYTES_MAX = 64 * 1024 * 1024
"""An automaton that writes so much without waiting for `StreamWritable` is wrong."""


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How byte streams behave; the defaults are those of common kernels, the patience is shorter."""

    segment_bytes: int = 1_448
    send_buffer_bytes: int = 256 * 1024
    receive_buffer_bytes: int = 1024 * 1024
    retransmit_min_us: int = 200_000
    retransmit_max_us: int = 60_000_000
    connect_timeout_us: int = 10_000_000
    silence_timeout_us: int = 30_000_000
    """Hearing nothing for this long while something is to be acknowledged ends the stream."""
    crash_resets: bool = True


class State(Enum):
    """The life of one end."""

    CONNECTING = auto()
    ACCEPTING = auto()
    OPEN = auto()
    CLOSED = auto()


class Kind(Enum):
    """What a segment is."""

    SYN = auto()
    SYN_ACK = auto()
    DATA = auto()
    ACK = auto()
    RESET = auto()


class Segment(msgspec.Struct, frozen=True):
    """A packet of a stream. ``source`` stands for addresses and ports."""

    kind: Kind
    source: End
    acknowledged: int
    window: int
    cut: Cut = (0, b"", False)


class End:
    """One end of a stream."""

    __slots__ = (
        "blocked",
        "closing",
        "heard_at",
        "held",
        "incoming",
        "lane",
        "outgoing",
        "peer",
        "peer_address",
        "peer_node",
        "state",
        "stream",
        "timer_due",
        "timer_entry",
    )

    def __init__(self, lane: Lane, stream: int, address: Address, node: str, settings: StreamSettings) -> None:
        self.lane = lane
        self.stream = stream
        self.peer: End | None = None
        self.peer_address = address
        self.peer_node = node
        self.state = State.CONNECTING
        self.closing = False  # our side asked to close
        self.blocked = False  # the writer waits for StreamWritable
        self.held = False  # the reader does not read: what comes fills the window
        self.heard_at = 0
        self.timer_due = -1
        self.timer_entry = -1
        # At least four attempts before silence is taken for an end.
        high = max(min(settings.retransmit_max_us, settings.silence_timeout_us // 4), settings.retransmit_min_us)
        timeout = RetransmitTimeout(settings.retransmit_min_us, high)
        self.outgoing = Outgoing(settings.segment_bytes, timeout)
        self.incoming = Incoming(settings.receive_buffer_bytes)


class Streams:
    """All streams of a network."""

    def __init__(self, network: Network, settings: StreamSettings, post: Callable[[Lane, Event], None]) -> None:
        self.segments_sent = 0
        self._network = network
        self._agenda = network.agenda
        self._settings = settings
        self._post = post
        self._ends: dict[tuple[Lane, int], End] = {}
        self._accepted: dict[End, End] = {}  # by the end that opened
        self._last_accepted: dict[Lane, int] = {}

    # --- what automata ask ---------------------------------------------------------------------------------------

    def open(self, lane: Lane, stream: int, destination: Address) -> None:
        """Connect to an address."""
        if stream < 0 or (lane, stream) in self._ends:
            raise LocalProtocolError(f"stream {stream} is in use, or not for automata to choose")
        end = End(lane, stream, destination, self._network.host(destination) or "", self._settings)
        end.heard_at = self._agenda.now
        self._ends[lane, stream] = end
        self._shake(end)

    def write(self, lane: Lane, stream: int, data: Sequence[bytes | memoryview]) -> None:
        """Send bytes; a stream that is gone swallows them, since its end may not have been heard yet."""
        end = self._ends.get((lane, stream))
        if end is None or end.closing:
            return
        for part in data:
            end.outgoing.write(part)
        if end.outgoing.buffered > WRITTEN_BYTES_MAX:
            raise LocalProtocolError(f"stream {stream}: {WRITTEN_BYTES_MAX} bytes written without waiting")
        end.blocked = True
        self._unblock(end)
        self._pump(end)

    def close(self, lane: Lane, stream: int) -> None:
        """Close after what was written arrived."""
        end = self._ends.get((lane, stream))
        if end is None or end.closing:
            return
        end.closing = True
        end.outgoing.ending = True
        if end.state is State.CONNECTING and not end.outgoing.buffered:
            self._finish(end, "closed")
        else:
            self._pump(end)

    def abort(self, lane: Lane, stream: int) -> None:
        """Break a stream off at once: the peer hears a reset, this side nothing more."""
        end = self._ends.get((lane, stream))
        if end is not None:
            self._send(end, Kind.RESET)
            self._forget(end)

    def hold(self, lane: Lane, stream: int) -> None:
        """The reader stops reading; what is under way still comes, and its place in the window stays taken."""
        end = self._ends.get((lane, stream))
        if end is not None:
            end.held = True

    def release(self, lane: Lane, stream: int) -> None:
        """The reader has read all that came, and reads on."""
        end = self._ends.get((lane, stream))
        if end is not None and end.held:
            end.held = False
            self._reopen(end)

    # --- life of processes ---------------------------------------------------------------------------------------

    def drop(self, process: Process) -> None:
        """A process ended: its ends are gone, and their peers may hear so."""
        for (lane, _), end in list(self._ends.items()):
            if lane.process is process:
                if self._settings.crash_resets:
                    self._send(end, Kind.RESET)
                self._forget(end)

    def resume(self, process: Process) -> None:
        """A paused process takes what waited; its peers may send on."""
        for (lane, _), end in list(self._ends.items()):
            if lane.process is process and not end.held:
                self._reopen(end)

    def _reopen(self, end: End) -> None:
        if end.incoming.unread:
            end.incoming.unread = 0
            self._send(end, Kind.ACK)

    # --- sending -------------------------------------------------------------------------------------------------

    def _shake(self, end: End) -> None:
        """Send, or send again, one's part of the handshake."""
        now = self._agenda.now
        if now - end.heard_at >= self._settings.connect_timeout_us:
            self._finish(end, "connect timed out")
            return
        self._send(end, Kind.SYN if end.state is State.CONNECTING else Kind.SYN_ACK)
        waited = now - end.heard_at
        self._arm(end, max(INITIAL_TIMEOUT_US, waited))

    def _pump(self, end: End) -> None:
        """Send what may be sent, and watch for its acknowledgement."""
        if end.state is not State.OPEN:
            return
        for cut in end.outgoing.due(self._agenda.now):
            self._send(end, Kind.DATA, cut)
        if not end.outgoing.is_waiting:
            end.timer_due = -1
        elif end.timer_due < 0:
            end.heard_at = self._agenda.now
            self._arm(end, end.outgoing.timeout.value_us)

    def _send(self, end: End, kind: Kind, cut: Cut = (0, b"", False)) -> None:
        if not end.peer_node:
            return  # nobody ever was at that address
        self.segments_sent += 1
        segment = Segment(kind, end, end.incoming.reached, end.incoming.window, cut)
        target = end.peer if end.peer is not None else end.peer_address
        size = HEADER_BYTES + len(cut[1])
        self._network.carry(end.lane.process.node.name, end.peer_node, size, self._land, (target, segment))

    def _refuse(self, segment: Segment, node: str) -> None:
        """Nobody is here for this segment: answer with a reset, as the kernel of a living machine does."""
        if segment.kind is Kind.RESET or not self._settings.crash_resets:
            return
        source = segment.source
        reset = Segment(Kind.RESET, source, 0, 0)
        self._network.carry(node, source.lane.process.node.name, HEADER_BYTES, self._land, (source, reset))

    # --- receiving -----------------------------------------------------------------------------------------------

    def _land(self, flight: tuple[End | Address, Segment]) -> None:
        target, segment = flight
        if not isinstance(target, End):
            self._land_at_address(target, segment)
        elif target.state is State.CLOSED:
            if target.incoming.ended and segment.kind is Kind.DATA:
                self._send(target, Kind.ACK)  # the peer has not heard that all arrived
            elif segment.kind is Kind.ACK and target.incoming.ended:
                pass  # both are over; an answer would be answered for ever
            elif segment.source is not target:
                self._refuse(segment, target.lane.process.node.name)
        else:
            self._receive(target, segment)

    def _land_at_address(self, address: Address, segment: Segment) -> None:
        lane = self._network.behind(address)
        opener = segment.source
        if lane is None:
            self._refuse(segment, opener.peer_node)
            return
        end = self._accepted.get(opener)
        if end is None:
            if segment.kind is not Kind.SYN or lane.process.node.name != opener.peer_node:
                return
            end = self._accept(lane, opener)
        if end.state is State.ACCEPTING:
            self._send(end, Kind.SYN_ACK)

    def _accept(self, lane: Lane, opener: End) -> End:
        stream = self._last_accepted.get(lane, 0) - 1
        self._last_accepted[lane] = stream
        address = self._network.door(opener.lane)
        end = End(lane, stream, address, opener.lane.process.node.name, self._settings)
        end.state, end.peer, end.heard_at = State.ACCEPTING, opener, self._agenda.now
        self._ends[lane, stream] = self._accepted[opener] = end
        self._arm(end, INITIAL_TIMEOUT_US)
        return end

    def _receive(self, end: End, segment: Segment) -> None:
        waited, end.heard_at = self._agenda.now - end.heard_at, self._agenda.now
        if end.state is State.CONNECTING and waited < INITIAL_TIMEOUT_US:
            end.outgoing.timeout.measured(waited)  # the handshake was sent once, so its round trip counts
        if segment.kind is Kind.RESET:
            refused = end.state is State.CONNECTING
            self._finish(end, "connection refused" if refused else "reset by peer")
            return
        if segment.kind is Kind.SYN_ACK and end.state is State.OPEN:
            self._send(end, Kind.ACK)
            return
        if end.state is not State.OPEN:
            self._open(end, segment)
        repair = end.outgoing.heard(
            self._agenda.now, segment.acknowledged, segment.window, bare=segment.kind is Kind.ACK
        )
        if repair:
            self._send(end, Kind.DATA, end.outgoing.repair())
        if segment.kind is Kind.DATA:
            self._take(end, segment)
        self._after_hearing(end, progressed=end.outgoing.is_waiting)

    def _open(self, end: End, segment: Segment) -> None:
        accepted = end.state is State.ACCEPTING
        end.state = State.OPEN
        end.timer_due = -1
        self._tell(end, StreamOpened(self._at(end), end.stream, end.peer_address, accepted))
        if segment.kind is Kind.SYN_ACK:
            end.peer = segment.source
            end.outgoing.peer_window = segment.window
            self._send(end, Kind.ACK)

    def _take(self, end: End, segment: Segment) -> None:
        data = end.incoming.take(segment.cut)
        if data and not end.closing:
            if end.held or end.lane.process.phase is Phase.PAUSED:
                end.incoming.unread += len(data)
            self._tell(end, StreamReceived(self._at(end), end.stream, data))
        self._send(end, Kind.ACK)

    def _after_hearing(self, end: End, *, progressed: bool) -> None:
        if end.incoming.ended:
            self._finish(end, "closed" if end.closing else "closed by peer")
            return
        if end.outgoing.is_done:
            self._finish(end, "closed")
            return
        if progressed:
            self._arm(end, end.outgoing.timeout.value_us)
        self._unblock(end)
        self._pump(end)

    # --- time ----------------------------------------------------------------------------------------------------

    def _arm(self, end: End, delay_us: int) -> None:
        end.timer_due = due = self._agenda.now + delay_us
        if not 0 <= end.timer_entry <= due:
            end.timer_entry = due
            self._agenda.push(due, self._on_timer, end)

    def _on_timer(self, end: End) -> None:
        now = self._agenda.now
        if end.timer_entry != now or end.state is State.CLOSED:
            return
        end.timer_entry = -1
        if end.timer_due > now:
            self._arm(end, end.timer_due - now)
        elif end.timer_due >= 0:
            end.timer_due = -1
            self._expire(end)

    def _expire(self, end: End) -> None:
        if end.state is not State.OPEN:
            self._shake(end)
            return
        if self._agenda.now - end.heard_at >= self._settings.silence_timeout_us:
            self._send(end, Kind.RESET)
            self._finish(end, "timed out")
            return
        end.outgoing.expired()
        self._send(end, Kind.DATA, end.outgoing.repair())
        self._arm(end, end.outgoing.timeout.value_us)

    # --- the end -------------------------------------------------------------------------------------------------

    def _unblock(self, end: End) -> None:
        if end.blocked and end.outgoing.buffered <= self._settings.send_buffer_bytes:
            end.blocked = False
            self._tell(end, StreamWritable(self._at(end), end.stream))

    def _finish(self, end: End, reason: str) -> None:
        announced = end.state is not State.ACCEPTING  # an end that never was told of needs no farewell
        self._forget(end)
        if announced:
            self._tell(end, StreamClosed(self._at(end), end.stream, reason))

    def _forget(self, end: End) -> None:
        end.state = State.CLOSED
        end.timer_due = -1
        del self._ends[end.lane, end.stream]
        if end.peer is not None:
            self._accepted.pop(end.peer, None)

    def _at(self, end: End) -> int:
        return end.lane.process.clock.read(self._agenda.now)

    def _tell(self, end: End, event: Event) -> None:
        self._post(end.lane, event)
