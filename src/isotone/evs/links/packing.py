"""Frames into packets and back: several frames in one packet, or one frame over several.

A body is a row of pieces. A piece is a header and bytes: a *whole* frame, or one *part* of a frame that is larger than
a body, with the frame's number, where the part stands and how long the frame is. Parts of several frames may interleave
and arrive in any order. The layout is on docs/protocols/hop.md.

Nothing waits: a body takes what is queued when the link may send. Frames of one kind are FIFO; kinds, and among them
the frames that span packets, take turns packet by packet. So a frame that fits into a packet waits for at most one
packet of each other kind, never for the rest of a large frame. A frame that fits into one packet is never cut, since a
cut frame is late when either packet is lost.

Implements: [Spread 4], packing as its introduction asks for; [Spread 4.2], length in front, for pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame

Buffer = bytes | memoryview

WHOLE, PART = 0, 1
_PIECE = Struct("!BBHI")  # kind, WHOLE or PART, bytes in this piece, bytes of the frame
_PART = Struct("!II")  # number of the frame, offset of this piece in it
_PIECE_OF_PART = Struct("!BBHIII")  # both
PART_HEADER_BYTES = _PIECE_OF_PART.size
PART_BYTES_MIN = 128  # no smaller part is begun at the end of a body; the last part of a frame may be smaller
BODY_BYTES_MIN = PART_HEADER_BYTES + PART_BYTES_MIN
KINDS_MAX = 256
HELD_TOO_MUCH = "more incomplete frames than a window can hold"

Part = tuple[int, int, int, int, memoryview]
"""Number of the frame, offset in it, its kind, its length, the bytes."""
Piece = tuple[int, int, int, int, int, memoryview]
"""Of a part as a body of its own: kind, its bytes, those of the frame, the frame's number, the offset, the bytes."""
assert _PIECE.size == FRAME_HEADER_BYTES


def cost_of(frames: Iterable[Frame]) -> int:
    """What frames are charged against a link's room: their bytes and a header each."""
    return sum(frame.size + FRAME_HEADER_BYTES for frame in frames)


class _Cut:
    """A large frame on its way into packets: where the next piece begins."""

    __slots__ = ("frame", "number", "offset", "part", "part_offset")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number
        self.offset = 0
        self.part = 0
        self.part_offset = 0

    def take(self, size: int, out: list[Buffer]) -> None:
        """Append the next ``size`` bytes as slices of the frame's own parts."""
        self.offset += size
        while size:
            whole = self.frame.parts[self.part]
            step = min(size, len(whole) - self.part_offset)
            if step:
                out.append(memoryview(whole)[self.part_offset : self.part_offset + step])
            size -= step
            self.part_offset += step
            if self.part_offset == len(whole):
                self.part += 1
                self.part_offset = 0


