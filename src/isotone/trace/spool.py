"""The spool: the file that a running writer appends to, one record per row. Readable after a kill at any byte.

Preamble, one byte that is 1 while rows are lost to a full disk, a record with the header (`PartHeader`), then one
record per row: MessagePack ``[index, at, entry]``, the entry as a map with its kind. A writer that closes cleanly ends
with `END`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from isotone.core.errors import InputError
from isotone.trace.events import TRACE_VERSION, Row
from isotone.trace.layout import (
    PARQUET_SUFFIX,
    SPOOL_SUFFIX,
    Natural,
    PartHeader,
    Tail,
    check_place,
    header_of_path,
    part_path,
)
from isotone.trace.records import END, TornTail, frame, preamble, read_preamble, read_records
from isotone.trace.vocabulary import any_entry, check_entry, check_version, type_of_kind

MAGIC = b"ISOSPOOL"
LOSSY_OFFSET = len(preamble(MAGIC, TRACE_VERSION))
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encode = msgspec.msgpack.Encoder().encode


def begin_spool(header: PartHeader, *, lossy: bool = False) -> bytes:
    """The bytes that every spool begins with."""
    return preamble(MAGIC, TRACE_VERSION) + bytes([lossy]) + frame(_encode(header))


def encode_row(row: Row) -> bytes:
    """One row as one record; node and incarnation stand in the header."""
    return frame(_encode((row.index, row.at, row.entry)))


class SpoolFile:
    """One spool file, for appending. ``torn`` means that its end is damaged and nothing may follow in this file."""

    def __init__(self, directory: Path, header: PartHeader, *, lossy: bool = False) -> None:
        self.path = part_path(directory, header, SPOOL_SUFFIX)
        self.size = 0
        self.torn = False
        self.problem = ""
        self._lossy = lossy  # invariant: as in the file, as far as the file system lets us
        self._directory = directory
        self._header = header
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        if not self._write_all(begin_spool(header, lossy=lossy)):
            self.close()
            self.path.unlink(missing_ok=True)
            raise OSError(self.problem)

    def write(self, data: bytes) -> bool:
        """Hand all of it to the kernel, or nothing: what went out before an error is cut off again."""
        written = not self.torn and self._write_all(data)
        if written is self._lossy:
            self._mark(lossy=not written)
        return written

    def next_part(self, level: str | None = None) -> SpoolFile:
        """A new file that continues the record, under another promise if one is given."""
        header = msgspec.structs.replace(self._header, part=self._header.part + 1, level=level or self._header.level)
        return SpoolFile(self._directory, header, lossy=self._lossy)

    def close(self) -> None:
        """Give the descriptor back; does not mark the end."""
        os.close(self._descriptor)

    def _write_all(self, data: bytes) -> bool:
        left, offset = memoryview(data), self.size
        try:
            while left:
                written = os.pwrite(self._descriptor, left, offset)
                left, offset = left[written:], offset + written
        except OSError as error:
            self.problem = str(error)
            self._cut_back()
            return False
        self.size = offset
        return True

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self.torn = True

    def _mark(self, *, lossy: bool) -> None:
        """Changing a byte in place needs no room, so this works on a full disk and tells a reader after a kill."""
        self._lossy = lossy
        with suppress(OSError):
            os.pwrite(self._descriptor, bytes([lossy]), LOSSY_OFFSET)


class SpoolPart:
    """One spool file, for reading. ``tail`` is known once ``rows`` is exhausted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail = Tail(closed=False)
        try:
            with path.open("rb") as file:
                self.header, _ = _read_header(file, str(path))
        except TornTail:
            found = header_of_path(path)
            if found is None:
                raise InputError(f"{path}: the header is incomplete and the name is not that of a spool") from None
            self.header = found

    def rows(self) -> Iterator[Row]:
        """The rows as far as they are whole."""
        node, incarnation = self.header.node, self.header.incarnation
        decode = _decoder(any_entry()).decode
        self.tail = Tail(closed=False)
        last = -1
        try:
            with self.path.open("rb") as file:
                _, lossy = _read_header(file, str(self.path))
                for body in read_records(file):
                    if body == END:
                        behind = file.read(1)
                        self.tail = Tail(closed=not behind, problem="bytes behind its end" if behind else "")
                        return
                    index, at, entry = _decoded(decode, body, self.path)
                    row = Row(node, incarnation, index, at, entry)
                    check_place(self.path, self.header, row, last)
                    last = index
                    yield row
            self.tail = Tail(closed=False, problem="the disk refused what came then" if lossy else "")
        except TornTail as torn:
            self.tail = Tail(closed=False, problem=str(torn))


def is_closed(path: Path) -> bool:
    """Whether its writer has ended it; looks at the last bytes alone."""
    end = frame(END)
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(end)))
        return file.read() == end


def rotated_path(path: Path) -> Path:
    """The Parquet file that a spool becomes."""
    return path.with_suffix(PARQUET_SUFFIX)


def _read_header(file: BinaryIO, name: str) -> tuple[PartHeader, bool]:
    check_version(read_preamble(file, MAGIC, name, "a spool of a trace"), name)
    lossy = file.read(1) == b"\x01"
    for body in read_records(file):
        try:
            header = msgspec.msgpack.decode(body, type=PartHeader)
        except _UNDECODABLE as error:
            raise InputError(f"{name}: the header of the spool is wrong: {error}") from None
        check_version(header.version, name)
        return header, lossy
    raise TornTail("the file ends within its header")


@lru_cache(maxsize=1)
def _decoder(entry: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(tuple[Natural, Natural, entry])


def _decoded(decode: Any, body: bytes, path: Path) -> Any:
    """A body whose checksum is right and that still does not decode was written by another version."""
    try:
        decoded = decode(body)
        check_entry(decoded[2])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except _UNDECODABLE as error:
        try:
            type_of_kind(msgspec.msgpack.decode(body)[2]["kind"])
        except InputError as unknown:
            raise InputError(f"{path}: {unknown}") from None
        except (*_UNDECODABLE, LookupError, TypeError):
            pass
        raise InputError(f"{path}: a row that is not of the vocabulary: {error}") from None
    return decoded
