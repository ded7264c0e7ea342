"""The vocabulary by kind, and the plain form of an entry that people read and write.

An entry type belongs to the vocabulary by deriving from `Entry`; importing the package that defines it is enough, so
no list can forget one. The plain form is a flat mapping of JSON values: services by name, views by their text, fields
that have their default left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Union, get_type_hints

import msgspec

from isotone.core.errors import InputError, RemoteProtocolError
from isotone.core.ids import DaemonViewId, GroupViewId, parse_daemon_view_id, parse_group_view_id
from isotone.core.services import Service
from isotone.trace.events import TRACE_VERSION, Entry

EntryType = type[Entry]


def entry_types() -> Mapping[str, EntryType]:
    """Every entry type that is defined now, by kind, sorted by kind."""
    return _by_kind(tuple(_derived(Entry)))


def kind_of(type: EntryType) -> str:
    """The tag under which entries of this type are written."""
    tag = type.__struct_config__.tag
    assert isinstance(tag, str), f"{type.__name__} needs a tag"
    return tag


def type_of_kind(kind: object) -> EntryType:
    """The entry type of a kind that was read."""
    try:
        return _type_of(kind)
    except (LookupError, TypeError):
        raise InputError(f"unknown kind {kind!r}: this version of Isotone does not have it") from None


@lru_cache(maxsize=1024)
def _type_of(kind: object) -> EntryType:
    """Looked for once: a type that is defined stays, and who asks for one that is not yet asks again."""
    if not isinstance(kind, str):
        raise TypeError(kind)
    return entry_types()[kind]


def any_entry() -> Any:
    """The union of all entry types, as a type for msgspec's decoders."""
    return Union[tuple(entry_types().values())]  # noqa: UP007  # made at run time


@lru_cache(maxsize=1024)
def fields_of(type: EntryType) -> Mapping[str, Any]:
    """The fields of an entry type with their types, in their order."""
    hints = get_type_hints(type)
    return {name: hints[name] for name in type.__struct_fields__}


def check_version(version: object, name: str) -> None:
    """Refuse what a newer Isotone wrote, and what no Isotone wrote, by name."""
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"{name}: not a trace version: {version!r}")
    if version > TRACE_VERSION:
        raise InputError(f"{name}: trace version {version} is unknown here; the newest known is {TRACE_VERSION}")


def plain_of(entry: Entry) -> dict[str, Any]:
    """The plain form, ``kind`` first."""
    plain: dict[str, Any] = {"kind": kind_of(type(entry))}
    defaults = _defaults(type(entry))
    for name, form in fields_of(type(entry)).items():
        value = getattr(entry, name)
        if name not in defaults or defaults[name] != value:
            plain[name] = plain_value(value, form)
    return plain


def entry_of_plain(kind: object, fields: Mapping[str, Any]) -> Entry:
    """The inverse of `plain_of`, for input that may be wrong in any way."""
    type = type_of_kind(kind)
    forms = fields_of(type)
    for name in fields:
        if name not in forms:
            raise InputError(f"kind {kind!r} has no field {name!r}, only {', '.join(forms) or 'none'}")
    parsed = {name: typed_value(value, forms[name], name) for name, value in fields.items()}
    entry: Entry = converted(parsed, type)
    check_entry(entry)
    return entry


