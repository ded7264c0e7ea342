"""Read traces, from files of any kind, run by run.

Guarantees: each node's rows come in its own order, incarnation by incarnation, index by index, each once; a hole in
the indices is a `Gap`; a record that may go on beyond what was written ends with `Truncated`. Across nodes see
`isotone.trace.merge`. Files that hold a part of one record are streamed; others are loaded, one run at a time.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge as merge_sorted
from pathlib import Path

import msgspec

from isotone.core.errors import InputError
from isotone.trace.dense import dense, is_in_order, nodes_in_order
from isotone.trace.events import Row
from isotone.trace.jsonl import read_jsonl
from isotone.trace.layout import JSONL_SUFFIX, PARQUET_SUFFIX, SPOOL_SUFFIX, SUFFIXES
from isotone.trace.merge import Stream, merge
from isotone.trace.parquet import ParquetFile
from isotone.trace.process import is_alive
from isotone.trace.record import OnUnreadable, Part, node_rows
from isotone.trace.spool import SpoolPart, rotated_path

LOADED_BYTES_MAX = 64 << 20
"""A larger file that is a whole trace is read twice rather than kept in memory; as Parquet it is smaller by far."""
MANIFESTS = "manifests"
DATA = "data"
"""What a table of the pipeline holds; its rows are Parquet too, but of no trace."""


class _Whole(msgspec.Struct):
    """A file that is a trace of any number of nodes."""

    path: Path
    rows: Callable[[], Iterator[Row]]  # reads it anew
    places: Callable[[], Iterator[tuple[str, int, int]] | None] = lambda: None  # of its rows, where that is quicker


class _Run(msgspec.Struct):
    """What there is of one run: parts by node, and whole files."""

    parts: defaultdict[str, list[Part]] = msgspec.field(default_factory=lambda: defaultdict(list))
    wholes: list[_Whole] = []


def read(paths: Iterable[Path], *, skip_unreadable: OnUnreadable | None = None) -> Iterator[Row]:
    """The rows of the one run that these files and directories hold."""
    runs = list(read_runs(paths, skip_unreadable=skip_unreadable))
    if len(runs) != 1:
        names = ", ".join(repr(name) for name, _ in runs) or "none"
        raise InputError(f"one run is needed, found {names}")
    return iter(runs[0][1])


def read_runs(
    paths: Iterable[Path], *, skip_unreadable: OnUnreadable | None = None
) -> Iterator[tuple[str, Iterable[Row]]]:
    """Every run with its rows, runs in the order in which their first files stand.

    A file that cannot be read is an `InputError` that names it, or, given ``skip_unreadable``, a call of that; what it
    leaves out is then a gap or a truncation. The rows of a run can be read once.
    """
    runs: defaultdict[str, _Run] = defaultdict(_Run)
    for path in trace_files(paths):
        try:
            _add(path, runs)
        except InputError as error:
            if skip_unreadable is None:
                raise
            skip_unreadable(path, error)
    for name, run in runs.items():
        yield name, _rows(run, skip_unreadable)


def is_still_written(paths: Iterable[Path]) -> bool:
    """Whether a process of this machine that still runs writes one of these files."""
    for path in trace_files(paths):
        if path.suffix == SPOOL_SUFFIX:
            with suppress(InputError):  # who reads it says so
                header = _open(path).header
                if header is not None and is_alive(header):
                    return True
    return False


def rows_of_run(paths: Sequence[Path], name: str, *, skip_unreadable: OnUnreadable | None = None) -> Iterable[Row]:
    """The rows of one run of these files, read anew."""
    return next((rows for run, rows in read_runs(paths, skip_unreadable=skip_unreadable) if run == name), ())


def trace_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and all trace files below the directories, sorted; hidden files are unfinished ones.

    Tables that the pipeline has put there are left out; links that lead nowhere are not (`require_target`).
    """
    for path in paths:
        if not path.is_dir():
            if path.suffix not in SUFFIXES:
                raise InputError(f"{path}: a trace is named {', '.join(SUFFIXES)}")
            yield path
            continue
        listed = {each for each in _files_below(path) if each.suffix in SUFFIXES and not each.name.startswith(".")}
        for found in sorted(listed):
            if found.is_file() or _is_dangling(found):
                yield found
            elif found.suffix == SPOOL_SUFFIX and (rotated := rotated_path(found)) not in listed and rotated.is_file():
                yield rotated  # a live writer has rotated it since we looked


