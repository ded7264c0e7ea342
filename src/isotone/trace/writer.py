"""The trace writer of one incarnation: rows in, spool and Parquet files out. Never raises into the protocol.

Without `pyarrow` there are only spools, which readers take as well.

Levels: *off* records nothing; *buffered* queues rows until `flush`, which a shell calls off its loop, and loses what
the queue cannot hold or a kill takes; *full* hands each row to the kernel before `append` returns. What is lost is
counted, and the record says where: before the next row that is written stands a `Gap`. Its index is that of the first
lost row, and it stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from threading import Lock

from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError
from isotone.trace.events import Gap, Row
from isotone.trace.layout import SPOOL_SUFFIX, PartHeader, part_path, parts_of, stale_files
from isotone.trace.parquet import has_pyarrow
from isotone.trace.process import this_boot, this_process
from isotone.trace.records import END, frame
from isotone.trace.rotation import rotate
from isotone.trace.spool import SpoolFile, encode_row

ROTATE_BYTES = 64 * 1024 * 1024
QUEUE_MAX = 65536
_BLOCK_BYTES = 256 * 1024


class Level(Enum):
    """How much a trace may lose."""

    OFF = "off"
    BUFFERED = "buffered"
    FULL = "full"


class TraceWriter:
    """Writes the record of (``run``, ``node``, ``incarnation``). `append` belongs to one thread; `flush` to any.

    ``convert`` turns a complete spool into Parquet, or raises `OSError`. ``problem`` is the last error of the machine,
    empty when there was none.
    """

    def __init__(
        self,
        directory: Path,
        run: str,
        node: str,
        incarnation: int,
        *,
        level: Level = Level.BUFFERED,
        rotate_bytes: int | None = ROTATE_BYTES,
        queue_max: int = QUEUE_MAX,
        convert: Callable[[Path], object] = rotate,
    ) -> None:
        self.problem = ""
        self._write_problem = self._convert_problem = ""  # of the last attempt
        self._convert = convert
        self._level = level
        self._rotate_bytes = rotate_bytes
        self._converts = rotate_bytes is not None and has_pyarrow()  # else complete spools stay what they are
        self._queue_max = queue_max
        self._queue: list[Row] = []  # invariant: at most queue_max rows
        self._queueing = Lock()  # guards _queue
        self._writing = Lock()  # guards _spool and _next_index
        self._rotating = Lock()
        self._full_parts: list[Path] = []  # spools that are complete and not yet Parquet
        self._next_index = 0  # the index that the record on disk continues with
        self._last: Row | None = None  # the last row that was handed in
        self._dropped = 0  # changed by append alone
        self._refused = 0  # changed under _writing alone
        self._closed = level is Level.OFF
        self._spool: SpoolFile | None = None  # none at level off and after close
        if level is not Level.OFF:
            self._begin(
                directory, PartHeader(run, node, incarnation, 0, level.value, this_boot(), writer=this_process())
            )

    @property
    def lost(self) -> int:
        """How many rows were dropped because the queue or the disk was full."""
        return self._dropped + self._refused

    @property
    def failing(self) -> str:
        """Why the last attempt to write or to convert failed; empty when it did not."""
        return self._write_problem or self._convert_problem

    def append(self, row: Row) -> None:
        """Take the next row."""
        if self._closed:
            return
        self._last = row
        if self._level is Level.FULL:
            with self._writing:
                if self._spool is not None:
                    self._write([row])
            return
        with self._queueing:
            if len(self._queue) < self._queue_max:
                self._queue.append(row)
            else:
                self._dropped += 1

    def flush(self) -> None:
        """Write what is queued, and turn complete spools into Parquet. Slow: not for the loop's thread."""
        self._drain()
        self._rotate()

    def set_level(self, level: Level) -> bool:
        """Promise otherwise from now on, in a new part; False when that cannot be begun and the promise stays."""
        assert level is not Level.OFF and not self._closed
        if level is self._level:
            return True
        self._drain()
        with self._writing:
            assert self._spool is not None
            if not self._next_part(self._spool, level):
                return False
            self._level = level
        return True

    def abandon(self) -> None:
        """Give the file back as it is, as a kill would: nothing that waits is written, and no end is marked."""
        self._closed = True
        with self._writing:
            if self._spool is not None:
                self._spool.close()
                self._spool = None

    def close(self) -> None:
        """Write all that is left and the mark of a clean end; without it a reader takes the record for truncated."""
        if self._closed:
            return
        self._closed = True
        self._drain()
        with self._writing:
            last = self._last
            rest = b"" if last is None else _gap(self._next_index, last.index + 1, last)
            self._write_block(rest + frame(END))
            assert self._spool is not None
            self._spool.close()
            if self._converts:
                self._full_parts.append(self._spool.path)
            self._spool = None
        self._rotate()

    def _begin(self, directory: Path, header: PartHeader) -> None:
        if parts_of(directory, header.run, header.node, header.incarnation):
            raise LocalProtocolError(f"{directory}: incarnation {header.incarnation} of {header.node!r} has a record")
        try:
            part_path(directory, header, SPOOL_SUFFIX).parent.mkdir(parents=True, exist_ok=True)
            for stale in stale_files(directory, header.run, header.node):
                stale.unlink(missing_ok=True)
            self._spool = SpoolFile(directory, header)
        except OSError as error:
            raise MachineError(f"{directory}: cannot write the trace: {error}") from None

    def _drain(self) -> None:
        if self._level is not Level.BUFFERED:
            return
        with self._writing:
            with self._queueing:
                rows, self._queue = self._queue, []
            if self._spool is not None:
                self._write(rows)

    def _write(self, rows: list[Row]) -> None:
        """Write rows in blocks; a block that fails is lost as a whole, and the next one says so."""
        block, count, expected = bytearray(), 0, self._next_index
        for left, row in enumerate(rows, start=1 - len(rows)):
            encoded = self._encoded(row)
            if encoded:
                block += _gap(expected, row.index, row) + encoded
                count, expected = count + 1, row.index + 1
            if block and (len(block) >= _BLOCK_BYTES or not left):
                if self._write_block(bytes(block)):
                    self._next_index = expected
                else:
                    self._refused += count
                    expected = self._next_index
                block.clear()
                count = 0

    def _encoded(self, row: Row) -> bytes:
        """The row as bytes; none if it holds what no file can, such as a text that is not Unicode."""
        try:
            return encode_row(row)
        except (ValueError, OverflowError) as error:
            self.problem = f"a row cannot be written: {error}"
            self._refused += 1
            return b""

    def _write_block(self, block: bytes) -> bool:
        assert self._spool is not None
        if self._spool.torn or (self._rotate_bytes is not None and self._spool.size >= self._rotate_bytes):
            self._next_part(self._spool)
        written = self._spool.write(block)
        self._write_problem = "" if written else self._spool.problem
        self.problem = self._write_problem or self.problem
        return written

    def _next_part(self, spool: SpoolFile, level: Level | None = None) -> bool:
        """Begin a new file; where that fails, the old one grows on."""
        try:
            self._spool = spool.next_part(None if level is None else level.value)
        except OSError as error:
            self.problem = self._write_problem = str(error)
            return False
        spool.close()
        if self._converts:
            self._full_parts.append(spool.path)
        return True

    def _rotate(self) -> None:
        """A spool that cannot be rotated now stays; it is as good to read, and the next flush tries again."""
        with self._rotating:
            while self._full_parts:
                try:
                    self._convert(self._full_parts[0])
                except (OSError, IsotoneError) as error:
                    self.problem = self._convert_problem = str(error)
                    return
                self._full_parts.pop(0)
                self._convert_problem = ""


def _gap(expected: int, index: int, row: Row) -> bytes:
    """What stands for the rows from ``expected`` to before ``index``, if any."""
    if index <= expected:
        return b""
    return encode_row(Row(row.node, row.incarnation, expected, row.at, Gap(lost=index - expected)))
