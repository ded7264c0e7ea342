"""The files of a log, and what was found in them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

SUFFIX = ".segment"


class Segment(msgspec.Struct):
    """One file of a log."""

    index: int
    path: Path
    size: int
    next: int  # the number of the next record when the file began


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where the body of a record is."""

    segment: int
    offset: int
    length: int
    checksum: int


class Found(msgspec.Struct):
    """A log as it was found."""

    log: str
    directory: Path
    first: int = 1
    next: int = 1
    operation: int = 0
    synced: int = 0
    records: dict[int, bytes] = {}  # those that are good
    bad: dict[int, Place] = {}  # damaged ones of which it is known where they stood
    segments: list[Segment] = []
    end: tuple[int, int] = (0, 0)  # the segment and the offset behind the last frame that counts
    torn_bytes: int = 0
    torn_files: tuple[Path, ...] = ()
    problems: list[str] = []

    @property
    def damaged(self) -> tuple[int, ...]:
        """The numbers of records that are missing."""
        return tuple(number for number in range(self.first, self.next) if number not in self.records)


def escape(log: str) -> str:
    """The name of a log's directory."""
    name = quote(log, safe="") or "%"
    return f"%2E{name[1:]}" if name.startswith(".") else name


def unescape(name: str) -> str:
    """The log of a directory."""
    return "" if name == "%" else unquote(name)


def segment_path(directory: Path, index: int) -> Path:
    """The file of a segment."""
    return directory / f"{index:016d}{SUFFIX}"


def segment_paths(directory: Path) -> list[tuple[int, Path]]:
    """All segments of a log, in order."""
    paths = [path for path in directory.glob(f"*{SUFFIX}") if path.stem.isdecimal()]
    return sorted((int(path.stem), path) for path in paths)
