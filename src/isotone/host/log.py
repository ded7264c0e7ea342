"""One log, open for writing: operations become frames at the end of its last segment file.

Nothing that was written is ever changed, but for what a failed group commit leaves behind. Cutting the head or the tail
is an operation as any other; files in which no record is left that counts are removed after the sync that covers the
cut. So of the operations under way when the machine stops, a prefix survives.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from isotone.core.contract import Append, CutHead, CutTail, StoredLog
from isotone.host.files import Files
from isotone.host.frames import (
    CHECKSUM,
    HEAD,
    HEADER_BYTES,
    MARK,
    NUMBER,
    SEGMENT_VERSION,
    Kind,
    SegmentHeader,
    pack_frame,
    pack_header,
    salt_of,
)
from isotone.host.segments import Found, Segment, escape, segment_path
from isotone.host.writes import LogWrite, Repair

State = tuple[int, int, int]  # operation, first, next


class LogFile:
    """A log of a store. `stage` collects, `write` writes, `sync` makes durable; `undo` forgets all since `begin`."""

    def __init__(self, directory: Path, log: str, files: Files, segment_bytes: int) -> None:
        self.log = log
        self.directory = directory
        self.operation, self.first, self.next = 0, 1, 1
        self.segments: list[Segment] = []  # the last one is written; invariant: not empty once open
        self._files = files
        self._segment_bytes = segment_bytes
        self._descriptor = -1
        self._size = 0  # where the next frame goes
        self._synced = 0  # the last operation that is durable
        self._salt = 0
        self._staged: list[bytes] = []
        self.staged_bytes = 0
        self._undo: tuple[State, int] | None = None  # how it stood before what is staged, and the size of the file

    # --- opening ---------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, parent: Path, log: str, files: Files, segment_bytes: int, *, first: int = 1) -> LogFile:
        """A new log; it is durable when this returns."""
        made = cls(parent / escape(log), log, files, segment_bytes)
        made.first = made.next = first
        made.directory.mkdir(exist_ok=True)
        made._begin_segment(1)
        files.sync_directory(parent)
        return made

    @classmethod
    def open(cls, found: Found, files: Files, segment_bytes: int) -> LogFile:
        """Go on with a log; its torn tail is cut."""
        opened = cls(found.directory, found.log, files, segment_bytes)
        opened.operation, opened.first, opened.next = found.operation, found.first, found.next
        opened._synced = found.operation
        opened.segments = found.segments
        for path in found.torn_files:
            path.unlink()
        if not found.segments:
            opened._begin_segment(1)
            return opened
        last = found.segments[-1]
        opened._salt = salt_of(found.log, last.index)
        opened._descriptor = files.open(last.path)
        opened._size = found.end[1]
        if last.size > opened._size:
            files.cut(opened._descriptor, opened._size)
        if found.torn_files:
            files.sync_directory(found.directory)
        return opened

    def stored(self, found: Found) -> StoredLog:
        """What an automaton finds."""
        records = found.records
        return StoredLog(
            self.first, tuple([records.get(number, b"") for number in range(self.first, self.next)]), found.damaged
        )

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _begin_segment(self, index: int) -> None:
        """Open the next file; it is durable, and so is all before it."""
        path = segment_path(self.directory, index)
        header = SegmentHeader(
            version=SEGMENT_VERSION,
            log=self.log,
            segment=index,
            operation=self.operation,
            first=self.first,
            next=self.next,
        )
        descriptor = self._files.create(path)
        try:
            self._files.write(descriptor, pack_header(header), 0)
            self._files.sync(descriptor)
            self._files.sync_directory(self.directory)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                path.unlink()
            raise
        self.close()
        self._descriptor, self._size, self._salt = descriptor, HEADER_BYTES, salt_of(self.log, index)
        self.segments.append(Segment(index, path, HEADER_BYTES, self.next))

    # --- one group commit ------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Before `begin`: a file that is full, and will be left, is durable. An error is one of a sync."""
        if self._size >= self._segment_bytes and self._synced < self.operation:
            self.sync()

    def begin(self) -> None:
        """Before the first `stage`; a file that is full is left for the next one."""
        if self._size >= self._segment_bytes:
            assert self._synced == self.operation, "what is left is durable"
            self._begin_segment(self.segments[-1].index + 1)
        self._undo = ((self.operation, self.first, self.next), self._size)

    def stage(self, write: LogWrite) -> None:
        """Add an operation."""
        self.operation += 1
        if type(write) is Append:
            record = write.record
            self.next += 1
            head = HEAD.pack(
                MARK, 1, len(record), crc32(record), self.operation, self.first, self.next, self._synced
            )  # `pack_frame` without copying the record
            self._staged += (head, CHECKSUM.pack(crc32(head, self._salt)), record)
            self.staged_bytes += len(head) + len(record)
        elif isinstance(write, CutHead):
            self.first = min(max(write.before, self.first), self.next)
            self._stage(Kind.CUT_HEAD)
        elif isinstance(write, CutTail):
            self.next = max(min(write.start, self.next), self.first)
            self._stage(Kind.CUT_TAIL)
        else:
            assert isinstance(write, Repair)
            self._stage(Kind.REPAIR, NUMBER.pack(write.number) + write.record)

    def _stage(self, kind: Kind, body: bytes = b"") -> None:
        self._staged.append(self._frame(kind, body))

    def _frame(self, kind: Kind, body: bytes = b"") -> bytes:
        return pack_frame(
            kind,
            body,
            self._salt,
            operation=self.operation,
            first=self.first,
            next_=self.next,
            synced=self._synced,
        )

    def write(self) -> None:
        """Hand all that is staged to the system."""
        staged, self._staged = b"".join(self._staged), []
        self.staged_bytes = 0
        self._files.write(self._descriptor, staged, self._size)
        self._size += len(staged)

    def bring_to_disk(self) -> None:
        """What is written so far; it may still be undone, and does not count as durable."""
        self._files.sync(self._descriptor)

    def sync(self) -> None:
        """Make it durable."""
        self.bring_to_disk()
        self._synced = self.operation

    def undo(self) -> None:
        """Nothing of what was staged since `begin` happens."""
        assert self._undo is not None
        self._staged, self.staged_bytes = [], 0
        (self.operation, self.first, self.next), self._size = self._undo
        self._files.cut(self._descriptor, self._size)

    def tell_synced(self) -> None:
        """Write down, without a sync, that all before is durable: damage to it is then known from a torn tail."""
        frame = self._frame(Kind.SYNCED)
        self._files.write(self._descriptor, frame, self._size)
        self._size += len(frame)

    def drop_segments(self) -> None:
        """Remove files all of whose records were cut; one that stays although it need not is harmless."""
        while len(self.segments) > 1 and self.first >= self.segments[1].next:
            if self._synced < self.operation:
                self.sync()  # the cut first
            with suppress(OSError):
                self.segments[0].path.unlink()
            del self.segments[0]
