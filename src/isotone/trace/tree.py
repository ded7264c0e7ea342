"""Any value of the contract as MessagePack and back: structs and enumerations by their class's name.

Self-describing, so it needs no list of unions. A value is a plain MessagePack scalar, or an array that begins with
what it is: a list, a tuple, a set, a mapping, a struct with its name, an enumeration with its name. Buffers are
written as bytes and come back as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec

from isotone.core.errors import InputError, LocalProtocolError
from isotone.trace.fitting import check_fields

LIST, TUPLE, SET, MAPPING, STRUCT, ENUM = range(6)
_SCALARS = frozenset((type(None), bool, int, float, str, bytes))
_encode = msgspec.msgpack.Encoder().encode


def name_of(type: type) -> str:
    """The name under which a class is written: bare for the contract's own, with its module for all others."""
    module = type.__module__
    return type.__qualname__ if module.startswith("isotone.core.") else f"{module}.{type.__qualname__}"


def to_tree(value: Any, *, canonical: bool = False) -> Any:
    """The tree of a value; ``canonical`` makes equal sequences and mappings equal, whatever their type and order."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind in (memoryview, bytearray):
        return bytes(value)
    if isinstance(value, msgspec.Struct):
        fields = [to_tree(getattr(value, field), canonical=canonical) for field in kind.__struct_fields__]
        return [STRUCT, name_of(kind), *fields]
    if isinstance(value, Enum):
        return [ENUM, name_of(kind), to_tree(value.value)]
    if isinstance(value, list | tuple):
        mark = TUPLE if kind is tuple and not canonical else LIST
        return [mark, *[to_tree(item, canonical=canonical) for item in value]]
    if isinstance(value, set | frozenset):
        return [SET, *sorted((to_tree(item, canonical=canonical) for item in value), key=_encode)]
    if isinstance(value, Mapping):
        pairs = [[to_tree(key), to_tree(item, canonical=canonical)] for key, item in value.items()]
        return [MAPPING, *(sorted(pairs, key=_encode) if canonical else pairs)]
    raise LocalProtocolError(f"{kind.__name__} cannot be written to a journal")


class Names:
    """The classes that a tree may name. Grows by registration only; what a file names beyond them is refused."""

    def __init__(self) -> None:
        self._classes: dict[str, type] = {}

    def register(self, *classes: type) -> None:
        """Add classes, and every struct and enumeration that their fields name."""
        for each in classes:
            known = self._classes.setdefault(name_of(each), each)
            if known is not each:
                raise LocalProtocolError(f"two classes are named {name_of(each)}")
            if issubclass(each, msgspec.Struct):
                self._register_named_in(get_type_hints(each).values())

    def _register_named_in(self, hints: Iterable[Any]) -> None:
        for hint in hints:
            if isinstance(hint, type) and issubclass(hint, msgspec.Struct | Enum):
                if name_of(hint) not in self._classes:
                    self.register(hint)
            self._register_named_in(get_args(hint))

    def from_tree(self, tree: Any) -> Any:
        """The inverse of `to_tree`."""
        if type(tree) is not list:
            return tree
        if not tree:
            raise InputError("an empty array")
        read = _READERS.get(tree[0])
        if read is None:
            raise InputError(f"unknown form {tree[0]!r}")
        return read(self, tree[1:])

    def named(self, name: Any) -> Any:
        """The class of this name."""
        found = self._classes.get(name) if isinstance(name, str) else None
        if found is None:
            raise InputError(f"unknown class {name!r}")
        return found

    def _struct(self, items: list[Any]) -> Any:
        struct = self.named(items[0])
        fields = [self.from_tree(item) for item in items[1:]]
        check_fields(struct, fields)
        return struct(*fields)

    def _enum(self, items: list[Any]) -> Any:
        return self.named(items[0])(items[1])

    def _mapping(self, items: list[Any]) -> Any:
        return {self.from_tree(key): self.from_tree(item) for key, item in items}

    def _list(self, items: list[Any]) -> Any:
        return [self.from_tree(item) for item in items]

    def _tuple(self, items: list[Any]) -> Any:
        return tuple([self.from_tree(item) for item in items])

    def _set(self, items: list[Any]) -> Any:
        return frozenset(self.from_tree(item) for item in items)


_READERS: Mapping[Any, Callable[[Names, list[Any]], Any]] = {
    LIST: Names._list,
    TUPLE: Names._tuple,
    SET: Names._set,
    MAPPING: Names._mapping,
    STRUCT: Names._struct,
    ENUM: Names._enum,
}
