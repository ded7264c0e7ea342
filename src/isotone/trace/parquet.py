"""Traces as Parquet: what pipelines read, and what spools become. Needs the extra ``isotone[trace]``.

A file is a part of one record (a rotated spool; its `PartHeader` and whether the writer closed it stand in the file's
metadata) or a whole trace of many nodes, which is taken at its word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.errors import InputError, MachineError
from isotone.trace.columns import COLUMNS, columns_of, entry_of
from isotone.trace.events import TRACE_VERSION, Row
from isotone.trace.layout import PartHeader, Tail
from isotone.trace.vocabulary import check_version

BATCH_ROWS = 8192
_VERSION_KEY = b"isotone_trace"
_RUN_KEY = b"isotone_run"
_PART_KEY = b"isotone_part"
_CLOSED_KEY = b"isotone_closed"


def require_pyarrow() -> Any:
    """The library, or what to do about its absence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MachineError("traces in Parquet need pyarrow: install isotone[trace]") from None
    return pyarrow


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
    """Write one part of a record; ``tail_of()`` is asked after the last row whether the writer had closed it."""
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
    left = iter(rows)
    with arrow.parquet.ParquetWriter(path, described, compression="zstd") as writer:
        while batch := list(islice(left, BATCH_ROWS)):
            writer.write_batch(_batch(arrow, run, batch))
        writer.add_key_value_metadata({_CLOSED_KEY: b"1" if tail_of().closed else b"0"})


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
        with self._open() as file:
            metadata: Mapping[bytes, bytes] = file.metadata.metadata or {}
            present = file.schema_arrow.names
        missing = [name for name in COLUMNS if name not in present]
        if missing:
            raise InputError(f"{path}: not a trace: columns missing: {', '.join(missing)}")
        check_version(_number(metadata.get(_VERSION_KEY, b"1")), str(path))
        self.header = _header(path, metadata)
        self._run = metadata[_RUN_KEY].decode() if _RUN_KEY in metadata else None
        self.tail = Tail(closed=metadata.get(_CLOSED_KEY, b"1") == b"1")

    def runs(self) -> list[str]:
        """The runs that the file has rows of, sorted."""
        if self._run is not None:
            return [self._run]
        found: set[str] = set()
        with self._open() as file, self._damage_named():
            for batch in file.iter_batches(BATCH_ROWS, columns=["run"]):
                found.update(run or "" for run in batch.column("run").to_pylist())
        return sorted(found)

    def rows(self, run: str | None = None) -> Iterator[Row]:
        """The rows, of one run if it is named, in the order of the file."""
        with self._open() as file, self._damage_named():
            for batch in file.iter_batches(BATCH_ROWS, columns=list(COLUMNS)):
                for columns in batch.to_pylist():
                    if run is None or columns["run"] == run:
                        yield self._row(columns)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowException, OSError) as error:
            raise InputError(f"{self.path}: damaged: {error}") from None

    def _open(self) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(self.path)
        except (self._arrow.ArrowException, OSError) as error:
            raise InputError(f"{self.path}: not a readable Parquet file: {error}") from None

    def _row(self, columns: Mapping[str, Any]) -> Row:
        check_version(columns["version"], str(self.path))
        try:
            header = [columns[name] for name in ("node", "incarnation", "index", "at")]
            if None in header:
                raise InputError("a row without node, incarnation, index or at")
            node, incarnation, index, at = header
            return Row(node, incarnation, index, at, entry_of(columns))
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


def _header(path: Path, metadata: Mapping[bytes, bytes]) -> PartHeader | None:
    if _PART_KEY not in metadata:
        return None
    try:
        return msgspec.json.decode(metadata[_PART_KEY], type=PartHeader)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: the description of the part is wrong: {error}") from None


def _number(text: bytes) -> int | str:
    return int(text) if text.isdigit() else text.decode(errors="replace")
