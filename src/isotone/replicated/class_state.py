"""Your own class as a replicated object: methods marked as commands run at every replica, in the one order.

A class is a `msgspec.Struct` or a dataclass with defaults for all fields, so that its state can be kept as bytes.

Implements: [COReL 8.1], stored procedures; docs/guide/replicated.md "Your own class".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from isotone.core.errors import InputError, LocalProtocolError
from isotone.replicated.outcome import DEPTH_MAX, CommandRefused, Context, check_own_fault, is_too_deep

Function = TypeVar("Function", bound=Callable[..., Any])
MARK = "__isotone_command__"
ORDERED, COMMUTES = "ordered", "commutes"


@overload
def command(function: Function) -> Function: ...
@overload
def command(*, commutes: bool) -> Callable[[Function], Function]: ...
def command(function: Any = None, *, commutes: bool = False) -> Any:
    """Mark a method: it runs at every replica, in the one order.

    ``commutes``: it comes to the same in every order with the others of its class that do, so that it may be seen
    before it is ordered, by `ReplicatedInstance.provisional`.
    """

    def mark(function: Function) -> Function:
        function.__isotone_command__ = COMMUTES if commutes else ORDERED  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


def commands_of(cls: type[Any]) -> tuple[str, ...]:
    """The names of the commands of a class, sorted."""
    return tuple(name for name in sorted(dir(cls)) if getattr(getattr(cls, name, None), MARK, ""))


def commuting_of(cls: type[Any]) -> tuple[str, ...]:
    """Those of them that commute."""
    return tuple(name for name in commands_of(cls) if getattr(getattr(cls, name), MARK) == COMMUTES)


class Classes:
    """The classes that this program has opened objects of, by name."""

    def __init__(self) -> None:
        self._known: dict[str, type[Any]] = {}
        self.twice = False  # run each command on two copies and compare, for tests

    def add(self, cls: type[Any]) -> str:
        """The kind under which its objects stand; `LocalProtocolError` when it cannot be replicated."""
        kind = f"class:{cls.__name__}"
        if self._known.get(kind) is cls:
            return kind
        if kind in self._known:
            raise LocalProtocolError(f"two classes are named {cls.__name__}; rename one")
        if not commands_of(cls):
            raise LocalProtocolError(f"{cls.__name__} has no command: mark methods with @isotone.command")
        try:
            first = msgspec.msgpack.encode(cls())
            msgspec.msgpack.decode(first, type=cls)
        except Exception as error:
            raise LocalProtocolError(
                f"{cls.__name__} cannot be replicated: make it a msgspec.Struct or a dataclass whose fields all have "
                f"defaults and types ({error})"
            ) from error
        self._known[kind] = cls
        return kind

    @property
    def kinds(self) -> Mapping[str, type[Any]]:
        """All that are known here."""
        return self._known

    def of(self, kind: str) -> type[Any] | None:
        """The class of this kind, if this program has it."""
        return self._known.get(kind)


class ClassState(msgspec.Struct, tag="class"):
    """One object of a class: its state, as bytes."""

    kind: str
    frozen: bytes = b""

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Run the command on a copy that takes the object's place if all goes well."""
        cls = context.classes.of(self.kind)
        assert cls is not None, "whoever applies has looked"
        if method not in commands_of(cls):
            raise InputError(f"this program's {cls.__name__} has no command {method}: it is older than the others")
        frozen = self.frozen or msgspec.msgpack.encode(cls())
        after, result = _run(cls, frozen, method, arguments)
        if context.classes.twice and (after, result) != _run(cls, frozen, method, arguments):
            raise LocalProtocolError(
                f"{cls.__name__}.{method} is not deterministic: run twice on the same state with the same arguments, "
                f"it came to different results. See docs/guide/replicated.md, 'Your own class'."
            )
        self.frozen = after
        return result

    def thaw(self, cls: type[Any]) -> Any:
        """A copy of the object, to read from."""
        return msgspec.msgpack.decode(self.frozen, type=cls) if self.frozen else cls()

    def release(self, context: Context, session: int) -> None:
        """Nothing belongs to a session."""


def _run(cls: type[Any], frozen: bytes, method: str, arguments: tuple[Any, ...]) -> tuple[bytes, Any]:
    copy = msgspec.msgpack.decode(frozen, type=cls)
    own = msgspec.msgpack.decode(msgspec.msgpack.encode(arguments))  # an argument that is changed is the command's own
    try:
        result = msgspec.msgpack.decode(msgspec.msgpack.encode(getattr(copy, method)(*own)))
        if is_too_deep(result):
            raise ValueError(f"it returned a value that is nested deeper than {DEPTH_MAX}")
        return msgspec.msgpack.encode(copy), result
    except Exception as error:
        check_own_fault(error, f"the command {cls.__name__}.{method}")
        raise CommandRefused(f"{cls.__name__}.{method} raised {type(error).__name__}: {error}") from error
