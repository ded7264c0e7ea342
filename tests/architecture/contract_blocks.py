"""The contract as text, made from the code: what stands between the marks of ``docs/contracts.md``.

<!-- pinned: core.ids -->
…
<!-- end -->
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from types import ModuleType, UnionType

import msgspec

from isotone.core import boundary, bundles, codec, contract, errors, ids, names, ordered_log, services, versions, views
from isotone.core.codec import bundle as wire_bundle
from isotone.core.codec import control, fragment, frame
from isotone.trace import columns, corel, events, flows, hab, isis, replicated, synchrony, toolkit, vocabulary

BLOCK = re.compile(r"(<!-- pinned: ([\w.-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def _module(module: ModuleType) -> Iterator[str]:
    """Constants, enums, structs, then named unions, in the order of the source."""
    yield from _constants(module)
    for value in _own(module, Enum):
        yield from _enum(value)
    yield from _classes(module, msgspec.Struct, struct_line)
    for name, value in vars(module).items():
        if isinstance(value, typing.NewType):
            yield f"{name} = {value.__supertype__.__name__}, a type of its own"
        if isinstance(value, UnionType) and not name.startswith("_"):
            yield f"{name} = {' | '.join(_name_of(part) for part in typing.get_args(value))}"


def _constants(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.isupper() and not name.startswith("_") and isinstance(value, int | str | msgspec.Struct):
            if _defined_in(module, name):
                yield f"{name} = {value!r}"


def _defined_in(module: ModuleType, name: str) -> bool:
    return re.search(rf"^{name}\b[^=\n]*=", inspect.getsource(module), re.MULTILINE) is not None


def _own(module: ModuleType, base: type) -> list[type]:
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, base)]
    return [value for value in found if value.__module__ == module.__name__]


def _classes(module: ModuleType, base: type, line: Callable[[type], str]) -> Iterator[str]:
    for value in _own(module, base):
        yield line(value)


def struct_line(struct: type) -> str:
    """One struct: what it is, its name, its fields with types and defaults."""
    base = struct.__mro__[1]
    role = {contract.Event: "event ", contract.Action: "action "}.get(base, "")
    return f"{role}{struct.__name__}({', '.join(_fields(struct))})"


def _fields(struct: type) -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        default = ""
        if field.default is not msgspec.NODEFAULT:
            default = f" = {_short(field.default)}"
        elif field.default_factory is not msgspec.NODEFAULT:
            default = f" = {field.default_factory()!r}"
        yield f"{field.name}: {_annotation(struct, field.name)}{default}"


def _short(value: object) -> str:
    named = {id(ids.NO_STAMP): "NO_STAMP", id(ids.NO_DAEMON_VIEW): "NO_DAEMON_VIEW"}
    return named.get(id(value), f"{type(value).__name__}()" if isinstance(value, msgspec.Struct) else repr(value))


def _annotation(struct: type, name: str) -> str:
    for base in struct.__mro__:
        if name in vars(base).get("__annotations__", {}):
            return str(base.__annotations__[name])
    raise AssertionError(f"{struct.__name__}.{name} has no annotation")


def _name_of(value: object) -> str:
    return value.__name__ if isinstance(value, type) and not typing.get_args(value) else str(value)


def _exception(error: type) -> str:
    return f"{error.__name__}({error.__mro__[1].__name__})"


def _enum(enum: type) -> Iterator[str]:
    assert issubclass(enum, Enum)
    for member in enum:
        yield f"{enum.__name__}.{member.name} = {member.value!r}"


def _protocol(protocol: type) -> Iterator[str]:
    for name, member in vars(protocol).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            asynchronous = "async " if inspect.iscoroutinefunction(member) else ""
            signature = str(inspect.signature(member)).replace("'", "")
            yield f"{protocol.__name__}: {asynchronous}{name}{signature}"


def _codec() -> Iterator[str]:
    yield from _constants(frame)
    yield from _constants(wire_bundle)
    yield from _constants(fragment)
    yield from _constants(control)
    for name, layout in (("frame", frame.FRAME), ("bundle", wire_bundle.HEAD), ("fragment", fragment.HEAD)):
        yield f"{name} head: {layout.format}, {layout.size} bytes"
    yield from _enum(frame.FrameKind)
    yield struct_line(fragment.Fragment)


def _tags() -> Iterator[str]:
    for each in codec.TAG_RANGES:
        yield f"0x{each.first:03X} … 0x{each.last:03X}  {each.package}"


def _kinds() -> Iterator[str]:
    """The entries of the foundation; upper layers add kinds of their own."""
    yield f"TRACE_VERSION = {events.TRACE_VERSION}"
    yield struct_line(events.Row)
    yield from _kinds_of(events)


def _kinds_of(module: ModuleType) -> Iterator[str]:
    for kind, entry in vocabulary.entry_types().items():
        if entry.__module__ == module.__name__:
            yield f"{kind}: {struct_line(entry)}"


def _json_keys() -> Iterator[str]:
    from isotone.sim import run, summary

    for struct in (summary.Summary, summary.Failure, summary.Spread):
        yield struct_line(struct)
    yield f"verdicts: {', '.join(run.STATES)}"


MAKERS: dict[str, Callable[[], typing.Iterable[str]]] = {
    "core.errors": lambda: _classes(errors, Exception, _exception),
    "core.contract": lambda: [*_module(contract), *_protocol(contract.Automaton)],
    "core.boundary": lambda: _module(boundary),
    "core.ids": lambda: _module(ids),
    "core.names": lambda: _constants(names),
    "core.services": lambda: _enum(services.Service),
    "core.bundles": lambda: _module(bundles),
    "core.views": lambda: _module(views),
    "core.ordered_log": lambda: [*_module(ordered_log), *_protocol(ordered_log.OrderedLog)],
    "core.versions": lambda: _module(versions),
    "core.codec": _codec,
    "core.codec.tags": _tags,
    "trace.kinds": _kinds,
    "trace.corel": lambda: _kinds_of(corel),
    "trace.replicated": lambda: _kinds_of(replicated),
    "trace.flows": lambda: _kinds_of(flows),
    "trace.isis": lambda: _kinds_of(isis),
    "trace.synchrony": lambda: _kinds_of(synchrony),
    "trace.toolkit": lambda: _kinds_of(toolkit),
    "trace.hab": lambda: _kinds_of(hab),
    "trace.columns": lambda: (f"{name}: {form}" for name, form in columns.COLUMNS.items()),
    "json": _json_keys,
}


def block(name: str) -> str:
    """One block, as it stands between its marks."""
    return "```text\n" + "".join(f"{line}\n" for line in MAKERS[name]()) + "```\n"


def rewritten(document: str) -> str:
    """The document with every block as the code has it now."""
    return BLOCK.sub(
        lambda found: f"{found[1]}{block(found[2]) if found[2] in MAKERS else found[3]}{found[4]}", document
    )