class Packer:
    """The send queue of a link: frames in, bodies out."""

    __slots__ = ("_cut", "_fills", "_lanes", "_number", "_turns", "body_bytes", "large_bytes", "queued_bytes")

    def __init__(self, body_bytes: int, *, fills: bool = False) -> None:
        """``fills``: behind the last piece of a large frame the next of its kind begins in the same body."""
        assert BODY_BYTES_MIN <= body_bytes < 1 << 16
        self.body_bytes = body_bytes
        self._fills = fills
        self.queued_bytes = 0  # what the waiting frames cost; a frame half sent counts with its rest
        self.large_bytes = 0  # the share of it that belongs to frames larger than a body
        self._lanes: dict[int, deque[Frame]] = {}  # those with frames; the key is twice the kind, plus one if large
        self._turns: deque[int] = deque()  # the same keys; the first begins the next body
        self._cut: dict[int, _Cut] = {}  # per lane of large frames: the frame that is partly sent
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._turns)

    @property
    def urgent(self) -> bool:
        """Whether a frame that fits into one packet is waiting."""
        return any(not lane & 1 for lane in self._turns)

    def offer(self, frames: Iterable[Frame]) -> None:
        """Queue frames."""
        for frame in frames:
            assert 0 <= frame.kind < KINDS_MAX
            large = frame.size + FRAME_HEADER_BYTES > self.body_bytes
            lane = frame.kind * 2 + large
            queue = self._lanes.get(lane)
            if queue is None:
                queue = self._lanes[lane] = deque()
                self._turns.append(lane)
            queue.append(frame)
            self.queued_bytes += frame.size + FRAME_HEADER_BYTES
            if large:
                self.large_bytes += frame.size + FRAME_HEADER_BYTES

    def next_body(self, *, whole_only: bool = False) -> tuple[list[Buffer], int]:
        """The parts of the next body, to be written one after the other, and their size; call only when not empty."""
        parts: list[Buffer] = []
        left = self.body_bytes
        if len(self._turns) == 1 and not (whole_only and self._turns[0] & 1):
            lane = self._turns[0]
            left = self._fill_large(lane, parts, left) if lane & 1 else self._fill_whole(lane, parts, left)
            return parts, self.body_bytes - left
        lanes = [lane for lane in self._turns if not (whole_only and lane & 1)]
        for lane in lanes:
            left = self._fill_large(lane, parts, left) if lane & 1 else self._fill_whole(lane, parts, left)
            if left < FRAME_HEADER_BYTES:
                break
        if lanes[0] in self._lanes:
            self._turns.remove(lanes[0])
            self._turns.append(lanes[0])
        return parts, self.body_bytes - left

    def next_run(self, count_max: int) -> tuple[list[Piece], int]:
        """Bodies that are one full piece each, of the large frame at the head while nothing else waits; and their size.

        At most so many, perhaps none: then there is `next_body`. A loop of its own, because at high load nearly all
        packets are of this kind: 0.5 us for each instead of 4.
        """
        lane = self._turns[0]
        if len(self._turns) > 1 or not lane & 1:
            return [], 0
        cut, size = self._cut.get(lane), self.body_bytes - PART_HEADER_BYTES
        if cut is None:
            cut = self._cut[lane] = _Cut(self._lanes[lane][0], self._number)
            self._number = (self._number + 1) & 0xFFFFFFFF
        frame = cut.frame
        whole, begin, offset = memoryview(frame.parts[cut.part]), cut.part_offset, cut.offset
        count = min(count_max, (min(frame.size - offset, len(whole) - begin) - 1) // size)  # never the last piece
        if count <= 0:
            return [], 0
        shift, kind, total, number = begin - offset, frame.kind, frame.size, cut.number
        ends = range(offset, offset + count * size, size)
        pieces = [(kind, size, total, number, at, whole[at + shift : at + shift + size]) for at in ends]
        cut.offset += count * size
        cut.part_offset += count * size
        self.queued_bytes -= count * size
        self.large_bytes -= count * size
        return pieces, count * self.body_bytes

    def clear(self) -> None:
        """Forget everything: the link failed."""
        self._lanes.clear()
        self._turns.clear()
        self._cut.clear()
        self.queued_bytes = self.large_bytes = 0

    def _fill_whole(self, lane: int, parts: list[Buffer], left: int) -> int:
        queue = self._lanes[lane]
        while queue:
            frame = queue[0]
            cost = frame.size + FRAME_HEADER_BYTES
            if cost > left:
                return left
            queue.popleft()
            parts.append(_PIECE.pack(frame.kind, WHOLE, frame.size, frame.size))
            parts.extend(frame.parts)
            left -= cost
            self.queued_bytes -= cost
        self._drop_lane(lane)
        return left

    def _fill_large(self, lane: int, parts: list[Buffer], left: int) -> int:
        """Pieces of the large frames at the head; what is left then is for other lanes."""
        while left > PART_HEADER_BYTES and lane in self._lanes:
            before = left
            left = self._fill_piece(lane, parts, left)
            if left == before or not self._fills:
                break
        return left

    def _fill_piece(self, lane: int, parts: list[Buffer], left: int) -> int:
        """One piece of the large frame at the head."""
        frame = self._lanes[lane][0]
        cut = self._cut.get(lane)
        rest = frame.size if cut is None else frame.size - cut.offset
        size = min(rest, left - PART_HEADER_BYTES)
        if size < rest and size < PART_BYTES_MIN:
            return left
        if cut is None:
            cut = self._cut[lane] = _Cut(frame, self._number)
            self._number = (self._number + 1) & 0xFFFFFFFF
        parts.append(_PIECE_OF_PART.pack(frame.kind, PART, size, frame.size, cut.number, cut.offset))
        cut.take(size, parts)
        self.queued_bytes -= size
        self.large_bytes -= size
        if cut.offset == frame.size:
            self._finish_large(lane)
        return left - PART_HEADER_BYTES - size

    def _finish_large(self, lane: int) -> None:
        self.queued_bytes -= FRAME_HEADER_BYTES
        self.large_bytes -= FRAME_HEADER_BYTES
        del self._cut[lane]
        self._lanes[lane].popleft()
        if not self._lanes[lane]:
            self._drop_lane(lane)

    def _drop_lane(self, lane: int) -> None:
        del self._lanes[lane]
        self._turns.remove(lane)


class _Held(msgspec.Struct):
    """A large frame of which some parts came."""

    kind: int
    total: int
    received: int
    pieces: dict[int, Buffer]
    in_order: bool = True  # the pieces came one behind the other from the beginning


class Unpacker:
    """Bodies in, frames out; holds the parts of frames that are not complete yet."""

    __slots__ = ("_fresh", "_held", "frame_bytes_max", "held_bytes", "held_bytes_max")

    def __init__(self, *, frame_bytes_max: int, held_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.held_bytes_max = held_bytes_max
        self.held_bytes = 0
        self._held: dict[int, _Held] = {}
        self._fresh: dict[int, None] = {}  # frames of which parts are held since the last `settle`

    def unpack(self, body: memoryview, frames: list[Frame], at: int = 0) -> None:
        """Append the frames that this body, from ``at`` on, completes. A malformed one raises and changes nothing."""
        end = len(body)
        if end - at >= FRAME_HEADER_BYTES and self._unpack_lone(body, frames, at, end):
            return
        whole: list[Frame] = []
        parts: list[Part] = []
        while at < end:
            if end - at < FRAME_HEADER_BYTES:
                raise RemoteProtocolError("a piece without a header")
            kind, form, size, total = _PIECE.unpack_from(body, at)
            at += FRAME_HEADER_BYTES
            if form == WHOLE:
                if size != total or at + size > end:
                    raise RemoteProtocolError("a whole frame of the wrong length")
                whole.append(Frame(kind, (body[at : at + size],), size))
            elif form == PART:
                if at + _PART.size + size > end:
                    raise RemoteProtocolError("a part longer than its packet")
                number, offset = _PART.unpack_from(body, at)
                at += _PART.size
                parts.append((number, offset, kind, total, body[at : at + size]))
            else:
                raise RemoteProtocolError(f"a piece of unknown form {form}")
            at += size
        if parts:
            self._check_all(parts)
            frames.extend(frame for part in parts if (frame := self._hold(part)) is not None)
        frames.extend(whole)

    def _unpack_lone(self, body: memoryview, frames: list[Frame], at: int, end: int) -> bool:
        """The common case at high load: the body is one piece. False when it is not, and nothing changed."""
        kind, form, size, total = _PIECE.unpack_from(body, at)
        if form == PART and at + PART_HEADER_BYTES + size == end:
            part = (*_PART.unpack_from(body, at + FRAME_HEADER_BYTES), kind, total, body[at + PART_HEADER_BYTES :])
            self._take_part(part, frames)
            return True
        if form == WHOLE and size == total and at + FRAME_HEADER_BYTES + size == end:
            frames.append(Frame(kind, (body[at + FRAME_HEADER_BYTES :],), size))
            return True
        return False

    def take_parts(self, first: Part, pieces: list[memoryview], frames: list[Frame]) -> bool:
        """Parts of one frame, one behind the other, of which the first is ``first``: the common case at high load.

        False when they do not follow what is held, or something is wrong with them: then nothing changed.
        """
        number, offset, kind, total, _ = first
        size = len(pieces[0]) * len(pieces)
        held = self._held.get(number) or _Held(kind, total, 0, {})
        follows = held.in_order and (held.received, held.kind, held.total) == (offset, kind, total)
        is_sound = 0 < size <= total - offset and total <= self.frame_bytes_max
        if not follows or not is_sound or self.held_bytes + size > self.held_bytes_max:
            return False
        if offset + size == total:
            self._held.pop(number, None)
            self.held_bytes -= offset
            frames.append(Frame(kind, (b"".join([*held.pieces.values(), *pieces]),), total))
            return True
        self._held[number] = held
        held.pieces.update(zip(range(offset, total, len(pieces[0])), pieces))
        held.received = offset + size
        self.held_bytes += size
        self._fresh[number] = None
        return True

    def _take_part(self, part: Part, frames: list[Frame]) -> None:
        self._check(part)
        if self.held_bytes + len(part[4]) > self.held_bytes_max:
            raise RemoteProtocolError(HELD_TOO_MUCH)
        frame = self._hold(part)
        if frame is not None:
            frames.append(frame)

    def settle(self) -> None:
        """Copy what stays held, so that a small part does not keep a large receive buffer alive."""
        for number in self._fresh:
            held = self._held.get(number)
            if held is not None:
                held.pieces = {offset: bytes(piece) for offset, piece in held.pieces.items()}
        self._fresh.clear()

    def clear(self) -> None:
        """Forget everything: the link failed."""
        self._held.clear()
        self._fresh.clear()
        self.held_bytes = 0

    def _check_all(self, parts: list[Part]) -> None:
        if len(parts) > 1 and len({part[0] for part in parts}) < len(parts):
            raise RemoteProtocolError("two parts of one frame in one packet")
        for part in parts:
            self._check(part)
        if self.held_bytes + sum(len(part[4]) for part in parts) > self.held_bytes_max:
            raise RemoteProtocolError(HELD_TOO_MUCH)

    def _check(self, part: Part) -> None:
        number, offset, kind, total, piece = part
        size = len(piece)
        if not size or offset + size > total or not 0 < total <= self.frame_bytes_max:
            raise RemoteProtocolError("a part outside its frame, or a frame over the limit")
        held = self._held.get(number)
        if held is None:
            return
        if held.kind != kind or held.total != total or offset in held.pieces:
            raise RemoteProtocolError("a part that contradicts an earlier one")
        received = held.received + size
        if received > total or (received == total and not _seamless({**held.pieces, offset: piece})):
            raise RemoteProtocolError("parts that overlap")

    def _hold(self, part: Part) -> Frame | None:
        number, offset, kind, total, piece = part
        if len(piece) == total:
            return Frame(kind, (piece,), total)
        held = self._held.get(number)
        if held is None:
            held = self._held[number] = _Held(kind, total, 0, {})
        held.in_order = held.in_order and offset == held.received
        held.pieces[offset] = piece
        held.received += len(piece)
        self.held_bytes += len(piece)
        if held.received < total:
            self._fresh[number] = None
            return None
        del self._held[number]
        self.held_bytes -= total
        return Frame(kind, (b"".join(held.pieces[start] for start in sorted(held.pieces)),), total)


def _seamless(pieces: dict[int, Buffer]) -> bool:
    """Whether each piece begins where the one before it ends."""
    end = 0
    for start in sorted(pieces):
        if start != end:
            return False
        end += len(pieces[start])
    return True
