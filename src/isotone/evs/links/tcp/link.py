"""A link over one byte stream: a length in front of every frame.

The end with the smaller name opens the stream and greets; the other one waits for it. A stream that closes fails the
link, and what was cut short is dropped; whoever wants a new stream makes a new link. See docs/protocols/tcp.md.

Implements: [Spread 4.2]. Deviations: Dt1 a peer that takes nothing for some time fails the link, because a stream whose
receiver stalls stays open for ever. It is judged by its own reports: in `progress`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    Started,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import (
    FRAME_HEADER_BYTES,
    DeclareFailed,
    Frame,
    FramesArrived,
    FramesOffered,
    LinkCounters,
    LinkRoomy,
)
from isotone.evs.links.packing import KINDS_MAX, Buffer, cost_of
from isotone.evs.links.tcp.progress import Progress
from isotone.evs.links.tcp.settings import TcpSettings
from isotone.evs.links.tcp.wire import (
    HELLO_BYTES_MAX,
    Hello,
    Reader,
    frame_header,
    pack_hello,
    pack_report,
    read_hello,
)


class _State(Enum):
    WAITING = "no stream yet"
    GREETING = "accepted, and the greeting is not complete"
    OPEN = "frames pass"
    FAILED = "over"


class TcpLink:
    """One end of a link over a byte stream. ``stream`` is the id under which the opening end opens it."""

    def __init__(
        self, *, me: str, peer: str, address: Address, link: int, stream: int, settings: TcpSettings | None = None
    ) -> None:
        assert me != peer
        self.settings = settings or TcpSettings()
        self.opens = me < peer
        self.counters = LinkCounters()
        self.failed: str | None = None
        self.timer: TimerKey = ("tcp", peer, link)
        self._hello = Hello(me if self.opens else peer, link & 0xFFFFFFFF)
        self._address = address
        self._state = _State.WAITING
        self._stream: int | None = stream if self.opens else None
        self._queue: deque[Frame] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0  # of the write that the stream did not take yet; 0 if there is none
        self._greeting = bytearray()  # what came of it
        self._reader = Reader(self.settings.frame_bytes_max)
        self._progress = Progress(self.settings)
        self._open_until: int | None = None
        self._armed_at: int | None = None  # the one timer; never later than the first deadline
        self._short = False  # there was no room since the last LinkRoomy

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now: nothing, or at least the largest frame."""
        left = self.settings.queue_bytes_max - self._queued_bytes
        if self.failed or left <= 0:
            return 0
        return max(left, self.settings.frame_bytes_max + FRAME_HEADER_BYTES)

    @property
    def waiting_bytes(self) -> int:
        """What was offered and is not written yet."""
        return self._queued_bytes

    @property
    def memory_max(self) -> int:
        """The bound that the buffers of this end never pass."""
        return self.settings.memory_max

    def handle(self, event: Event) -> list[Action]:
        """Take one event: `Started`, `FramesOffered`, this stream's events or this link's timer."""
        if self._state is _State.FAILED:
            return []
        actions: list[Action] = []
        at = event.at
        match event:
            case Started():
                self._on_started(at, actions)
            case FramesOffered(frames=frames):
                self._on_offer(frames, at)
            case StreamOpened(stream=stream, accepted=accepted):
                self._on_opened(stream, at, actions, accepted=accepted)
            case StreamReceived(stream=stream, data=data) if stream == self._stream:
                self._on_received(data, at, actions)
            case StreamWritable(stream=stream) if stream == self._stream:
                self._written_bytes = 0
            case StreamClosed(stream=stream, reason=reason) if stream == self._stream:
                self._stream = None
                self._enter_failed(f"stream closed: {reason}", actions)
            case TimerFired(key=key) if key == self.timer:
                self._on_timer(at, actions)
            case _:
                return []
        self._conclude(at, actions)
        return actions

    # --- the stream ------------------------------------------------------------------------------------------------

    def _on_started(self, at: int, actions: list[Action]) -> None:
        self._open_until = at + self.settings.open_us
        if self.opens:
            assert self._stream is not None
            actions.append(OpenStream(self._stream, self._address))

    def _on_opened(self, stream: int, at: int, actions: list[Action], *, accepted: bool) -> None:
        if self._state is not _State.WAITING or accepted is self.opens:
            if stream != self._stream:
                actions.append(CloseStream(stream))
            return
        self._stream = stream
        if accepted:
            self._state = _State.GREETING
            return
        self._enter_open(at)
        greeting = pack_hello(self._hello)
        self._write([greeting], len(greeting), actions)

    def _enter_open(self, at: int) -> None:
        self._state = _State.OPEN
        self._open_until = None
        self._progress.opened(at)

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def _first_deadline(self) -> int | None:
        """When to look next: at the stream that does not come, at the peer that stalls, or after what is to report."""
        if self._state is not _State.OPEN:
            return self._open_until
        judge_at = self._progress.judge_at
        report_at = None if self._written_bytes else self._progress.report_at(self._reader.received)
        if judge_at is None or report_at is None:
            return report_at if judge_at is None else judge_at
        return min(judge_at, report_at)

    def _on_timer(self, at: int, actions: list[Action]) -> None:
        late_us = 0 if self._armed_at is None else at - self._armed_at
        self._armed_at = None
        if self._state is not _State.OPEN:
            if self._open_until is None or at >= self._open_until:
                waited = f"no stream within {self.settings.open_us // 1000} ms"
                self._enter_failed(f"{waited}: {self._state.value}", actions)
            return
        if late_us > self.settings.report_us:
            self._progress.slept(late_us)
        judge_at = self._progress.judge_at
        if judge_at is not None and at >= judge_at:
            self._enter_failed(self._progress.verdict(at), actions)

    def _arm(self, at: int, actions: list[Action]) -> None:
        """An early timer is harmless and finds nothing to do; at idle none is armed."""
        first = self._first_deadline
        if first is None:
            if self._armed_at is not None:
                self._armed_at = None
                actions.append(CancelTimer(self.timer))
        elif self._armed_at is None or first < self._armed_at:
            self._armed_at = max(first, at)
            actions.append(SetTimer(self.timer, max(0, first - at)))

    def _conclude(self, at: int, actions: list[Action]) -> None:
        """After every event: write if the stream is ready, tell of room, arm the timer."""
        if self._state is _State.FAILED:
            return
        if self._state is _State.OPEN and not self._written_bytes:
            self._write_next(at, actions)
        if self._queued_bytes >= self.settings.queue_bytes_max:
            self._short = True
        elif self._short and 2 * self._queued_bytes <= self.settings.queue_bytes_max:
            self._short = False
            actions.append(LinkRoomy(self.room))
        held = len(self._greeting) + self._reader.held_bytes
        self.counters.buffered_bytes = self._queued_bytes + self._written_bytes + held
        self._arm(at, actions)

    # --- writing ---------------------------------------------------------------------------------------------------

    def _on_offer(self, frames: Sequence[Frame], at: int) -> None:
        assert sum(frame.size for frame in frames) <= self.room, "more than there is room for"
        assert all(frame.size <= self.settings.frame_bytes_max and frame.kind < KINDS_MAX for frame in frames)
        cost = cost_of(frames)
        assert cost <= self.room + self.settings.frame_bytes_max
        self._queue.extend(frames)
        self._queued_bytes += cost
        self._progress.offered(cost, at)

    def _write_next(self, at: int, actions: list[Action]) -> None:
        """One write at a time: the next takes everything that came meanwhile, so nothing waits to be packed."""
        parts: list[Buffer] = []
        size = 0
        report_at = self._progress.report_at(self._reader.received)
        if report_at is not None and report_at <= at:
            parts.append(pack_report(self._reader.received))
            self._progress.reported(self._reader.received, at)
        while self._queue and size < self.settings.write_bytes_max:
            frame = self._queue.popleft()
            parts.append(frame_header(frame))
            parts.extend(frame.parts)
            size += FRAME_HEADER_BYTES + frame.size
        if parts:
            self._queued_bytes -= size
            self._write(parts, size or FRAME_HEADER_BYTES, actions)

    def _write(self, parts: list[Buffer], size: int, actions: list[Action]) -> None:
        assert self._stream is not None
        self._written_bytes = size
        self.counters.packets_sent += 1
        self.counters.bytes_sent += size
        actions.append(WriteStream(self._stream, parts))

    # --- reading ---------------------------------------------------------------------------------------------------

    def _on_received(self, data: Buffer, at: int, actions: list[Action]) -> None:
        self.counters.packets_received += 1
        self.counters.bytes_received += len(data)
        frames: list[Frame] = []
        reason = None
        reader = self._reader
        try:
            rest = memoryview(data)
            if self._state is _State.GREETING:
                rest = self._read_greeting(rest, at)
            if self._state is _State.OPEN:
                reader.read(rest, frames)
                self._progress.heard(reader.report, at)
                reader.report = None
        except RemoteProtocolError as error:
            self.counters.malformed += 1
            reason = str(error)
        if frames:
            actions.append(FramesArrived(frames))
        if reason is not None:
            self._enter_failed(f"the peer sent {reason}", actions)

    def _read_greeting(self, data: memoryview, at: int) -> memoryview:
        before = len(self._greeting)
        self._greeting += data[:HELLO_BYTES_MAX]
        found = read_hello(bytes(self._greeting))
        if found is None:
            return data[:0]
        hello, length = found
        if hello != self._hello:
            raise RemoteProtocolError(f"the greeting of {hello.name} for link {hello.link}")
        self._enter_open(at)
        self._greeting = bytearray()
        return data[length - before :]

    def _enter_failed(self, reason: str, actions: list[Action]) -> None:
        self._state = _State.FAILED
        self.failed = reason
        self._queue.clear()
        self._queued_bytes = self._written_bytes = 0
        self._greeting = bytearray()
        self._reader.clear()
        self.counters.buffered_bytes = 0
        if self._stream is not None:
            actions.append(CloseStream(self._stream))
        actions += [CancelTimer(self.timer), DeclareFailed(reason)]
