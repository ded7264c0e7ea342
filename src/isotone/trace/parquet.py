"""Traces as Parquet: what pipelines read, and what spools become. Needs the extra ``isotone[trace]``.

A file is a part of one record (a rotated spool; its `PartHeader` and how it ended stand in the file's metadata) or a
whole trace of many nodes, which is taken at its word. Other programs may write files too, so a file's columns, their
types and every row are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.errors import InputError, MachineError
from isotone.trace import digest
from isotone.trace.batches import Batches
from isotone.trace.columns import COLUMNS, columns_of, entry_of
from isotone.trace.dense import Indices
from isotone.trace.events import TRACE_VERSION, Row
from isotone.trace.layout import PartHeader, Tail, check_place
from isotone.trace.vocabulary import check_version

BATCH_ROWS = 8192
TAKEN_ROWS = 1024
"""Of a batch, so many are objects at a time: a file of each node is open while they are merged."""
BATCH_MESSAGES = 65536
"""Of the rows that are turned into columns at a time: a row of a bundle has a length and a digest for each."""
_VERSION_KEY = b"isotone_trace"
_RUN_KEY = b"isotone_run"
_PART_KEY = b"isotone_part"
_CLOSED_KEY = b"isotone_closed"
_PROBLEM_KEY = b"isotone_problem"
_VERSION_DIGITS_MAX = 9


def require_pyarrow() -> Any:
    """The library, or what to do about its absence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MachineError("traces in Parquet need pyarrow: install isotone[trace]") from None
    return pyarrow


def has_pyarrow() -> bool:
    """Whether it is installed; without loading it, which takes longer than the rest of a daemon's start."""
    return find_spec("pyarrow") is not None


@lru_cache(maxsize=1)
def schema() -> Any:
    """The Arrow schema, from the same table as the documentation."""
    arrow = require_pyarrow()
    simple = {
        "string": arrow.string(),
        "int32": arrow.int32(),
        "int64": arrow.int64(),
        "list<string>": arrow.list_(arrow.string()),
        "list<int32>": arrow.list_(arrow.int32()),
        "list<uint64>": arrow.list_(arrow.uint64()),
    }
    return arrow.schema([(name, simple.get(type) or _struct(arrow, type)) for name, type in COLUMNS.items()])


def _struct(arrow: Any, type: str) -> Any:
    fields = type.removeprefix("struct<").removesuffix(">").split(", ")
    pairs = [field.split(": ") for field in fields]
    return arrow.struct([(name, arrow.int64() if form == "int64" else arrow.string()) for name, form in pairs])


def write_parquet(path: Path, run: str, rows: Iterable[Row]) -> None:
    """Write a whole trace, of any number of nodes, in the order given."""
    write_file(path, run, rows, {})


def write_part(path: Path, header: PartHeader, rows: Iterable[Row], tail_of: Callable[[], Tail]) -> None:
    """Write one part of a record; ``tail_of()`` is asked after the last row how it ended."""
    write_file(path, header.run, rows, {_PART_KEY: msgspec.json.encode(header)}, tail_of)


def _whole() -> Tail:
    return Tail(closed=True)


def write_file(
    path: Path,
    run: str,
    rows: Iterable[Row],
    metadata: Mapping[bytes, bytes],
    tail_of: Callable[[], Tail] = _whole,
) -> None:
    """Stream the rows in batches; the metadata is complete only when the file is."""
    arrow = require_pyarrow()
    version = str(TRACE_VERSION).encode()
    described = schema().with_metadata({**metadata, _VERSION_KEY: version, _RUN_KEY: run.encode()})
    with arrow.parquet.ParquetWriter(path, described, compression="zstd") as writer:
        for batch in _batches(rows):
            writer.write_batch(_batch(arrow, run, batch))
        tail = tail_of()
        ended = {_CLOSED_KEY: b"1" if tail.closed else b"0", _PROBLEM_KEY: tail.problem.encode()}
        writer.add_key_value_metadata({**ended, digest.KEY: digest.NONE})
    digest.seal(path)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """As many rows as columns are made of at a time; so memory is bounded, however many messages a row stands for."""
    batch: list[Row] = []
    messages = 0
    for row in rows:
        batch.append(row)
        messages += len(getattr(row.entry, "lengths", ()))
        if len(batch) >= BATCH_ROWS or messages >= BATCH_MESSAGES:
            yield batch
            batch, messages = [], 0
    if batch:
        yield batch


def _batch(arrow: Any, run: str, rows: list[Row]) -> Any:
    filled = [columns_of(row.entry) for row in rows]
    columns: dict[str, list[Any]] = {name: [columns.get(name) for columns in filled] for name in COLUMNS}
    columns["run"] = [run] * len(rows)
    columns["version"] = [TRACE_VERSION] * len(rows)
    for name in ("node", "incarnation", "index", "at"):
        columns[name] = [getattr(row, name) for row in rows]
    arrays = [arrow.array(columns[field.name], type=field.type) for field in schema()]
    return arrow.record_batch(arrays, schema=schema())


