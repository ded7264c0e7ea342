"""Resilient objects: a plain class as a service that goes on while one of its components lives.

An operation is a method. Its coordinator takes the object's write lock (a method that only reads: a read lock), runs
the method on a copy of the attributes, and ends it with one broadcast: the result, and which attributes changed how.
A method may be a coroutine that awaits operations of other objects; each has an id of its own, so that a cohort that
runs the method again gets the same answers.

Implements: [ISIS 5], resilient objects; [ISIS 5.2], [ISIS 5.3]. Deviations: none.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

import msgspec

from isotone.core.contract import Action
from isotone.core.errors import IsotoneError, LocalProtocolError
from isotone.isis.toolkit.locks import Locks
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.requests import Requests
from isotone.isis.toolkit.wire import encode

LOCK = "object"
READS = "__isotone_reads__"
RESILIENT = "__isotone_resilient__"
RESULT_BYTES_MAX = 16 * 1024
_Class = TypeVar("_Class", bound=type)
_Method = TypeVar("_Method")


class OperationFailed(IsotoneError):
    """The method raised; nothing was changed."""


class OperationCall(msgspec.Struct, frozen=True, array_like=True):
    """A method with its arguments."""

    method: str
    args: list[Any]
    kwargs: dict[str, Any]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """Of an attribute: a new value; of a dict, the keys that are ``put`` and ``gone``."""

    attribute: str
    value: Any = None
    put: list[tuple[Any, Any]] | None = None
    gone: list[Any] = []
    deleted: bool = False


_CALL = msgspec.msgpack.Decoder(OperationCall)
_CHANGES = msgspec.msgpack.Decoder(list[Change])


def resilient(cls: _Class) -> _Class:
    """Mark a class whose objects live on several machines: its attributes are data, its public methods operations."""
    setattr(cls, RESILIENT, True)
    return cls


def reads(method: _Method) -> _Method:
    """Mark a method that changes nothing: such operations run at the same time."""
    setattr(method, READS, True)
    return method


@dataclass(frozen=True)
class NestedCall:
    """What a method yields when it awaits an operation of another object."""

    name: str
    call: OperationCall

    def __await__(self) -> Generator[NestedCall, Any, Any]:
        return (yield self)


class RemoteObject:
    """Another resilient object, as seen from within a method: ``await nested("stock").take(3)``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*args: Any, **kwargs: Any) -> NestedCall:
            return NestedCall(self._name, OperationCall(method, list(args), kwargs))

        return call


def nested(name: str) -> RemoteObject:
    """The object of this name."""
    return RemoteObject(name)


class NestedWanted(Action, frozen=True, gc=False):
    """A coordinator asks another object, for the operation ``id`` of its own."""

    group: str
    id: str
    place: int
    name: str
    body: bytes


# --- values ----------------------------------------------------------------------------------------------------------


def attributes_of(instance: object) -> dict[str, Any]:
    """The state of an object."""
    return dict(sorted(instance.__dict__.items()))


def instance_of(cls: type, attributes: dict[str, Any]) -> Any:
    """An object with this state; values get the types that the class says they have."""
    instance: Any = object.__new__(cls)
    hints = get_type_hints(cls)
    for name, value in attributes.items():
        setattr(instance, name, msgspec.convert(value, hints[name], strict=False) if name in hints else value)
    return instance


def plain(value: Any) -> Any:
    """As it is after a transfer."""
    return msgspec.msgpack.decode(encode(value), strict=False)


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """What was changed."""
    changes = []
    for name in sorted({*before, *after}):
        if name not in after:
            changes.append(Change(name, deleted=True))
        elif name not in before or encode(before[name]) != encode(after[name]):
            changes.append(_difference(name, before.get(name), after[name]))
    return changes


def _difference(name: str, old: Any, new: Any) -> Change:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return Change(name, new)
    put = [(key, value) for key, value in new.items() if key not in old or encode(old[key]) != encode(value)]
    return Change(name, put=put, gone=[key for key in old if key not in new])


def apply_changes(attributes: dict[str, Any], changes: list[Change]) -> None:
    """At every component."""
    for change in changes:
        if change.deleted:
            attributes.pop(change.attribute, None)
        elif change.put is None:
            attributes[change.attribute] = change.value
        else:
            known = attributes[change.attribute]
            for key in change.gone:
                known.pop(key, None)
            known.update(change.put)


# --- the component ---------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """An operation that this component carries out."""

    call: OperationCall
    instance: Any = None
    before: bytes = b""
    coroutine: Coroutine[Any, Any, Any] | None = None
    asked: int = 0  # nested operations
    nested: dict[str, list[str]] = field(default_factory=dict)  # those that were answered, by group


