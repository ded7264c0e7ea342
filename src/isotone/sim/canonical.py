"""The state of an automaton as a value: copied for a branch, written down for comparison.

`branch` copies what can change and shares what cannot. `canonical` writes a state as bytes that depend on its content
only: not on the order in which a set or a dictionary was filled, not on ``PYTHONHASHSEED``, not on the time. Left out
are the ``at`` of events, what a class lists in ``measurements``, and attributes that are not there yet. The parts of an
automaton may know each other: an object that can change is written where it is met first, elsewhere as a reference.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Event
from isotone.core.errors import LocalProtocolError

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type, range, FunctionType, BuiltinFunctionType})
_PLAIN = frozenset({tuple, list, dict, set, frozenset, deque, bytearray})  # nothing but items


def branch(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A copy that shares nothing changeable with the original; what was one object twice stays one."""
    kind: Any = type(value)
    if kind in _ATOMS or isinstance(value, Enum | type) or _is_frozen(kind):
        return value
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, tuple):
        items = [branch(item, seen) for item in value]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if isinstance(value, frozenset):
        return value
    if isinstance(value, memoryview):
        return value if type(value.obj) is bytes else memoryview(bytes(value))
    if isinstance(value, MethodType):
        return MethodType(value.__func__, branch(value.__self__, seen))
    twin = seen[id(value)] = _empty(value)
    _fill(twin, value, seen)
    return twin


def _empty(value: Any) -> Any:
    if isinstance(value, Choice):
        raise LocalProtocolError("the explorer cannot branch a Choice: leave open choices to timers and messages")
    if isinstance(value, deque):
        return type(value)(maxlen=value.maxlen)
    if isinstance(value, msgspec.Struct):
        return copy.copy(value)
    kind: Any = type(value)
    return kind.__new__(kind)


def _fill(twin: Any, value: Any, seen: dict[int, Any]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            twin[branch(key, seen)] = branch(item, seen)
        if hasattr(value, "default_factory"):
            twin.default_factory = value.default_factory
    elif isinstance(value, list | deque):
        twin.extend([branch(item, seen) for item in value])
    elif isinstance(value, set):
        twin.update(value)
    elif isinstance(value, bytearray):
        twin[:] = value
    if type(value) in _PLAIN:
        return
    put = setattr if isinstance(value, msgspec.Struct) else object.__setattr__
    for name, item in _attributes(value):
        put(twin, name, branch(item, seen))


def canonical(value: Any) -> bytes:
    """The value's content as bytes; equal for equal states, different for different ones."""
    return _write(value, Path())


class Path(list[int]):
    """The identities of the objects above the one that is written, and the places of those that were met before."""

    def __init__(self) -> None:
        super().__init__()
        self.met: dict[int, int] = {}
        self.meetings = 0


Writer = Callable[[Any, Path], bytes]
"""Writes a value that stands below this path."""


def _write(value: Any, above: Path) -> bytes:
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is None:
        _WRITERS[kind] = writer = _writer_of(value)
    return writer(value, above)


def _writer_of(value: Any) -> Writer:
    """How values of this class are written."""
    if isinstance(value, bytes | bytearray | memoryview):
        return _write_bytes
    if isinstance(value, Enum):
        return _write_enum
    if isinstance(value, MethodType):
        return _write_method
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return _write_function
    return _compound_writer(type(value))


def _write_atom(value: Any, above: Path) -> bytes:
    return _sized(b"a", repr(value).encode())


def _write_bytes(value: Any, above: Path) -> bytes:
    return _sized(b"b", bytes(value))


def _write_enum(value: Any, above: Path) -> bytes:
    return _sized(b"e", f"{type(value).__qualname__}.{value.name}".encode())


def _write_function(value: Any, above: Path) -> bytes:
    return _sized(b"f", value.__qualname__.encode())


def _write_method(value: Any, above: Path) -> bytes:
    return _sized(b"f", value.__func__.__qualname__.encode() + _write(value.__self__, above))


def _compound_writer(kind: type) -> Writer:
    """A writer for what holds other values: its items, if it has any, and its attributes."""
    write_items = _items_writer(kind)
    left_out = frozenset(getattr(kind, "measurements", ())) | ({"at"} if issubclass(kind, Event) else set())
    names = [name for name in _field_names(kind) if name not in left_out]
    plain = kind in _PLAIN
    is_part = not plain and not _is_frozen(kind) and not issubclass(kind, tuple | frozenset)

    def write(value: Any, above: Path) -> bytes:
        if is_part:
            above.meetings += 1
            if (place := above.met.get(id(value))) is not None:
                return _sized(b"r", b"%d" % place)
            above.met[id(value)] = len(above.met)
        elif id(value) in above:
            raise LocalProtocolError(f"a state that contains itself has no fingerprint: {kind.__qualname__}")
        above.append(id(value))
        written = write_items(value, above)
        if not plain:
            pairs = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
            pairs += [pair for pair in getattr(value, "__dict__", {}).items() if pair[0] not in left_out]
            written += _write_named([(_name(name), item) for name, item in pairs], above)
            written = _sized(b"o", kind.__qualname__.encode() + b"=" + written)
        above.pop()
        return written

    return _remembered(write) if _is_frozen(kind) else write


def _remembered(write: Writer) -> Writer:
    """Settings and ids stand in every state: what is frozen all through is written once and kept for a while."""

    def look_up(value: Any, above: Path) -> bytes:
        kept = _KEPT.get(id(value))
        if kept is not None:
            return kept[1]
        meetings = above.meetings
        written = write(value, above)
        if above.meetings == meetings:
            if len(_KEPT) >= KEPT_MAX:
                _KEPT.clear()
            _KEPT[id(value)] = (value, written)
        return written

    return look_up


def _items_writer(kind: type) -> Writer:
    if issubclass(kind, Mapping):
        return lambda value, above: _sized(
            b"m", _write_named([(_write(key, above), item) for key, item in value.items()], above)
        )
    if issubclass(kind, set | frozenset):
        return lambda value, above: _sized(b"s", b"".join(sorted([_write(item, above) for item in value])))
    if issubclass(kind, tuple | list | deque | range):
        return lambda value, above: _sized(b"l", b"".join([_write(item, above) for item in value]))
    return lambda value, above: b""


def _write_named(named: list[tuple[bytes, Any]], above: Path) -> bytes:
    """In the order of the names, so that an object is always met first at the same place."""
    named.sort(key=itemgetter(0))
    return b"".join([name + _write(item, above) for name, item in named])


@cache
def _name(attribute: str) -> bytes:
    return _write_atom(attribute, Path())


KEPT_MAX = 4_096
_KEPT: dict[int, tuple[Any, bytes]] = {}  # by identity, which the reference to the value keeps from being used again
_WRITERS: dict[type, Writer] = dict.fromkeys((type(None), bool, int, float, str), _write_atom)


def _sized(tag: bytes, content: bytes) -> bytes:
    return b"%s%d:%s" % (tag, len(content), content)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, wherever its class keeps them."""
    kind: Any = type(value)
    for name in _field_names(kind):
        if hasattr(value, name):
            yield name, getattr(value, name)
    yield from getattr(value, "__dict__", {}).items()


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields that a class keeps outside of ``__dict__``."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.extend([slots] if isinstance(slots, str) else slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


@cache
def _is_frozen(kind: type) -> bool:
    """Frozen structs are shared: events, actions, ids and views never change."""
    config: Any = getattr(kind, "__struct_config__", None)
    return config is not None and bool(config.frozen)
