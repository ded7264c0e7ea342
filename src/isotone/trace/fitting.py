"""Whether a value that was read is of the type that its field names; msgspec takes what a constructor is given.

Knows the forms of types that the contract uses. A form that it does not know fits everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from isotone.core.errors import InputError

Fits = Callable[[Any], bool]
_BUFFERS = (bytes, bytearray, memoryview)


def check_fields(struct: type, values: Sequence[Any]) -> None:
    """Refuse values that are not of the types of the struct's first fields; too many are left to its constructor."""
    for (name, fits), value in zip(_fields(struct), values):
        if not fits(value):
            raise InputError(f"{struct.__name__}: {value!r:.60} cannot stand in the field {name!r}")


@lru_cache(maxsize=1024)
def _fields(struct: type) -> tuple[tuple[str, Fits], ...]:
    hints = get_type_hints(struct)
    return tuple((name, _fits(hints[name])) for name in getattr(struct, "__struct_fields__", ()))


def _fits(hint: Any) -> Fits:
    hint = getattr(hint, "__supertype__", hint)  # a NewType
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fits(args[0])
    if origin in (Union, UnionType):
        return _any_of(tuple(_fits(arg) for arg in args))
    if origin is tuple and not (len(args) == 2 and args[1] is ...):
        return _tuple_of(tuple(_fits(arg) for arg in args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_of(*(_fits(arg) for arg in args))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _items_of(_read_as(origin), _fits(args[0]))
    return _plain(hint)


def _plain(hint: Any) -> Fits:
    if hint is None or hint is NoneType:
        return lambda value: value is None
    if hint in _BUFFERS:
        return lambda value: isinstance(value, bytes)  # how buffers come back
    if hint is int:
        return lambda value: type(value) is int
    if hint is float:
        return lambda value: type(value) in (int, float)
    if isinstance(hint, type):
        return lambda value: isinstance(value, hint)
    return lambda value: True


def _read_as(origin: type) -> tuple[type, ...]:
    """The types that `isotone.trace.tree` reads where this one is named."""
    if issubclass(origin, tuple | list):
        return (origin,)
    return (list, tuple) if issubclass(origin, Sequence) else (frozenset, list, tuple)


def _any_of(options: tuple[Fits, ...]) -> Fits:
    return lambda value: any(fits(value) for fits in options)


def _tuple_of(items: tuple[Fits, ...]) -> Fits:
    return lambda value: (
        type(value) is tuple and len(value) == len(items) and all(fits(item) for fits, item in zip(items, value))
    )


def _mapping_of(key_fits: Fits, item_fits: Fits) -> Fits:
    return lambda value: (
        isinstance(value, dict) and all(key_fits(key) and item_fits(item) for key, item in value.items())
    )


def _items_of(read_as: tuple[type, ...], item_fits: Fits) -> Fits:
    def fits(value: Any) -> bool:
        is_read: bool = isinstance(value, read_as)
        return is_read and all(item_fits(item) for item in value)

    return fits