def check_entry(entry: Entry) -> None:
    """Refuse what has the right types and still is no entry.

    Numbers below 0 or too large for their column, lengths and digests that do not pair.
    """
    numbers, pairs = _checked(type(entry))
    for name, most in numbers.items():
        value = getattr(entry, name)
        least, largest = (value, value) if isinstance(value, int) else (min(value), max(value)) if value else (0, 0)
        if least < 0 and name in _NATURALS:
            raise InputError(f"kind {kind_of(type(entry))!r}: {name!r} is below 0: {value!r}")
        if largest > most:
            raise InputError(f"kind {kind_of(type(entry))!r}: {name!r} is above {most}: {largest}")
    view = getattr(entry, "view", None)
    if isinstance(view, GroupViewId | DaemonViewId):
        _check_view(entry, view)
    if pairs and getattr(entry, "first_sequence", 0) > _INT64 - max(0, len(entry.lengths) - 1):  # type: ignore[attr-defined]
        raise InputError(f"kind {kind_of(type(entry))!r}: the sequences go beyond {_INT64}")
    if pairs and len(entry.lengths) != len(entry.digests):  # type: ignore[attr-defined]  # both are there
        raise InputError(f"kind {kind_of(type(entry))!r}: lengths and digests are not of one number")


def _check_view(entry: Entry, view: GroupViewId | DaemonViewId) -> None:
    if isinstance(view, GroupViewId):
        numbers = (view.daemon_view.epoch, view.next_daemon_view.epoch, view.stamp.lamport)
    else:
        numbers = (view.epoch, 0, 0)
    if max(numbers) > _INT64:
        raise InputError(f"kind {kind_of(type(entry))!r}: a number of the view is above {_INT64}: {max(numbers)}")


def plain_value(value: Any, form: Any) -> Any:
    """One field's value as JSON."""
    writer = _TEXTS.get(form)
    return msgspec.to_builtins(value, str_keys=True) if writer is None else writer[0](value)


def typed_value(value: Any, form: Any, name: str) -> Any:
    """Undo what `plain_value` does to views and services; the rest is left to msgspec."""
    reader = _TEXTS.get(form)
    if reader is None:
        return value
    try:
        return reader[1](value)
    except (RemoteProtocolError, KeyError, AttributeError, TypeError):
        raise InputError(f"field {name!r}: {value!r} is not a {reader[2]}") from None


def converted(value: Any, type: Any) -> Any:
    """msgspec's conversion with our error."""
    try:
        return msgspec.convert(value, type, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(str(error)) from None


def _service(name: Any) -> Service:
    return Service[name]


_TEXTS: Mapping[Any, tuple[Callable[[Any], str], Callable[[Any], Any], str]] = {
    Service: (lambda service: Service(service).name, _service, "service"),
    GroupViewId: (str, parse_group_view_id, "group view id"),
    DaemonViewId: (str, parse_daemon_view_id, "daemon view id"),
}


_INT32, _INT64, _UINT64 = (1 << 31) - 1, (1 << 63) - 1, (1 << 64) - 1
_NATURALS = {
    **dict.fromkeys(("first_sequence", "sequence", "lamport", "lost"), _INT64),
    "lengths": _INT32,
    "digests": _UINT64,
    "digest": _UINT64,
}
"""Fields that hold numbers from 0, and the most that their columns hold."""


@lru_cache(maxsize=1024)
def _checked(type: EntryType) -> tuple[Mapping[str, int], bool]:
    """Which fields hold numbers, and up to what; and whether there are lengths and digests."""
    numbers = {int, tuple[int, ...]}
    naturals = {name: _NATURALS.get(name, _INT64) for name, form in fields_of(type).items() if form in numbers}
    return naturals, {"lengths", "digests"} <= naturals.keys()


@lru_cache(maxsize=1024)
def _defaults(type: EntryType) -> Mapping[str, Any]:
    fields = msgspec.structs.fields(type)
    return {field.name: field.default for field in fields if field.default is not msgspec.NODEFAULT}


@lru_cache(maxsize=1)
def _by_kind(types: tuple[EntryType, ...]) -> Mapping[str, EntryType]:
    by_kind: dict[str, EntryType] = {}
    for type in sorted(types, key=kind_of):
        assert kind_of(type) not in by_kind, f"two entry types of kind {kind_of(type)!r}"
        by_kind[kind_of(type)] = type
    return by_kind


def _derived(type: EntryType) -> Iterator[EntryType]:
    for derived in type.__subclasses__():
        yield derived
        yield from _derived(derived)
