"""What a log holds: its segment files, read from the first to the last.

Operations are numbered densely, so what cannot be read is known by its numbers. Of operations that a finished sync is
known to have covered, records that are missing are *damaged*. From the first missing operation that no sync covered,
everything is a *torn tail*: it was never promised to anybody.

Missing operations may have cut the tail and given its numbers anew. So as many of the last records as that can be are
counted as damaged: what was read before under their numbers may be what was cut. If all of them appended, these are
exactly the records that are missing.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from isotone.core.errors import MachineError
from isotone.host.frames import (
    CHECKSUM,
    FRAME_BYTES,
    HEAD,
    HEADER_BYTES,
    MARK,
    NUMBER,
    Frame,
    Kind,
    SegmentHeader,
    next_frame,
    read_header,
    salt_of,
)
from isotone.host.segments import Found, Place, Segment, segment_paths, unescape

WHAT_TO_DO = (
    "this server must not vote with them; repair them from the other servers: isotone replica scrub; "
    "or remove this server, and add one under a new name: isotone replica remove, isotone replica add"
)


def read_log(directory: Path, *, keep: bool = True) -> Found:
    """Read all files of a log; without ``keep`` only which records are good."""
    found = Found(unescape(directory.name), directory)
    reader = _Reader(found, keep)
    paths = segment_paths(directory)
    for position, (index, path) in enumerate(paths):
        reader.read(index, path, is_last=position == len(paths) - 1)
    reader.finish()
    return found


class _Reader:
    """Carries the state of a log from frame to frame."""

    def __init__(self, found: Found, keep: bool) -> None:
        self._found, self._keep = found, keep
        self._pending: list[tuple[Segment, Frame, bytes]] = []  # behind an operation that may be torn
        self._missing = 0  # that operation

    # --- files -----------------------------------------------------------------------------------------------------

    def read(self, index: int, path: Path, *, is_last: bool) -> None:
        """One file."""
        found, data = self._found, path.read_bytes()
        header = read_header(data, str(path), found.log, index)
        if header is None and is_last and len(data) <= HEADER_BYTES:
            found.torn_files += (path,)  # only begun: its header is synced before anything follows
            return
        segment = Segment(index, path, len(data), header.next if header else 0)
        salt = salt_of(found.log, index)
        head = _as_frame(header) if header is not None else next_frame(data, HEADER_BYTES, salt)
        if head is None and is_last:
            raise MachineError(
                f"{path}: nothing in this file can be read, so what the log {found.log!r} ended with is unknown; "
                "replace the server by one with a new name: isotone replica remove, isotone replica add"
            )
        if head is not None and header is None:
            found.problems.append(f"{path}: the header is damaged; nothing is lost by that")
            segment.next = head.next - (head.kind == Kind.APPEND)
        if not found.segments and head is not None:
            self._begin(head)
        found.segments.append(segment)
        if header is not None and head is not None:
            self._take(segment, head, data)
        unread = self._read_frames(segment, data, salt)
        if unread and not is_last:
            found.problems.append(f"{path}: {unread} bytes cannot be read")

    def _read_frames(self, segment: Segment, data: bytes, salt: int) -> int:
        """All frames of a file; returns how many bytes are none."""
        unread, place = 0, HEADER_BYTES
        while place < len(data):
            if not self._pending:
                place = self._skim(segment, data, place, salt)
            frame = next_frame(data, place, salt)
            if frame is None:
                return unread + len(data) - place
            unread += frame.start - place
            self._take(segment, frame, data)
            place = frame.end
        return unread

    def _skim(self, segment: Segment, data: bytes, place: int, salt: int) -> int:
        """Appends that follow one another, the ordinary case, at less cost; returns where they end."""
        found, keep, size = self._found, self._keep, len(data)
        operation, first, next_, synced = found.operation, found.first, found.next, found.synced
        start = place
        while (body := place + FRAME_BYTES) <= size:
            head = data[place : place + HEAD.size]
            mark, kind, length, checksum, its, its_first, its_next, its_synced = HEAD.unpack(head)
            expected = (MARK, Kind.APPEND, operation + 1, first, next_ + 1)
            if (mark, kind, its, its_first, its_next) != expected or body + length > size:
                break
            record = data[body : body + length]
            if crc32(head, salt) != CHECKSUM.unpack_from(data, place + HEAD.size)[0] or crc32(record) != checksum:
                break
            found.records[next_] = record if keep else b""
            operation, next_, place = its, its_next, body + length
            synced = max(synced, its_synced)
        found.operation, found.next, found.synced = operation, next_, synced
        if place > start:
            found.end = (segment.index, place)
        return place

    def _begin(self, head: Frame) -> None:
        """The oldest file that is left: what was before it is not asked for."""
        found = self._found
        found.operation, found.first, found.next = head.before, head.first, head.next
        if head.kind == Kind.APPEND:
            found.next -= 1

    def finish(self) -> None:
        """All files were read: what is pending was never promised."""
        found = self._found
        index, offset = found.end
        for segment in found.segments:
            if segment.index == index:
                found.torn_bytes += max(0, segment.size - offset)
            elif segment.index > index:
                found.torn_bytes += segment.size
                found.torn_files += (segment.path,)
        found.segments = [segment for segment in found.segments if segment.index <= index]
        missing = found.damaged
        if missing:
            what = f"{len(missing)} records of the log {found.log!r} are damaged, the first {missing[0]}"
            found.problems.append(f"{what}: {WHAT_TO_DO}")

    # --- frames ----------------------------------------------------------------------------------------------------

    def _take(self, segment: Segment, frame: Frame, data: bytes) -> None:
        found = self._found
        found.synced = max(found.synced, frame.synced)
        if self._pending:
            self._pending.append((segment, frame, data))
        elif frame.operation < found.operation or (frame.operation == found.operation != frame.before):
            found.problems.append(f"{segment.path}: operation {frame.operation} stands behind {found.operation}")
        elif (missing := self._first_missing(frame)) > found.synced:
            self._missing = missing
            self._pending.append((segment, frame, data))
        else:
            self._apply(segment, frame, data)
        if self._pending and self._missing <= found.synced:
            pending, self._pending = self._pending, []
            for each in pending:
                self._take(*each)

    def _first_missing(self, frame: Frame) -> int:
        """The first operation that is missing if this is the next frame, 0 if none is."""
        if frame.before > self._found.operation:
            return self._found.operation + 1
        return 0 if frame.whole else frame.operation

    def _apply(self, segment: Segment, frame: Frame, data: bytes) -> None:
        found = self._found
        if frame.before > found.operation:
            self._suspect(frame)
        found.operation = frame.operation
        if frame.kind == Kind.APPEND:
            self._append(segment, frame, frame.next - 1, data, frame.body)
        elif frame.kind == Kind.REPAIR and frame.whole:
            (number,) = NUMBER.unpack_from(data, frame.body)
            if found.first <= number < frame.next:
                self._append(segment, frame, number, data, frame.body + NUMBER.size)
        for number in range(frame.next, found.next):
            found.records.pop(number, None)
            found.bad.pop(number, None)
        for number in range(found.first, frame.first):
            found.records.pop(number, None)
            found.bad.pop(number, None)
        found.first, found.next = frame.first, frame.next
        found.end = (segment.index, max(frame.end, HEADER_BYTES))

    def _append(self, segment: Segment, frame: Frame, number: int, data: bytes, start: int) -> None:
        found = self._found
        if not frame.whole:
            found.records.pop(number, None)
            found.bad[number] = Place(segment.index, frame.body, frame.length, frame.checksum)
            return
        found.bad.pop(number, None)
        record = data[start : frame.end]
        found.records[number] = record if self._keep else b""

    def _suspect(self, frame: Frame) -> None:
        """Operations before this frame are missing: a cut, and all but one of them appends, is the worst case."""
        found = self._found
        count = frame.before - found.operation
        next_ = frame.next - (frame.kind == Kind.APPEND)
        for number in range(max(found.first, next_ - (count - 1)), max(next_, found.next)):
            found.records.pop(number, None)
            found.bad.pop(number, None)


def _as_frame(header: SegmentHeader) -> Frame:
    """A header tells as much as a frame: all before it was synced when it was written."""
    return Frame(
        kind=Kind.SYNCED,
        operation=header.operation,
        first=header.first,
        next=header.next,
        synced=header.operation,
        start=0,
        length=0,
        checksum=0,
        whole=True,
    )