class ParquetFile:
    """One Parquet file, for reading: ``header`` is None unless it is a part of one record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow = require_pyarrow()
        with self._open() as file, self._damage_named():
            metadata: Mapping[bytes, bytes] = file.metadata.metadata or {}
            check_version(_number(metadata.get(_VERSION_KEY, b"1")), str(path))
            _check_schema(path, file.schema_arrow)
            self._run = metadata[_RUN_KEY].decode() if _RUN_KEY in metadata else None
            self._is_sealed = digest.KEY in metadata
        self.header = _header(path, metadata)
        problem = metadata.get(_PROBLEM_KEY, b"").decode(errors="replace")
        self.tail = Tail(closed=metadata.get(_CLOSED_KEY, b"1") == b"1", problem=problem)

    def check_seal(self) -> None:
        """Before rows are read: every byte is as it was written, if the writer left a checksum."""
        try:
            digest.check_seal(self.path)
        except OSError as error:
            raise InputError(f"{self.path}: not a readable Parquet file: {error}") from None

    def runs(self) -> list[str]:
        """The runs that the file has rows of, sorted."""
        if self._run is not None:
            return [self._run]
        self.check_seal()
        found: set[str] = set()
        with self._open() as file, self._damage_named():
            for batch in file.iter_batches(BATCH_ROWS, columns=["run"]):
                found.update(batch.column("run").to_pylist())
        if None in found:
            raise InputError(f"{self.path}: a row without run")
        return sorted(found)

    def rows(self, run: str | None = None) -> Iterator[Row]:
        """The rows, of one run if it is named, in the order of the file."""
        self.check_seal()
        seen: dict[tuple[str, int], Indices] = {}
        last = -1
        batches = Batches(self._arrow)
        with self._open() as file, self._damage_named():
            for batch in file.iter_batches(BATCH_ROWS, columns=list(COLUMNS)):
                for row in self._rows_of(batches, batch, run):
                    if self.header is not None:
                        check_place(self.path, self.header, row, last)
                        last = row.index
                    else:
                        self._check_new(row, seen)
                    yield row

    def places(self, run: str) -> Iterator[tuple[str, int, int]] | None:
        """Node, incarnation and index of each row of a run, without reading the rest.

        None if only reading all of a file tells that it can be read: nobody sealed it.
        """
        if not self._is_sealed:
            return None
        self.check_seal()
        return self._places(run)

    def _places(self, run: str) -> Iterator[tuple[str, int, int]]:
        with self._open() as file, self._damage_named():
            for batch in file.iter_batches(BATCH_ROWS, columns=["run", "node", "incarnation", "index"]):
                runs, *places = (batch.column(name).to_pylist() for name in ("run", "node", "incarnation", "index"))
                yield from (place for found, *place in zip(runs, *places) if found == run)  # type: ignore[misc]

    def _rows_of(self, batches: Batches, batch: Any, run: str | None) -> Iterator[Row]:
        """All columns at a time where they are in order; else one row after the other, to say what is not."""
        wanted = run if self._run is None else self._run
        is_quick = wanted is not None and run in (None, wanted)
        for start in range(0, batch.num_rows, TAKEN_ROWS):
            part = batch.slice(start, TAKEN_ROWS)
            found = batches.rows(part, str(wanted)) if is_quick else None
            yield from self._one_by_one(part, run) if found is None else found

    def _one_by_one(self, batch: Any, run: str | None) -> Iterator[Row]:
        for columns in batch.to_pylist():
            if self._is_of(columns["run"], run):
                yield self._row(columns)

    def _is_of(self, found: str | None, run: str | None) -> bool:
        """Whether a row of the run ``found`` is asked for; one that contradicts the file is refused, never dropped."""
        if found is None or (self._run is not None and found != self._run):
            raise InputError(f"{self.path}: a row of the run {found!r}, in a file of {self._run!r}")
        return run is None or found == run

    def _check_new(self, row: Row, seen: dict[tuple[str, int], Indices]) -> None:
        record = (row.node, row.incarnation)
        if record not in seen:
            seen[record] = Indices()
        if not seen[record].add(row.index):
            raise InputError(f"{self.path}: a second row {row.index} of {row.node!r}#{row.incarnation}")

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowException, OSError, ValueError, OverflowError) as error:
            raise InputError(f"{self.path}: damaged: {error}") from None

    def _open(self) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(self.path)
        except (self._arrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{self.path}: not a readable Parquet file: {error}") from None

    def _row(self, columns: Mapping[str, Any]) -> Row:
        check_version(columns["version"], str(self.path))
        try:
            header = [columns[name] for name in ("node", "incarnation", "index", "at")]
            if None in header:
                raise InputError("a row without node, incarnation, index or at")
            node, incarnation, index, at = header
            if min(incarnation, index, at) < 0:
                raise InputError(f"incarnation, index and at are numbers from 0: {incarnation}, {index}, {at}")
            return Row(node, incarnation, index, at, entry_of(columns))
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


def _header(path: Path, metadata: Mapping[bytes, bytes]) -> PartHeader | None:
    if _PART_KEY not in metadata:
        return None
    try:
        header = msgspec.json.decode(metadata[_PART_KEY], type=PartHeader)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: the description of the part is wrong: {error}") from None
    check_version(header.version, str(path))
    return header


def _check_schema(path: Path, found: Any) -> None:
    """The columns are exactly ours, in any order: what is more or of another type was not written for this reader."""
    missing = [name for name in COLUMNS if name not in found.names]
    if missing:
        raise InputError(f"{path}: not a trace: columns missing: {', '.join(missing)}")
    unknown = sorted(set(found.names) - set(COLUMNS))
    if unknown or len(found.names) != len(COLUMNS):
        raise InputError(f"{path}: not a trace: columns unknown or twice: {', '.join(unknown or found.names)}")
    for field in schema():
        form = found.field(field.name).type
        if form != field.type:
            raise InputError(f"{path}: not a trace: the column {field.name!r} is {form}, not {field.type}")


def _number(text: bytes) -> int | str:
    if text.isdigit() and len(text) <= _VERSION_DIGITS_MAX:
        return int(text)
    return text[: 2 * _VERSION_DIGITS_MAX].decode(errors="replace")