class Component(Tool):
    """One component of a resilient object, with its requests and locks."""

    name = "object"

    def __init__(self, member: Member, cls: type, sites: tuple[str, ...]) -> None:
        super().__init__(member)
        self._class = cls
        self.attributes: dict[str, Any] = plain(attributes_of(cls()))
        self.requests = Requests(member, sites, self)
        self.locks = Locks(member, self.requests.steward_of, self._on_held)
        self._runs: dict[str, Run] = {}

    def state(self) -> Any:
        """The attributes."""
        return self.attributes

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        self.attributes, self._runs = state, {}

    def essence(self) -> Any:
        """The attributes; dicts may have been filled in another order."""
        return sorted_value(self.attributes)

    # --- operations ------------------------------------------------------------------------------------------------

    def perform(self, id: str, caller: str, body: bytes) -> None:
        """As coordinator: wait for the lock."""
        del caller
        try:
            call = _CALL.decode(body)
            method = None if call.method.startswith("_") else getattr(self._class, call.method, None)
            if not callable(method):
                raise LocalProtocolError(f"{self._class.__name__} has no operation {call.method!r}")
        except (msgspec.DecodeError, LocalProtocolError) as error:
            self._fail(id, error)
            return
        self._runs[id] = Run(call)
        self.locks.ask(LOCK, id, not hasattr(method, READS))

    def _on_held(self, owner: str, item: str) -> bool:
        if item != LOCK or owner not in self._runs:
            return False
        run = self._runs[owner]
        run.before = encode(self.attributes)
        run.instance = instance_of(self._class, msgspec.msgpack.decode(run.before, strict=False))
        try:
            result = getattr(run.instance, run.call.method)(*run.call.args, **run.call.kwargs)
        except Exception as error:
            self._fail(owner, error)
            return True
        if inspect.iscoroutine(result):
            run.coroutine = result
            self._step(owner, None, "")
        else:
            self._finish(owner, result)
        return True

    def _step(self, id: str, value: Any, problem: str) -> None:
        run = self._runs[id]
        assert run.coroutine is not None
        try:
            wanted = run.coroutine.throw(OperationFailed(problem)) if problem else run.coroutine.send(value)
        except StopIteration as end:
            self._finish(id, end.value)
        except Exception as error:
            self._fail(id, error)
        else:
            if not isinstance(wanted, NestedCall):  # another kind of future
                self._fail(id, LocalProtocolError("an operation awaits operations of resilient objects only"))
                return
            run.asked += 1
            body = encode(wanted.call)
            self.member.out.say(NestedWanted(self.member.group, id, run.asked, wanted.name, body))

    def on_nested(self, id: str, group: str, nested_id: str, result: bytes, problem: str) -> None:
        """The answer of another object."""
        run = self._runs.get(id)
        if run is None or run.coroutine is None:
            return
        run.nested.setdefault(group, []).append(nested_id)
        self._step(id, msgspec.msgpack.decode(result, strict=False) if result else None, problem)

    def _finish(self, id: str, result: Any) -> None:
        run = self._runs[id]
        try:
            after = plain(attributes_of(run.instance))
            changes = (
                [] if self._only_reads(run) else differences(msgspec.msgpack.decode(run.before, strict=False), after)
            )
            encoded = encode(result)
            if len(encoded) > RESULT_BYTES_MAX:
                raise LocalProtocolError(f"a result has at most {RESULT_BYTES_MAX} bytes, this one {len(encoded)}")
            data = encode(changes)
        except Exception as error:
            self._fail(id, error)
            return
        self.requests.finish(id, encoded, data, nested=run.nested)

    def _only_reads(self, run: Run) -> bool:
        return hasattr(getattr(self._class, run.call.method), READS)

    def _fail(self, id: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"[:1000]
        run = self._runs.get(id)
        self.requests.finish(id, encode(text), encode([]), True, run.nested if run is not None else {})

    def change(self, id: str, changes: bytes, *, failed: bool) -> None:
        """At every component: the operation is done."""
        if not failed:
            apply_changes(self.attributes, _CHANGES.decode(changes))
        self.locks.drop_owner(id)
        run = self._runs.pop(id, None)
        if run is not None and run.coroutine is not None:
            run.coroutine.close()


def sorted_value(value: Any) -> Any:
    """A value in which the order of dict keys does not matter."""
    if isinstance(value, dict):
        return sorted(((str(key), sorted_value(each)) for key, each in value.items()), key=lambda pair: pair[0])
    if isinstance(value, list):
        return [sorted_value(each) for each in value]
    return value


def component_tools(cls: type, sites: tuple[str, ...]) -> Any:
    """What a member needs for an object of this class."""

    def build(member: Member) -> tuple[Tool, ...]:
        component = Component(member, cls, sites)
        return component.requests, component.locks, component

    return build
