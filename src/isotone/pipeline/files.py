"""One trace file, in a task: its rows as Arrow batches of the bronze schema, and what is wrong with it as a row.

Runs on workers. Parquet is passed on as it is, column by column; the other forms go through their readers.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import isotone.spec.check.layers  # noqa: F401  a worker knows the kinds of rows that it has loaded
from isotone.core.errors import InputError
from isotone.pipeline.file_checks import good_rows
from isotone.pipeline.schema import PART, PROBLEM, RUN
from isotone.pipeline.spans import Spans
from isotone.trace.columns import COLUMNS, columns_of
from isotone.trace.events import TRACE_VERSION, Row
from isotone.trace.jsonl import read_jsonl
from isotone.trace.layout import JSONL_SUFFIX, PARQUET_SUFFIX, PartHeader, Tail, header_of_path, parts_of
from isotone.trace.parquet import BATCH_ROWS, ParquetFile, require_pyarrow, schema
from isotone.trace.process import has_died
from isotone.trace.spool import SpoolPart, rotated_path

_MISREAD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, OSError)


def read_chunks(batches: Iterable[Any]) -> Iterator[Any]:
    """Bronze batches for chunks of files: columns ``path``, ``first`` and ``last`` (row groups, where there are)."""
    for batch in batches:
        for chunk in batch.to_pylist():
            yield from _read(Path(chunk["path"]), chunk["first"], chunk["last"])


def read_notes(batches: Iterable[Any]) -> Iterator[Any]:
    """The same without the rows: what is told of the files. They are read to the end all the same."""
    for batch in read_chunks(batches):
        if _is_note(batch):
            yield batch


def _is_note(batch: Any) -> bool:
    return batch.num_rows > 0 and str(batch["kind"][0]).startswith("_")


def _read(path: Path, first: int, last: int) -> Iterator[Any]:
    spans = Spans()
    is_part = False
    for batch in _rows(path, first, last):
        if batch.num_rows and not _is_note(batch):
            is_part = batch["is_part"][0].as_py()
            spans.add(batch)
        yield batch
    if not is_part and spans.are_doubled():
        yield _note(path, PROBLEM, reason=f"{path}: a second row of one index")
    columns = spans.columns()
    if columns["run"]:
        yield _notes(path, columns, is_part=is_part)


def _rows(path: Path, first: int, last: int) -> Iterator[Any]:
    """Batches of rows and of notes."""
    try:
        if path.suffix == PARQUET_SUFFIX:
            yield from _read_parquet(path, path, first, last)
        elif path.suffix == JSONL_SUFFIX:
            lines = read_jsonl(path)
            yield _note(path, RUN, run=lines.run)
            yield from _batches(path, lines.run, lines.rows(), is_part=False)
        else:
            yield from _read_spool(path)
    except InputError as error:
        yield _note(path, PROBLEM, reason=str(error))
    except _MISREAD as error:
        yield _note(path, PROBLEM, reason=f"{path}: {type(error).__name__}: {error}")


def _read_spool(path: Path) -> Iterator[Any]:
    try:
        part = SpoolPart(path)
        about = _about(path, part.header)  # before its rows are read: if its writer is dead, all of them are there
        try:
            yield from _batches(path, part.header.run, part.rows(), is_part=True)
        except InputError:
            yield _told(path, part.header, about, part.tail, is_spool=True)
            raise
        yield _told(path, part.header, about, part.tail, is_spool=True)
    except FileNotFoundError:  # a live writer has rotated it since it was listed
        if not rotated_path(path).exists():
            raise InputError(f"{path}: no such file") from None
        yield from _read_parquet(rotated_path(path), path, 0, None)


def _batches(path: Path, run: str, rows: Iterator[Row], *, is_part: bool) -> Iterator[Any]:
    """Up to where the rows cannot be read, if so."""
    failure: Exception | None = None
    while failure is None:
        some: list[Row] = []
        try:
            some.extend(islice(rows, BATCH_ROWS))
        except (InputError, *_MISREAD) as error:
            failure = error
        if not some:
            break
        filled = [columns_of(row.entry) for row in some]
        columns: dict[str, list[Any]] = {name: [each.get(name) for each in filled] for name in COLUMNS}
        columns |= {name: [getattr(row, name) for row in some] for name in ("node", "incarnation", "index", "at")}
        columns |= {"run": [run] * len(some), "version": [TRACE_VERSION] * len(some)}
        yield _bronze(path, columns, is_part=is_part)
    if failure is not None:
        raise failure


def _bronze(path: Path, columns: dict[str, list[Any]], *, is_part: bool) -> Any:
    arrow = require_pyarrow()
    count = len(columns["run"])
    arrays = {field.name: arrow.array(columns[field.name], type=field.type) for field in schema()}
    return _finished(path, arrays, count, is_part=is_part)


def _finished(path: Path, arrays: dict[str, Any], count: int, *, is_part: bool) -> Any:
    arrow = require_pyarrow()
    arrays["digests"] = _signed(arrays["digests"])
    arrays["file"] = arrow.repeat(str(path), count)
    arrays["is_part"] = arrow.repeat(is_part, count)
    return arrow.RecordBatch.from_pydict(arrays)


def _signed(digests: Any) -> Any:
    """The same bits as signed numbers, for Spark has no others."""
    arrow = require_pyarrow()
    values = digests.values.view(arrow.int64())
    return arrow.ListArray.from_arrays(digests.offsets, values, mask=digests.is_null())


def _note(
    path: Path, kind: str, *, run: str = "", header: PartHeader | None = None, reason: str = "", extra: str = ""
) -> Any:
    columns: dict[str, list[Any]] = {"run": [run], "node": [""], "incarnation": [0], "index": [-1], "at": [0]}
    columns |= {"kind": [kind], "reason": [reason], "extra": [extra]}
    if header is not None:
        columns |= {"run": [header.run], "node": [header.node], "incarnation": [header.incarnation]}
    return _notes(path, columns, is_part=header is not None)


def _notes(path: Path, columns: dict[str, list[Any]], *, is_part: bool) -> Any:
    """Rows that tell something of a file; columns that are not given are empty."""
    count = len(columns["run"])
    blank: dict[str, list[Any]] = {name: [None] * count for name in COLUMNS}
    return _bronze(path, blank | columns | {"version": [TRACE_VERSION] * count}, is_part=is_part)


def _about(path: Path, header: PartHeader) -> dict[str, Any]:
    """What is known of a part before it is read: its place, its promise, and what else there is of the record."""
    named = header_of_path(path)
    there = map(header_of_path, parts_of(path.parent.parent, header.run, header.node, header.incarnation))
    return {
        "part": header.part,
        "level": header.level,
        "boot": header.boot,
        "died": has_died(header),
        "number": named.part if named is not None else None,
        "there": sorted({each.part for each in there if each is not None}),
    }


def _told(path: Path, header: PartHeader, about: dict[str, Any], tail: Tail, *, is_spool: bool) -> Any:
    ended = {"closed": tail.closed, "problem": tail.problem, "spool": is_spool}
    return _note(path, PART, header=header, extra=json.dumps(about | ended))


# --- Parquet -------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, listed: Path, first: int, last: int | None) -> Iterator[Any]:
    """Row groups from ``first`` up to ``last``, or all; ``listed`` is the name under which it was found."""
    arrow = require_pyarrow()
    opened = ParquetFile(path)  # checks version and columns
    header = opened.header
    if first == 0 and header is not None:
        yield _told(listed, header, _about(path, header), opened.tail, is_spool=False)
    with arrow.parquet.ParquetFile(path) as file:
        groups = range(first, file.num_row_groups if last is None else min(last, file.num_row_groups))
        named = (file.metadata.metadata or {}).get(b"isotone_run")
        if first == 0 and named is not None:
            yield _note(listed, RUN, run=named.decode())
        opened.check_seal()
        try:
            index = _index_before(file, first) if header is not None else -1
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(COLUMNS)):
                good, problem = good_rows(path, batch, named, header, index)
                arrays = {name: good.column(name) for name in good.schema.names}
                yield _finished(listed, arrays, good.num_rows, is_part=header is not None)
                if problem:
                    raise InputError(problem)
                index = good.column("index")[-1].as_py() if good.num_rows else index
        except arrow.ArrowException as error:
            raise InputError(f"{path}: damaged: {error}") from None


def _index_before(file: Any, group: int) -> int:
    """The index of the last row before this row group of a part, whose rows stand in order; -1 where nothing tells."""
    if group == 0:
        return -1
    before = file.metadata.row_group(group - 1)
    told = [before.column(place) for place in range(before.num_columns)]
    found = next(each.statistics for each in told if each.path_in_schema == "index")
    return int(found.max) if found is not None and found.has_min_max else -1
