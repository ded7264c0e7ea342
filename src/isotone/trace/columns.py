"""The columns of a trace as a table: which there are, and how an entry fills them.

Fields of the same meaning share a column: ``client``, ``daemon`` and ``receivers`` are all ``clients`` (whom it
happened to). What has no column of its own goes into ``extra`` as JSON, so entries that later layers add need no new
column. `columns_of` and `entry_of` are inverse to each other for every entry type of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from isotone.core.errors import InputError, RemoteProtocolError
from isotone.core.ids import DaemonViewId, GroupViewId, Stamp, parse_daemon_id
from isotone.core.services import Service
from isotone.trace.events import Entry
from isotone.trace.vocabulary import (
    EntryType,
    check_entry,
    converted,
    fields_of,
    kind_of,
    plain_value,
    type_of_kind,
    typed_value,
)

TEXTS = "list<string>"
VIEW = (
    "struct<epoch: int64, coordinator: string, next_epoch: int64, next_coordinator: string, "
    "lamport: int64, stamper: string>"
)

HEADER_COLUMNS: Mapping[str, str] = {
    "run": "string",
    "version": "int32",
    "node": "string",
    "incarnation": "int64",
    "index": "int64",
    "at": "int64",
}
ENTRY_COLUMNS: Mapping[str, str] = {
    "kind": "string",
    "clients": TEXTS,
    "groups": TEXTS,
    "service": "string",
    "sender": "string",
    "first_sequence": "int64",
    "lengths": "list<int32>",
    "digests": "list<uint64>",
    "lamport": "int64",
    "stamper": "string",
    "view": VIEW,
    "members": TEXTS,
    "transitional": TEXTS,
    "cause": "string",
    "subject": "string",
    "network": "string",
    "servers": TEXTS,
    "reason": "string",
    "extra": "string",
}
COLUMNS: Mapping[str, str] = {**HEADER_COLUMNS, **ENTRY_COLUMNS}


class _Fit(msgspec.Struct, frozen=True):
    """How a field of this name and type stands in a column."""

    type: Any
    column: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _alone(value: Any) -> list[Any]:
    return [value]


def _only(values: Any) -> Any:
    (value,) = values
    return value


def _read_service(name: str) -> Service:
    return Service[name]


def _write_view(view: GroupViewId | DaemonViewId) -> dict[str, Any]:
    group_view = view if isinstance(view, GroupViewId) else GroupViewId(view)
    daemon_view, next_view, stamp = group_view.daemon_view, group_view.next_daemon_view, group_view.stamp
    return {
        "epoch": daemon_view.epoch,
        "coordinator": str(daemon_view.coordinator),
        "next_epoch": next_view.epoch,
        "next_coordinator": str(next_view.coordinator),
        "lamport": stamp.lamport,
        "stamper": str(stamp.daemon),
    }


def _read_group_view(view: Mapping[str, Any]) -> GroupViewId:
    return GroupViewId(
        _read_daemon_view(view),
        DaemonViewId(_natural(view["next_epoch"]), parse_daemon_id(view["next_coordinator"])),
        Stamp(_natural(view["lamport"]), parse_daemon_id(view["stamper"])),
    )


def _read_daemon_view(view: Mapping[str, Any]) -> DaemonViewId:
    return DaemonViewId(_natural(view["epoch"]), parse_daemon_id(view["coordinator"]))


def _natural(value: int) -> int:
    if value < 0:
        raise ValueError(value)
    return value


_Texts = tuple[str, ...]
_Numbers = tuple[int, ...]

_FITS: Mapping[str, tuple[_Fit, ...]] = {
    "client": (_Fit(str, "clients", _alone, _only),),
    "daemon": (_Fit(str, "clients", _alone, _only),),
    "receivers": (_Fit(_Texts, "clients", _same, tuple),),
    "group": (_Fit(str, "groups", _alone, _only),),
    "groups": (_Fit(_Texts, "groups", _same, tuple),),
    "service": (_Fit(Service, "service", lambda service: service.name, _read_service),),
    "sequence": (_Fit(int, "first_sequence", _same, int),),
    "first_sequence": (_Fit(int, "first_sequence", _same, int),),
    "digest": (_Fit(int, "digests", _alone, _only),),
    "digests": (_Fit(_Numbers, "digests", _same, tuple),),
    "lengths": (_Fit(_Numbers, "lengths", _same, tuple),),
    "lamport": (_Fit(int, "lamport", _same, int),),
    "view": (
        _Fit(GroupViewId, "view", _write_view, _read_group_view),
        _Fit(DaemonViewId, "view", _write_view, _read_daemon_view),
    ),
    **{
        name: (_Fit(str, name, _same, _same),)
        for name in ("sender", "stamper", "cause", "subject", "network", "reason")
    },
    **{name: (_Fit(_Texts, name, _same, tuple),) for name in ("members", "transitional", "servers")},
}


def columns_used(type: EntryType) -> frozenset[str]:
    """The columns that entries of this type fill, but for ``kind``."""
    _, fitting, rest = _plan(type)
    return frozenset(fit.column for _, fit in fitting) | ({"extra"} if rest else frozenset())


def fits_of(type: EntryType) -> tuple[tuple[str, str], ...]:
    """Each field of such entries with its column, in order; nothing if a field of theirs has none."""
    _, fitting, rest = _plan(type)
    return () if rest else tuple((name, fit.column) for name, fit in fitting)


def columns_of(entry: Entry) -> dict[str, Any]:
    """The columns that this entry fills; all others are null."""
    kind, fitting, rest = _plan(type(entry))
    columns: dict[str, Any] = {"kind": kind}
    for name, fit in fitting:
        columns[fit.column] = fit.write(getattr(entry, name))
    if rest:
        extra = {name: plain_value(getattr(entry, name), form) for name, form in rest}
        columns["extra"] = msgspec.json.encode(extra).decode()
    return columns


def entry_of(columns: Mapping[str, Any]) -> Entry:
    """The inverse of `columns_of`; columns that the kind does not use are ignored."""
    type = type_of_kind(columns.get("kind"))
    _, fitting, rest = _plan(type)
    fields = {name: _read(fit, columns) for name, fit in fitting}
    if rest:
        extra = _decode_extra(columns.get("extra"))
        for name, form in rest:
            if name not in extra:
                raise InputError(f"kind {kind_of(type)!r} needs {name!r} in the column extra")
            fields[name] = converted(typed_value(extra[name], form, name), form)
    entry = type(**fields)
    check_entry(entry)
    return entry


def _read(fit: _Fit, columns: Mapping[str, Any]) -> Any:
    value = columns.get(fit.column)
    if value is None:
        raise InputError(f"kind {columns['kind']!r} needs the column {fit.column!r}")
    try:
        if type(value) is list and None in value:
            raise ValueError(value)
        return fit.read(value)
    except (ValueError, KeyError, TypeError, AttributeError, RemoteProtocolError):
        raise InputError(f"kind {columns['kind']!r}: {value!r} cannot stand in the column {fit.column!r}") from None


def _decode_extra(text: Any) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the column extra is not a JSON object: {error}") from None


@lru_cache(maxsize=1024)
def _plan(type: EntryType) -> tuple[str, tuple[tuple[str, _Fit], ...], tuple[tuple[str, Any], ...]]:
    """The kind, the fields with a column, the fields without. A column serves one field: the first that fits."""
    fitting: list[tuple[str, _Fit]] = []
    rest: list[tuple[str, Any]] = []
    taken: set[str] = set()
    for name, form in fields_of(type).items():
        fit = next((fit for fit in _FITS.get(name, ()) if fit.type == form and fit.column not in taken), None)
        if fit is None:
            rest.append((name, form))
        else:
            fitting.append((name, fit))
            taken.add(fit.column)
    return kind_of(type), tuple(fitting), tuple(rest)
