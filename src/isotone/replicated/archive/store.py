"""An archive at a URI: what is there, reading and writing of segments, and whether it is whole.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.errors import InputError, MachineError
from isotone.core.ordered_log import LogEntry
from isotone.replicated.archive.segments import (
    Segment,
    decode_segment,
    encode_segment,
    entries_of,
    parse_name,
    require_pyarrow,
    segment_of,
)

COMPACT_RECORDS_MAX = 262_144
COMPACT_BYTES_MAX = 256 * 1024 * 1024
"""Segments are joined up to so many records and so many bytes of their files."""


class Listing(msgspec.Struct, frozen=True):
    """The segments that hold the archive, in order and without overlaps, and those that they make needless."""

    segments: tuple[Segment, ...]
    needless: tuple[Segment, ...] = ()

    @property
    def first(self) -> int:
        """The oldest position; 1 when there is none."""
        return self.segments[0].first if self.segments else 1

    @property
    def end(self) -> int:
        """The last position; 0 when there is none."""
        return self.segments[-1].last if self.segments else 0

    def covering(self, first: int, last: int) -> list[Segment]:
        """The segments that hold any of these positions."""
        return [each for each in self.segments if each.last >= first and each.first <= last]


class Archive:
    """The archive at a URI: a directory, ``file:///…``, ``s3://bucket/…`` or what else `pyarrow.fs` reads.

    ``credential_file``: a JSON object with the keyword arguments of the file system of `pyarrow.fs`, such as
    ``{"access_key": …, "secret_key": …}``. It is read when it is needed and stands in no option that others see.
    """

    def __init__(self, uri: str | Path, credential_file: str = "") -> None:
        self.uri = str(uri)
        if not self.uri:
            raise InputError("an archive needs a place: a directory or a URI such as s3://bucket/folder")
        self._files, self._root = _file_system(self.uri, credential_file)

    def listing(self) -> Listing:
        """What is there; an `InputError` for a gap, and for segments that overlap or contradict each other."""
        arrow = require_pyarrow()
        with self._told("list"):
            selector = arrow.fs.FileSelector(self._root, allow_not_found=True)
            names = [each.base_name for each in self._files.get_file_info(selector) if each.is_file]
        return arranged((parse_name(name) for name in names), self.uri)

    def exists(self) -> bool:
        """Whether its directory is there."""
        with self._told("look at"):
            return bool(self._files.get_file_info(self._root).type != require_pyarrow().fs.FileType.NotFound)

    def read(self, segment: Segment) -> Any:
        """The rows of a segment as an Arrow table."""
        path = self._path(segment)
        with self._told(f"read {path} of"), self._files.open_input_file(path) as file:
            data = bytes(file.read())
        return decode_segment(segment, data, f"{self.uri}/{segment.name}")

    def write(self, entries: Sequence[LogEntry]) -> Segment:
        """Write these entries as one segment; nobody ever sees a part of it. One that is there already stays."""
        segment = segment_of(entries)
        self._put(segment, encode_segment(entries))
        return segment

    def _put(self, segment: Segment, data: bytes) -> None:
        arrow = require_pyarrow()
        with self._told(f"write {segment.name} to"):
            self._files.create_dir(self._root, recursive=True)
            if self._files.get_file_info(self._path(segment)).type == arrow.fs.FileType.File:
                return
            hidden = f"{self._root}/.{segment.name}.{uuid.uuid4().hex}"
            with self._files.open_output_stream(hidden) as file:
                file.write(data)
            self._files.move(hidden, self._path(segment))

    def remove(self, segment: Segment) -> None:
        """Remove the file of a segment."""
        with self._told(f"remove {segment.name} from"):
            self._files.delete_file(self._path(segment))

    def verify(self, advance: Callable[[str], None] = lambda note: None) -> list[str]:
        """Read every segment; what is wrong, a sentence for each damaged one."""
        problems = []
        for segment in self.listing().segments:
            try:
                self.read(segment)
            except InputError as error:
                problems.append(str(error))
            advance(segment.name)
        return problems

    def compact(self, advance: Callable[[str], None] = lambda note: None) -> tuple[int, int]:
        """Join small segments into large ones and remove what is needless: how many were joined, into how many.

        Readers that listed the archive before may miss a file that is gone now; they list again.
        """
        listing = self.listing()
        joined = made = 0
        for run in self._runs(listing.segments):
            entries = [entry for segment in run for entry in entries_of(self.read(segment))]
            self.write(entries)
            joined, made = joined + len(run), made + 1
            for segment in run:
                self.remove(segment)
                advance(segment.name)
        for segment in listing.needless:
            self.remove(segment)
        return joined, made

    def _runs(self, segments: Sequence[Segment]) -> Iterable[list[Segment]]:
        """Consecutive segments that are small enough together, where there are two or more."""
        run: list[Segment] = []
        size = 0
        for segment in segments:
            with self._told("look at"):
                own = self._files.get_file_info(self._path(segment)).size or 0
            records = sum(map(len, run)) + len(segment)
            if run and (size + own > COMPACT_BYTES_MAX or records > COMPACT_RECORDS_MAX):
                if len(run) > 1:
                    yield run
                run, size = [], 0
            run.append(segment)
            size += own
        if len(run) > 1:
            yield run

    def _path(self, segment: Segment) -> str:
        return f"{self._root}/{segment.name}"

    @contextmanager
    def _told(self, deed: str) -> Any:
        arrow = require_pyarrow()
        try:
            yield
        except (OSError, arrow.ArrowException) as error:
            raise MachineError(f"cannot {deed} the archive {self.uri}: {str(error).splitlines()[0]}") from error


def arranged(found: Iterable[Segment | None], where: str) -> Listing:
    """The listing that these segments make: larger ones replace the smaller ones that they hold."""
    segments = sorted((each for each in found if each is not None), key=lambda each: (each.first, -each.last))
    held: list[Segment] = []
    needless: list[Segment] = []
    for segment in segments:
        last = held[-1] if held else None
        if last is None or segment.first == last.last + 1:
            held.append(segment)
        elif segment.first > last.last:
            raise InputError(
                f"{where}: positions {last.last + 1} to {segment.first - 1} are missing: a segment is gone"
            )
        elif segment.last <= last.last:
            if (segment.first, segment.last) == (last.first, last.last):
                raise InputError(f"{where}: {last.name} and {segment.name} hold the same positions with other rows")
            needless.append(segment)
        else:
            raise InputError(f"{where}: {last.name} and {segment.name} overlap")
    return Listing(tuple(held), tuple(needless))


def _file_system(uri: str, credential_file: str) -> tuple[Any, str]:
    arrow = require_pyarrow()
    arguments = _credentials(credential_file) if credential_file else {}
    try:
        if "://" not in uri:
            return arrow.fs.LocalFileSystem(), str(Path(uri).resolve())
        if arguments and uri.startswith("s3://"):
            return arrow.fs.S3FileSystem(**arguments), uri.removeprefix("s3://").rstrip("/")
        files, root = arrow.fs.FileSystem.from_uri(uri)
    except (OSError, TypeError, ValueError, arrow.ArrowException) as error:
        raise InputError(f"{uri!r} is no place for an archive: {str(error).splitlines()[0]}") from error
    return files, root.rstrip("/")


def _credentials(path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise InputError(f"cannot read the credentials in {path}: {error.strerror}") from error
    except msgspec.MsgspecError:
        raise InputError(f"{path}: credentials are one JSON object with the arguments of the file system") from None
