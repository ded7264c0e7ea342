"""One segment of an archive: its name, its columns, its digest, and how its rows become a file and back.

Implements: [DESIGN 5], tables and streams. Deviations: D-time there is no column of time, because messages carry none:
a segment is a function of the log alone, which holds no clock; whoever needs the time writes it into records.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any

import msgspec

from isotone.core.errors import InputError
from isotone.core.ordered_log import LogEntry
from isotone.replicated.archive.places import require_pyarrow

ARCHIVE_VERSION = 1
SEGMENT_RECORDS_MAX = 4_096
SEGMENT_BYTES_MAX = 8 * 1024 * 1024
"""A segment ends with the record by which it has so many records, or so many bytes."""
SUFFIX = ".parquet"
DIGEST_BYTES = 8
_VERSION_KEY = b"isotone_archive"
_NAME = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{16})\.parquet")
_HEAD = Struct("<QII")


class Segment(msgspec.Struct, frozen=True, order=True):
    """The positions ``first`` … ``last`` with the digest of their rows."""

    first: int
    last: int
    digest: str

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.first:020d}-{self.last:020d}-{self.digest}{SUFFIX}"

    def __len__(self) -> int:
        return self.last - self.first + 1


def parse_name(name: str) -> Segment | None:
    """The segment of this file's name; None for a file that is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    segment = Segment(int(match[1]), int(match[2]), match[3])
    return segment if 1 <= segment.first <= segment.last else None


def whole_segment(entries: Sequence[LogEntry]) -> int:
    """How many of these entries, from the first on, make a whole segment; 0 if they do not yet."""
    size = 0
    for count, entry in enumerate(entries, 1):
        size += len(entry.record)
        if count == SEGMENT_RECORDS_MAX or size >= SEGMENT_BYTES_MAX:
            return count
    return 0


def segment_of(entries: Sequence[LogEntry]) -> Segment:
    """The segment that these consecutive entries are."""
    return Segment(entries[0].position, entries[-1].position, digest_of(entries))


def digest_of(entries: Iterable[LogEntry]) -> str:
    """Of positions, messages and records."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for entry in entries:
        message = entry.message.encode()
        digest.update(_HEAD.pack(entry.position, len(message), len(entry.record)))
        digest.update(message)
        digest.update(entry.record)
    return digest.hexdigest()


def sender_of(message: str) -> str:
    """The server that sent a message, by the message's name."""
    return message.partition(":")[0].rpartition(".")[0]


def arrow_schema() -> Any:
    """The columns of a segment."""
    arrow = require_pyarrow()
    return arrow.schema(
        [
            arrow.field("position", arrow.int64(), nullable=False),
            arrow.field("message", arrow.string(), nullable=False),
            arrow.field("sender", arrow.string(), nullable=False),
            arrow.field("record", arrow.binary(), nullable=False),
        ]
    )


def table_of(entries: Sequence[LogEntry]) -> Any:
    """The rows as an Arrow table."""
    columns = {
        "position": [entry.position for entry in entries],
        "message": [entry.message for entry in entries],
        "sender": [sender_of(entry.message) for entry in entries],
        "record": [entry.record for entry in entries],
    }
    return require_pyarrow().table(columns, schema=arrow_schema())


def encode_segment(entries: Sequence[LogEntry]) -> bytes:
    """The file of a segment; the same entries give the same bytes with the same pyarrow."""
    arrow = require_pyarrow()
    table = table_of(entries).replace_schema_metadata({_VERSION_KEY: str(ARCHIVE_VERSION).encode()})
    file = io.BytesIO()
    arrow.parquet.write_table(table, file, compression="zstd", use_dictionary=["message", "sender"])
    return file.getvalue()


def decode_segment(segment: Segment, data: bytes, where: str) -> Any:
    """The rows of a segment's file as an Arrow table; an `InputError` names a file whose rows are not as it says."""
    arrow = require_pyarrow()
    try:
        file = arrow.parquet.ParquetFile(io.BytesIO(data))
        _check_version((file.schema_arrow.metadata or file.metadata.metadata or {}).get(_VERSION_KEY), where)
        table = file.read(columns=arrow_schema().names).cast(arrow_schema())
    except (arrow.ArrowException, OSError, KeyError, ValueError) as error:
        raise InputError(f"{where}: not a segment of an archive: {error}") from error
    found = digest_of(entries_of(table))
    positions = table.column("position").to_pylist()
    if positions != list(range(segment.first, segment.last + 1)) or found != segment.digest:
        raise InputError(f"{where}: damaged: its rows are not those that its name promises")
    return table


def entries_of(table: Any) -> Iterable[LogEntry]:
    """The entries of a table of rows."""
    for batch in table.to_batches():
        columns = (batch.column(name).to_pylist() for name in ("position", "record", "message"))
        yield from map(LogEntry, *columns)


def _check_version(version: bytes | None, where: str) -> None:
    if version is None or not version.isdigit():
        raise InputError(f"{where}: not a segment of an archive: it has no version")
    if int(version) > ARCHIVE_VERSION:
        raise InputError(
            f"{where}: archive version {int(version)} is unknown here; the newest known is {ARCHIVE_VERSION}. "
            "Install a newer Isotone"
        )
