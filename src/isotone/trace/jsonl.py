"""JSON lines: a trace for people and for fixtures.

The first line is a header, ``{"isotone_trace": 1, "run": "…"}``; it may have further keys, which readers of traces
ignore. Then one flat object a line. Empty lines and lines that begin with ``#`` mean nothing. Written by hand,
``incarnation`` may be left out (1), and ``index`` (the next one of that record) and ``at`` (the number of the row in
the file). A file is taken at its word: it is whole, unless it says ``gap`` or ``truncated`` itself. What this module
writes can be told from its beginning: the header says ``"trailer": true`` and the last line is ``{"end": N}`` with the
number of rows. Where that line is missing the file was cut, and every record in it that may go on ends `Truncated`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.errors import InputError
from isotone.trace.dense import Indices, index_after
from isotone.trace.events import TRACE_VERSION, Crashed, Row, Truncated
from isotone.trace.layout import temporary_path
from isotone.trace.vocabulary import check_version, entry_of_plain, plain_of

VERSION_KEY = "isotone_trace"
CUT = "the file was cut"
_NUMBER_MAX = (1 << 63) - 1
_TRAILER_KEY = "trailer"
_END_KEY = "end"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class JsonLines:
    """One file of JSON lines, for reading; ``header`` is the whole object of its first line."""

    def __init__(self, name: str, lines: Iterable[bytes | str]) -> None:
        self.name = name
        self._lines = _objects(name, lines)
        self.header = next((header for _, header in self._lines), {})
        if VERSION_KEY not in self.header:
            raise InputError(f'{name}: the first line of a trace is {{"{VERSION_KEY}": {TRACE_VERSION}, "run": "…"}}')
        check_version(self.header[VERSION_KEY], name)
        run = self.header.get("run", "")
        if not isinstance(run, str):
            raise InputError(f"{name}: the run is a text, not {run!r}")
        self.run = run
        self._has_trailer = self.header.get(_TRAILER_KEY) is True

    def rows(self) -> Iterator[Row]:
        """The rows in the order of the file; can be read once."""
        next_index: dict[tuple[str, int], int] = {}
        seen: dict[tuple[str, int], Indices] = {}
        last: dict[tuple[str, int], Row] = {}
        for count, (line, plain) in enumerate(self._lines):
            if self._has_trailer and plain.keys() == {_END_KEY}:
                self._check_end(line, plain[_END_KEY], count)
                return
            try:
                row = _row(plain, next_index, count)
            except InputError as error:
                raise InputError(f"{self.name}:{line}: {error}") from None
            record = (row.node, row.incarnation)
            if record not in seen:
                seen[record] = Indices()
            if not seen[record].add(row.index):
                raise InputError(f"{self.name}:{line}: a second row {row.index} of {row.node!r}#{row.incarnation}")
            if record not in last or row.index > last[record].index:
                last[record] = row
            yield row
        if self._has_trailer:
            yield from _cut(last)

    def _check_end(self, line: int, end: Any, count: int) -> None:
        if type(end) is not int or end != count:
            raise InputError(f"{self.name}:{line}: {count} rows, and the end says {end!r}")
        for behind, _ in self._lines:
            raise InputError(f"{self.name}:{behind}: a line behind the end")


def read_jsonl(path: Path) -> JsonLines:
    """A file of JSON lines; its rows are read as they are asked for."""
    return JsonLines(str(path), _lines(path))


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def write_jsonl(path: Path, run: str, rows: Iterable[Row], **more: object) -> None:
    """Write a whole trace, or nothing; ``more`` goes into the header. A pipe or device is written as it comes."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.writelines(jsonl_lines(run, rows, **more))
        return
    temporary = temporary_path(target)
    try:
        with temporary.open("wb") as file:
            file.writelines(jsonl_lines(run, rows, **more))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def jsonl_lines(run: str, rows: Iterable[Row], **more: object) -> Iterator[bytes]:
    """The lines of a trace, each with its end of line; equal traces are equal bytes."""
    yield _encode({VERSION_KEY: TRACE_VERSION, "run": run, **more, _TRAILER_KEY: True}) + b"\n"
    count = 0
    for row in rows:
        yield jsonl_line(row) + b"\n"
        count += 1
    yield _encode({_END_KEY: count}) + b"\n"


def jsonl_line(row: Row) -> bytes:
    """One row, for a file or for a person's eyes."""
    header = {"node": row.node, "incarnation": row.incarnation, "index": row.index, "at": row.at}
    return _encode(header | plain_of(row.entry))


def _cut(last: Mapping[tuple[str, int], Row]) -> Iterator[Row]:
    for (node, incarnation), row in sorted(last.items()):
        if not isinstance(row.entry, Crashed | Truncated):
            yield Row(node, incarnation, index_after(row), row.at, Truncated(CUT))


def _objects(name: str, lines: Iterable[bytes | str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[:1] in (b"#", "#"):
            continue
        try:
            yield number, _decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{name}:{number}: not a JSON object: {error}") from None


def _row(plain: dict[str, Any], next_index: dict[tuple[str, int], int], count: int) -> Row:
    fields = dict(plain)
    for required in ("node", "kind"):
        if required not in fields:
            raise InputError(f"a row needs {required!r}")
    node, kind = fields.pop("node"), fields.pop("kind")
    if not isinstance(node, str):
        raise InputError(f"the node is a text, not {node!r}")
    incarnation = _natural(fields.pop("incarnation", 1), "incarnation")
    record = (node, incarnation)
    index = _natural(fields.pop("index", next_index.get(record, 0)), "index")
    at = _natural(fields.pop("at", count), "at")
    next_index[record] = index + 1
    return Row(node, incarnation, index, at, entry_of_plain(kind, fields))


def _natural(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _NUMBER_MAX:
        raise InputError(f"{name!r} is a number from 0 to {_NUMBER_MAX}, not {value!r}")
    return value
