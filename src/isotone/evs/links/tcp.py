"""A link over one byte stream: a length in front of every frame.

The end with the smaller name opens the stream and greets; the other one waits for it. A stream that closes fails the
link, and what was cut short is dropped; whoever wants a new stream makes a new link. See docs/protocols/tcp.md.

Implements: [Spread 4.2]. Deviations: Dt1 a peer that takes nothing for some time fails the link, because a stream whose
receiver stalls stays open for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from struct import Struct

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
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

MAGIC = b"ISOT"
VERSION = 1
_HELLO = Struct("!4sBBI")  # magic, version, length of the name, link
_FRAME = Struct("!BBHI")  # kind, two zeros, bytes of the frame
assert _FRAME.size == FRAME_HEADER_BYTES


class TcpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one link."""

    frame_bytes_max: int = BUNDLE_BYTES_MAX + 8 * 1024
    queue_bytes_max: int = 256 * 1024
    """Frames wait here while the stream takes nothing."""
    write_bytes_max: int = 64 * 1024
    """A write ends with the first frame that reaches this."""
    open_us: int = 10_000_000
    """The stream must be there, and the greeting on it, within this time."""
    stall_us: int = 10_000_000
    """A write that is not taken within this time fails the link."""

    @property
    def memory_max(self) -> int:
        """Bound of all buffers of one end: queue, write under way, frame half received."""
        return self.queue_bytes_max + self.write_bytes_max + 4 * (self.frame_bytes_max + FRAME_HEADER_BYTES)


class Hello(msgspec.Struct, frozen=True):
    """The greeting of the end that opened: who it is and for which link."""

    name: str
    link: int


def pack_hello(hello: Hello) -> bytes:
    """The greeting as bytes."""
    name = hello.name.encode("ascii")
    return _HELLO.pack(MAGIC, VERSION, len(name), hello.link) + name


