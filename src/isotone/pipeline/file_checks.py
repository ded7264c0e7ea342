"""What the plain reader checks row by row, on the columns of a Parquet file: anybody may have written it.

Runs on workers. Of messages, which are nearly all rows, whole columns are checked; any other row is decoded as the
plain reader does.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from isotone.core.errors import InputError
from isotone.core.services import Service
from isotone.trace.columns import HEADER_COLUMNS, entry_of
from isotone.trace.layout import PartHeader
from isotone.trace.parquet import require_pyarrow
from isotone.trace.vocabulary import check_version

_SENT = ("clients", "service", "first_sequence", "lengths", "digests")
_STAMPED = (*_SENT, "sender", "lamport", "stamper")
_NETWORK = ("clients", "network", "first_sequence", "digests")
BULK: Mapping[str, tuple[str, ...]] = {
    "send": (*_SENT, "groups"),
    "deliver": (*_STAMPED, "groups"),
    "ssend": _SENT,
    "sdeliver": _STAMPED,
    "nmcast": _NETWORK,
    "nreceive": (*_NETWORK, "sender"),
}
"""Kinds of messages, and the columns that rows of each fill."""
_SINGLE = {
    "send": ("clients",),
    "ssend": ("clients",),
    "sdeliver": ("clients",),
    "nmcast": ("clients", "digests"),
    "nreceive": ("clients", "digests"),
}
"""Lists that have one value."""
_LISTS = ("clients", "groups", "lengths", "digests")
_NATURALS = ("first_sequence", "lamport", "lengths")


def good_rows(path: Path, batch: Any, run: bytes | None, header: PartHeader | None, last: int) -> tuple[Any, str]:
    """The rows up to the first that is wrong, and what is wrong with that; ``last`` is the index before them."""
    problem = _problem(path, batch, run, header, last)
    if not problem:
        return batch, ""
    good, bad = 0, batch.num_rows  # so many rows from the first on are good, and so many are not
    while bad - good > 1:
        middle = (good + bad) // 2
        told = _problem(path, batch.slice(0, middle), run, header, last)
        good, bad, problem = (good, middle, told) if told else (middle, bad, problem)
    return batch.slice(0, good), problem


def _problem(path: Path, batch: Any, run: bytes | None, header: PartHeader | None, last: int) -> str:
    try:
        _check_header(path, batch, run)
        if header is not None:
            _check_places(path, batch, header, last)
        for kind in import_module("pyarrow.compute").unique(batch.column("kind")).to_pylist():
            _check_kind(path, batch, kind)
    except InputError as error:
        return str(error)
    return ""


def _check_header(path: Path, batch: Any, named: bytes | None) -> None:
    compute = import_module("pyarrow.compute")
    for name in (*HEADER_COLUMNS, "kind"):
        if batch.column(name).null_count:
            raise InputError(f"{path}: a row without {name}")
    for name in ("incarnation", "index", "at"):
        _check_natural(path, name, batch.column(name))
    for version in compute.unique(batch.column("version")).to_pylist():
        check_version(version, str(path))
    runs = compute.unique(batch.column("run")).to_pylist()
    if named is not None and runs not in ([], [named.decode()]):
        raise InputError(f"{path}: rows of the runs {runs!r}, in a file of {named.decode()!r}")


def _check_places(path: Path, batch: Any, header: PartHeader, last: int) -> None:
    """In a part of one record, its rows in order."""
    compute = import_module("pyarrow.compute")
    for name, value in (("node", header.node), ("incarnation", header.incarnation)):
        if compute.unique(batch.column(name)).to_pylist() not in ([], [value]):
            raise InputError(f"{path}: a row of another record in a part of {header.node!r}#{header.incarnation}")
    index = batch.column("index").to_numpy()
    if len(index) and (index[0] <= last or bool((index[1:] <= index[:-1]).any())):
        raise InputError(f"{path}: rows do not stand in the order of their indices")


def _check_kind(path: Path, batch: Any, kind: str) -> None:
    compute = import_module("pyarrow.compute")
    mask = compute.equal(batch.column("kind"), kind)
    if kind in BULK:
        return _check_bulk(path, batch.select(BULK[kind]).filter(mask), kind)
    for columns in batch.filter(mask).to_pylist():
        try:
            entry_of(columns)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    return None


def _check_bulk(path: Path, rows: Any, kind: str) -> None:
    compute = import_module("pyarrow.compute")
    columns = {name: rows.column(name) for name in BULK[kind]}
    values = {name: each.flatten() if name in _LISTS else each for name, each in columns.items()}
    for name, column in columns.items():
        if column.null_count or values[name].null_count:
            raise InputError(f"{path}: kind {kind!r} needs the column {name!r}")
    for name in _SINGLE.get(kind, ()):
        if compute.any(compute.not_equal(compute.list_value_length(columns[name]), 1)).as_py():
            raise InputError(f"{path}: kind {kind!r} has one value in the column {name!r}")
    for name in _NATURALS:
        if name in values:
            _check_natural(path, name, values[name])
    if "service" in values:
        known = require_pyarrow().array(list(Service.__members__))
        if not compute.all(compute.is_in(values["service"], value_set=known)).as_py():
            raise InputError(f"{path}: kind {kind!r}: a service that there is not")
    if "lengths" in values:
        sizes = [compute.list_value_length(columns[name]) for name in ("lengths", "digests")]
        if compute.any(compute.not_equal(*sizes)).as_py():
            raise InputError(f"{path}: lengths and digests do not pair")


def _check_natural(path: Path, name: str, column: Any) -> None:
    if len(column) and import_module("pyarrow.compute").min(column).as_py() < 0:
        raise InputError(f"{path}: {name} is a number from 0")
