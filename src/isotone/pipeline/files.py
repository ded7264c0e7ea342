"""One trace file, in a task: its rows as Arrow batches of the bronze schema, and what is wrong with it as a row.

Runs on workers. Parquet is passed on as it is, column by column; the other forms go through their readers.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import isotone.trace.corel  # noqa: F401  a worker knows the kinds of rows that it has loaded
from isotone.core.errors import InputError
from isotone.pipeline.schema import PART, PROBLEM
from isotone.pipeline.spans import Spans
from isotone.trace.columns import COLUMNS, columns_of
from isotone.trace.events import TRACE_VERSION, Row
from isotone.trace.jsonl import read_jsonl
from isotone.trace.layout import JSONL_SUFFIX, PARQUET_SUFFIX, PartHeader, Tail
from isotone.trace.parquet import BATCH_ROWS, ParquetFile, require_pyarrow, schema
from isotone.trace.process import has_died
from isotone.trace.spool import SpoolPart
from isotone.trace.vocabulary import check_version, type_of_kind

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
    columns = spans.columns()
    if columns["run"]:
        yield _notes(path, columns, is_part=is_part)


def _rows(path: Path, first: int, last: int) -> Iterator[Any]:
    """Batches of rows and of notes."""
    try:
        if path.suffix == PARQUET_SUFFIX:
            yield from _read_parquet(path, first, last)
        elif path.suffix == JSONL_SUFFIX:
            lines = read_jsonl(path)
            yield from _batches(path, lines.run, lines.rows(), is_part=False)
        else:
            part = SpoolPart(path)
            yield from _batches(path, part.header.run, part.rows(), is_part=True)
            yield _told(path, part.header, part.tail, is_spool=True)
    except InputError as error:
        yield _note(path, PROBLEM, reason=str(error))
    except _MISREAD as error:
        yield _note(path, PROBLEM, reason=f"{path}: {type(error).__name__}: {error}")


def _batches(path: Path, run: str, rows: Iterator[Row], *, is_part: bool) -> Iterator[Any]:
    while some := list(islice(rows, BATCH_ROWS)):
        filled = [columns_of(row.entry) for row in some]
        columns: dict[str, list[Any]] = {name: [each.get(name) for each in filled] for name in COLUMNS}
        columns |= {name: [getattr(row, name) for row in some] for name in ("node", "incarnation", "index", "at")}
        columns |= {"run": [run] * len(some), "version": [TRACE_VERSION] * len(some)}
        yield _bronze(path, columns, is_part=is_part)


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


def _note(path: Path, kind: str, *, header: PartHeader | None = None, reason: str = "", extra: str = "") -> Any:
    columns: dict[str, list[Any]] = {"run": [""], "node": [""], "incarnation": [0], "index": [-1], "at": [0]}
    columns |= {"kind": [kind], "reason": [reason], "extra": [extra]}
    if header is not None:
        columns |= {"run": [header.run], "node": [header.node], "incarnation": [header.incarnation]}
    return _notes(path, columns, is_part=header is not None)


def _notes(path: Path, columns: dict[str, list[Any]], *, is_part: bool) -> Any:
    """Rows that tell something of a file; columns that are not given are empty."""
    count = len(columns["run"])
    blank: dict[str, list[Any]] = {name: [None] * count for name in COLUMNS}
    return _bronze(path, blank | columns | {"version": [TRACE_VERSION] * count}, is_part=is_part)


def _told(path: Path, header: PartHeader, tail: Tail, *, is_spool: bool) -> Any:
    about = {
        "part": header.part,
        "level": header.level,
        "boot": header.boot,
        "died": has_died(header),
        "closed": tail.closed,
        "problem": tail.problem,
        "spool": is_spool,
    }
    return _note(path, PART, header=header, extra=json.dumps(about))


# --- Parquet -------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, first: int, last: int) -> Iterator[Any]:
    arrow = require_pyarrow()
    opened = ParquetFile(path)  # checks version and columns
    if first == 0 and opened.header is not None:
        yield _told(path, opened.header, opened.tail, is_spool=False)
    with arrow.parquet.ParquetFile(path) as file:
        groups = range(first, min(last, file.num_row_groups))
        named = (file.metadata.metadata or {}).get(b"isotone_run")
        try:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(COLUMNS)):
                _check(path, batch, named)
                arrays = {name: batch.column(name) for name in batch.schema.names}
                yield _finished(path, arrays, batch.num_rows, is_part=opened.header is not None)
        except arrow.ArrowException as error:
            raise InputError(f"{path}: damaged: {error}") from None


def _check(path: Path, batch: Any, named: bytes | None) -> None:
    """What the plain reader checks row by row, as far as columns tell."""
    compute = import_module("pyarrow.compute")
    for name in ("run", "version", "node", "incarnation", "index", "at", "kind"):
        if batch.column(name).null_count:
            raise InputError(f"{path}: a row without {name}")
    for name in ("incarnation", "index", "at"):
        if batch.num_rows and compute.min(batch.column(name)).as_py() < 0:
            raise InputError(f"{path}: {name} is a number from 0")
    for version in compute.unique(batch.column("version")).to_pylist():
        check_version(version, str(path))
    for kind in compute.unique(batch.column("kind")).to_pylist():
        type_of_kind(kind)
    runs = compute.unique(batch.column("run")).to_pylist()
    if named is not None and runs not in ([], [named.decode()]):
        raise InputError(f"{path}: rows of the runs {runs!r}, in a file of {named.decode()!r}")
    sizes = [compute.list_value_length(batch.column(name)) for name in ("lengths", "digests")]
    unequal = compute.any(compute.not_equal(*sizes)).as_py()
    if unequal:
        raise InputError(f"{path}: lengths and digests do not pair")
