"""An archive at a URI: what is there, reading and writing of segments, and whether it is whole.

A log is cut where it is archived, so what counts as archived must be on disk. In a directory a file is synced before it
gets its name, and the directory behind that; an object store has an object durably when it answers.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.errors import InputError, MachineError
from isotone.core.ordered_log import LogEntry
from isotone.replicated.archive.places import file_system, require_pyarrow
from isotone.replicated.archive.segments import (
    Segment,
    decode_segment,
    encode_segment,
    entries_of,
    parse_name,
    segment_of,
)

COMPACT_RECORDS_MAX = 262_144
COMPACT_BYTES_MAX = 256 * 1024 * 1024
"""Segments are joined up to so many records and so many bytes of their files."""
HIDDEN, JOINING = ".", ".joining-"
"""A file begins so while it is written; a joined one in another way, since a writer removes only those of writers."""


class Listing(msgspec.Struct, frozen=True):
    """The segments that hold the archive, in order and without overlaps, and those that they make needless.

    ``unfinished``: files that somebody writes, or that a writer left when it was killed.
    """

    segments: tuple[Segment, ...]
    needless: tuple[Segment, ...] = ()
    unfinished: tuple[str, ...] = ()

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
        self._files, self._root = file_system(self.uri, credential_file)
        self._synced: set[Segment] = set()

    def listing(self) -> Listing:
        """What is there; an `InputError` for a gap, and for segments that overlap or contradict each other."""
        arrow = require_pyarrow()
        with self._told("list"):
            selector = arrow.fs.FileSelector(self._root, allow_not_found=True)
            names = [each.base_name for each in self._files.get_file_info(selector) if each.is_file]
        found = arranged((parse_name(name) for name in names), self.uri)
        return msgspec.structs.replace(found, unfinished=tuple(name for name in names if name.startswith(HIDDEN)))

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
        """Write these entries as one segment, durably; nobody ever sees a part of it. One that is there stays."""
        segment = segment_of(entries)
        self._put(segment, encode_segment(entries), HIDDEN)
        return segment

    def _put(self, segment: Segment, data: bytes, prefix: str) -> None:
        with self._told(f"write {segment.name} to"):
            self._files.create_dir(self._root, recursive=True)
        if not self._has(segment):
            hidden = f"{self._root}/{prefix}{segment.name}.{uuid.uuid4().hex}"
            try:
                with self._told(f"write {segment.name} to"):
                    with self._files.open_output_stream(hidden) as file:
                        file.write(data)
                    self._sync_path(hidden)
                    self._files.move(hidden, self._path(segment))
            except MachineError:
                with suppress(OSError):
                    self._files.delete_file(hidden)  # what could not be synced may never be
                if not self._has(segment):  # another writer may have written it, and removed ours
                    raise
        self.sync([segment])

    def _has(self, segment: Segment) -> bool:
        with self._told(f"look for {segment.name} in"):
            kind = self._files.get_file_info(self._path(segment)).type
        return bool(kind == require_pyarrow().fs.FileType.File)

    def sync(self, segments: Iterable[Segment]) -> None:
        """Return when these are durable, whoever wrote them."""
        with self._told("sync"):
            if wanted := set(segments) - self._synced:
                for segment in wanted:
                    self._sync_path(self._path(segment))
                self._sync_path(self._root)
                if not self._synced:
                    self._sync_parents()
                self._synced |= wanted

    def _sync_parents(self) -> None:
        """The directory itself may be new, and some above it."""
        for folder in Path(self._root).parents:
            with suppress(PermissionError):
                self._sync_path(str(folder))

    def _sync_path(self, path: str) -> None:
        """A file or a directory of this machine."""
        if self._files.type_name != "local":
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, segment: Segment) -> None:
        """Remove the file of a segment."""
        with self._told(f"remove {segment.name} from"):
            self._files.delete_file(self._path(segment))
        self._synced.discard(segment)

    def remove_unfinished(self, listing: Listing) -> None:
        """Remove what killed writers left of segments that are there by now.

        A writer that is alive and meant to write the same finds it written.
        """
        for name in listing.unfinished:
            segment = parse_name(name.removeprefix(HIDDEN).rpartition(".")[0])
            if segment is not None and segment.last <= listing.end:
                self._remove_hidden(name)

    def _remove_hidden(self, name: str) -> None:
        with suppress(FileNotFoundError):  # its writer has given it its name
            self._files.delete_file(f"{self._root}/{name}")

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
        for name in listing.unfinished:
            if name.startswith(JOINING):
                self._remove_hidden(name)
        for run in self._runs(listing.segments):
            entries = [entry for segment in run for entry in entries_of(self.read(segment))]
            self._put(segment_of(entries), encode_segment(entries), JOINING)
            joined, made = joined + len(run), made + 1
            for segment in run:
                self.remove(segment)
                advance(segment.name)
        if listing.needless:
            self.sync(self.listing().segments)
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