def require_target(path: Path) -> None:
    """Refuse a link that leads nowhere."""
    if _is_dangling(path):
        raise InputError(f"{path}: a link to a file that is not there")


def _is_dangling(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _files_below(directory: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(directory):
        if _is_table(Path(place), folders):
            folders.clear()
        yield from (Path(place, name) for name in names)


def _is_table(place: Path, folders: Iterable[str]) -> bool:
    """Whether this is a table; somebody's own directory of these names has more than manifests in it."""
    if not {MANIFESTS, DATA}.issubset(folders):
        return False
    _, inner, names = next(os.walk(place / MANIFESTS), ("", [], []))
    return all(name.endswith(".json") or name.startswith(".") for name in (*inner, *names))


def _add(path: Path, runs: defaultdict[str, _Run]) -> None:
    require_target(path)
    if path.suffix == JSONL_SUFFIX:
        runs[read_jsonl(path).run].wholes.append(_Whole(path, lambda: read_jsonl(path).rows()))
        return
    part = _open(path)
    if part.header is not None:
        runs[part.header.run].parts[part.header.node].append(part)
        return
    assert isinstance(part, ParquetFile)
    for run in part.runs():
        runs[run].wholes.append(_Whole(path, partial(part.rows, run), partial(part.places, run)))


def _open(path: Path) -> Part:
    if path.suffix == PARQUET_SUFFIX:
        return ParquetFile(path)
    assert path.suffix == SPOOL_SUFFIX
    try:
        return SpoolPart(path)
    except FileNotFoundError:
        if rotated_path(path).exists():  # a live writer has rotated it since we looked
            return ParquetFile(rotated_path(path))
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _rows(run: _Run, skip_unreadable: OnUnreadable | None) -> Iterator[Row]:
    yield from merge(_streams(run, skip_unreadable))


def _streams(run: _Run, skip_unreadable: OnUnreadable | None) -> list[Stream]:
    if len(run.wholes) == 1 and not run.parts and _is_large(run.wholes[0].path):
        nodes = _nodes_in_order(run.wholes[0], skip_unreadable)
        if nodes is not None:  # it need not be in memory
            return [Stream(nodes, dense(run.wholes[0].rows() if nodes else iter(())))]
    wholes = [_load(each, skip_unreadable) for each in run.wholes]
    if len(wholes) == 1 and not run.parts and is_in_order(wholes[0]):
        # The file's own order is better than what clocks can tell: it has sends before their deliveries.
        return [Stream(frozenset(row.node for row in wholes[0]), dense(wholes[0]))]
    by_node: defaultdict[str, list[Row]] = defaultdict(list)
    for rows in wholes:
        for row in rows:
            by_node[row.node].append(row)
    streams = []
    for node in sorted({*by_node, *run.parts}):
        loaded = sorted(by_node[node], key=_place)
        streamed = node_rows(run.parts.get(node, []), skip_unreadable)
        streams.append(Stream(frozenset((node,)), dense(merge_sorted(loaded, streamed, key=_place))))
    return streams


def _is_large(path: Path) -> bool:
    bytes_max = LOADED_BYTES_MAX // 16 if path.suffix == PARQUET_SUFFIX else LOADED_BYTES_MAX
    return path.exists() and path.stat().st_size > bytes_max


def _nodes_in_order(whole: _Whole, skip_unreadable: OnUnreadable | None) -> frozenset[str] | None:
    """The nodes of a file that can be read to its end, whose rows stand in their order; none if they do not."""
    try:
        places = whole.places()
        return nodes_in_order(places if places is not None else map(_whole_place, whole.rows()))
    except InputError as error:
        if skip_unreadable is None:
            raise
        skip_unreadable(whole.path, error)
        return frozenset()


def _load(whole: _Whole, skip_unreadable: OnUnreadable | None) -> list[Row]:
    try:
        return list(whole.rows())
    except InputError as error:
        if skip_unreadable is None:
            raise
        skip_unreadable(whole.path, error)
        return []


def _whole_place(row: Row) -> tuple[str, int, int]:
    return row.node, row.incarnation, row.index


def _place(row: Row) -> tuple[int, int]:
    return row.incarnation, row.index
