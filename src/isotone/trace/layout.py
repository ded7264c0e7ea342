"""Where traces lie: one directory per run, one file per part of one incarnation's record.

``DIR/<run>/<node>-<incarnation>-<part>.parquet`` or ``.spool``. Odd characters are percent-encoded, a leading dot too,
and the empty name (the node of whoever drives the faults) is a lone ``%``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

import msgspec

from isotone.core.errors import InputError
from isotone.trace.events import TRACE_VERSION, Row

SPOOL_SUFFIX = ".spool"
PARQUET_SUFFIX = ".parquet"
JSONL_SUFFIX = ".jsonl"
TEMPORARY_SUFFIX = ".tmp"
SUFFIXES = (JSONL_SUFFIX, PARQUET_SUFFIX, SPOOL_SUFFIX)

Natural = Annotated[int, msgspec.Meta(ge=0)]
"""Checked where it is decoded."""


class PartHeader(msgspec.Struct, frozen=True):
    """Which part of which record a file holds, and under which promise it was written.

    ``level`` is the writer's (see `isotone.trace.writer.Level`); ``boot`` names the run of the operating system, so
    that a reader can tell the death of a process from that of its machine, and ``writer`` the process.
    """

    run: str
    node: str
    incarnation: Natural
    part: Natural
    level: str
    boot: str = ""
    version: int = TRACE_VERSION
    writer: str = ""


class Tail(msgspec.Struct, frozen=True):
    """How a file ended: ``closed`` by its writer, and what is damaged at its end, if anything is."""

    closed: bool
    problem: str = ""


def check_place(path: Path, header: PartHeader, row: Row, last: int) -> None:
    """Refuse a row that does not belong into this part, or not behind the row with the index ``last``."""
    if (row.node, row.incarnation) != (header.node, header.incarnation):
        raise InputError(f"{path}: a row of {row.node!r}#{row.incarnation} in a part of another record")
    if row.index <= last:
        raise InputError(f"{path}: row {row.index} stands behind row {last}")


def run_name(name: str, identity: str = "") -> str:
    """What a run is called in its records; with an identity two clusters of one name are two runs."""
    return f"{name}@{identity}" if identity else name


def part_path(directory: Path, header: PartHeader, suffix: str) -> Path:
    """The file of a part."""
    name = f"{_escape(header.node)}-{header.incarnation}-{header.part:06d}{suffix}"
    return directory / _escape(header.run) / name


def header_of_path(path: Path) -> PartHeader | None:
    """What the name alone tells about a part whose header was never finished."""
    node, _, rest = path.stem.rpartition("-")
    node, _, incarnation = node.rpartition("-")
    if not (incarnation.isdecimal() and rest.isdecimal()):
        return None
    return PartHeader(_unescape(path.parent.name), _unescape(node), int(incarnation), int(rest), level="")


def parts_of(directory: Path, run: str, node: str, incarnation: int) -> list[Path]:
    """All files of one record, parts in order; of the same part the Parquet file first."""
    found = [path for path in _files(directory, run) if path.suffix in (PARQUET_SUFFIX, SPOOL_SUFFIX)]
    headers = [(header_of_path(path), path) for path in found]
    return [path for header, path in headers if header and (header.node, header.incarnation) == (node, incarnation)]


def temporary_path(target: Path) -> Path:
    """Where a file is written before it has its name; readers look past names that begin with a dot."""
    return target.with_name(f".{target.name}{TEMPORARY_SUFFIX}")


def stale_files(directory: Path, run: str, node: str) -> list[Path]:
    """What rotations of this node that were killed left behind."""
    found = [path for path in _files(directory, run) if path.suffix == TEMPORARY_SUFFIX]
    headers = [(header_of_path(path.with_name(path.stem.removeprefix("."))), path) for path in found]
    return [path for header, path in headers if header and header.node == node]


def files_of_runs(directory: Path) -> Iterator[Path]:
    """What lies in the directories of all runs; one that somebody removes meanwhile is left out."""
    for place, folders, names in os.walk(directory):
        if Path(place) != directory:
            folders.clear()
            yield from (Path(place, name) for name in names)


def _files(directory: Path, run: str) -> list[Path]:
    folder = directory / _escape(run)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def sync_directory(directory: Path) -> None:
    """Make renames within the directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _escape(name: str) -> str:
    if not name:
        return "%"
    quoted = quote(name, safe="")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


def _unescape(name: str) -> str:
    return "" if name == "%" else unquote(name)