def read_hello(data: Buffer) -> tuple[Hello, int] | None:
    """The greeting at the beginning of an accepted stream and its length, or nothing while it is not complete.

    Whoever accepts streams for several links collects bytes until this answers, then hands the stream, and all of
    these bytes, to the link of that name and number.
    """
    view = memoryview(data)
    head = bytes(view[: len(MAGIC)])
    if head != MAGIC[: len(head)]:
        raise RemoteProtocolError("a stream that does not begin as ours do")
    if len(view) < _HELLO.size:
        return None
    _, version, length, link = _HELLO.unpack_from(view)
    if version != VERSION:
        raise RemoteProtocolError(f"a stream of version {version}; this is version {VERSION}")
    if len(view) < _HELLO.size + length:
        return None
    name = bytes(view[_HELLO.size : _HELLO.size + length])
    if not name.isascii():
        raise RemoteProtocolError("a name that is not ASCII")
    return Hello(name.decode("ascii"), link), _HELLO.size + length


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
        self._partial = bytearray()  # the beginning of a frame, or of the greeting
        self._short = False  # there was no room since the last LinkRoomy

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now: nothing, or at least the largest frame."""
        left = self.settings.queue_bytes_max - self._queued_bytes
        if self.failed or left <= 0:
            return 0
        return max(left, self.settings.frame_bytes_max + FRAME_HEADER_BYTES)

    @property
    def memory_max(self) -> int:
        """The bound that the buffers of this end never pass."""
        return self.settings.memory_max

    def handle(self, event: Event) -> list[Action]:
        """Take one event: `Started`, `FramesOffered`, this stream's events or this link's timer."""
        if self._state is _State.FAILED:
            return []
        actions: list[Action] = []
        match event:
            case Started():
                actions.append(SetTimer(self.timer, self.settings.open_us))
                if self.opens:
                    assert self._stream is not None
                    actions.append(OpenStream(self._stream, self._address))
            case FramesOffered(frames=frames):
                self._on_offer(frames)
            case StreamOpened(stream=stream, accepted=accepted):
                self._on_opened(stream, actions, accepted=accepted)
            case StreamReceived(stream=stream, data=data) if stream == self._stream:
                self._on_received(data, actions)
            case StreamWritable(stream=stream) if stream == self._stream:
                self._on_writable(actions)
            case StreamClosed(stream=stream, reason=reason) if stream == self._stream:
                self._stream = None
                self._enter_failed(f"stream closed: {reason}", actions)
            case TimerFired(key=key) if key == self.timer:
                self._on_timer(actions)
            case _:
                return []
        self._conclude(actions)
        return actions

    def _on_offer(self, frames: Sequence[Frame]) -> None:
        assert sum(frame.size for frame in frames) <= self.room, "more than there is room for"
        assert all(frame.size <= self.settings.frame_bytes_max and frame.kind < KINDS_MAX for frame in frames)
        cost = cost_of(frames)
        assert cost <= self.room + self.settings.frame_bytes_max
        self._queue.extend(frames)
        self._queued_bytes += cost

    def _on_opened(self, stream: int, actions: list[Action], *, accepted: bool) -> None:
        if self._state is not _State.WAITING or accepted is self.opens:
            if stream != self._stream:
                actions.append(CloseStream(stream))
            return
        self._stream = stream
        if accepted:
            self._state = _State.GREETING
            return
        self._state = _State.OPEN
        greeting = pack_hello(self._hello)
        self._write([greeting], len(greeting), actions)

    def _on_timer(self, actions: list[Action]) -> None:
        if self._state is not _State.OPEN:
            self._enter_failed(f"no stream within {self.settings.open_us // 1000} ms: {self._state.value}", actions)
        elif self._written_bytes:
            self._enter_failed(f"the stream took nothing for {self.settings.stall_us // 1000} ms", actions)

    # --- writing ---------------------------------------------------------------------------------------------------

    def _on_writable(self, actions: list[Action]) -> None:
        self._written_bytes = 0
        if not self._queue and self._state is _State.OPEN:
            actions.append(CancelTimer(self.timer))

    def _write_frames(self, actions: list[Action]) -> None:
        """One write at a time: the next takes everything that came meanwhile, so nothing waits to be packed."""
        parts: list[Buffer] = []
        size = 0
        while self._queue and size < self.settings.write_bytes_max:
            frame = self._queue.popleft()
            parts.append(_FRAME.pack(frame.kind, 0, 0, frame.size))
            parts.extend(frame.parts)
            size += FRAME_HEADER_BYTES + frame.size
        self._queued_bytes -= size
        self._write(parts, size, actions)

    def _write(self, parts: list[Buffer], size: int, actions: list[Action]) -> None:
        assert self._stream is not None
        self._written_bytes = size
        self.counters.packets_sent += 1
        self.counters.bytes_sent += size
        actions += [WriteStream(self._stream, parts), SetTimer(self.timer, self.settings.stall_us)]

    def _conclude(self, actions: list[Action]) -> None:
        """After every event: write if the stream is ready, tell of room."""
        if self._state is _State.FAILED:
            return
        if self._state is _State.OPEN and self._queue and not self._written_bytes:
            self._write_frames(actions)
        if self._queued_bytes >= self.settings.queue_bytes_max:
            self._short = True
        elif self._short and 2 * self._queued_bytes <= self.settings.queue_bytes_max:
            self._short = False
            actions.append(LinkRoomy(self.room))
        self.counters.buffered_bytes = self._queued_bytes + self._written_bytes + len(self._partial)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _on_received(self, data: Buffer, actions: list[Action]) -> None:
        self.counters.packets_received += 1
        self.counters.bytes_received += len(data)
        frames: list[Frame] = []
        reason = None
        try:
            rest = memoryview(data)
            if self._state is _State.GREETING:
                rest = self._read_greeting(rest, actions)
            if self._state is _State.OPEN:
                self._read_frames(rest, frames)
        except RemoteProtocolError as error:
            self.counters.malformed += 1
            reason = str(error)
        if frames:
            actions.append(FramesArrived(frames))
        if reason is not None:
            self._enter_failed(f"the peer sent {reason}", actions)

    def _read_greeting(self, data: memoryview, actions: list[Action]) -> memoryview:
        before = len(self._partial)
        self._partial += data[: _HELLO.size + 255]
        found = read_hello(bytes(self._partial))
        if found is None:
            return data[:0]
        hello, length = found
        if hello != self._hello:
            raise RemoteProtocolError(f"the greeting of {hello.name} for link {hello.link}")
        self._state = _State.OPEN
        self._partial = bytearray()
        actions.append(CancelTimer(self.timer))
        return data[length - before :]

    def _read_frames(self, data: memoryview, frames: list[Frame]) -> None:
        """Frames that lie whole in the data are slices of it; one that is cut is collected and copied once."""
        at, end = 0, len(data)
        if self._partial:
            at = self._complete_partial(data, frames)
        while end - at >= FRAME_HEADER_BYTES:
            kind, size = self._read_header(data, at)
            if end - at - FRAME_HEADER_BYTES < size:
                break
            at += FRAME_HEADER_BYTES
            frames.append(Frame(kind, (data[at : at + size],), size))
            at += size
        self._partial += data[at:]

    def _complete_partial(self, data: memoryview, frames: list[Frame]) -> int:
        """Add to the frame that was cut; how much of the data it took."""
        partial = self._partial
        at = max(0, FRAME_HEADER_BYTES - len(partial))
        partial += data[:at]
        if len(partial) < FRAME_HEADER_BYTES:
            return at
        kind, size = self._read_header(partial, 0)
        more = FRAME_HEADER_BYTES + size - len(partial)
        partial += data[at : at + more]
        if len(partial) == FRAME_HEADER_BYTES + size:
            frames.append(Frame(kind, (memoryview(partial)[FRAME_HEADER_BYTES:],), size))
            self._partial = bytearray()
        return at + more

    def _read_header(self, data: Buffer | bytearray, at: int) -> tuple[int, int]:
        kind, zero, other_zero, size = _FRAME.unpack_from(data, at)
        if zero or other_zero:
            raise RemoteProtocolError("a frame header with bits that version 1 does not have")
        if size > self.settings.frame_bytes_max:
            raise RemoteProtocolError(f"a frame of {size} bytes: the limit is {self.settings.frame_bytes_max}")
        return kind, size

    def _enter_failed(self, reason: str, actions: list[Action]) -> None:
        self._state = _State.FAILED
        self.failed = reason
        self._queue.clear()
        self._queued_bytes = self._written_bytes = 0
        self._partial = bytearray()
        self.counters.buffered_bytes = 0
        if self._stream is not None:
            actions.append(CloseStream(self._stream))
        actions += [CancelTimer(self.timer), DeclareFailed(reason)]
