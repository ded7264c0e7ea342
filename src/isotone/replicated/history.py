"""Histories of clients in the forms that other checkers read: Knossos (registers), Elle (registers and lists), as EDN.

Each operation is two entries, ``:invoke`` and then ``:ok``, ``:fail`` or ``:info``, in the order of real time; one that
nobody knows the end of has the first alone. They are made from a trace of replicated objects, simulated or recorded
(`isotone.replica(..., history=DIRECTORY)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from isotone.core.errors import InputError
from isotone.spec.check.replicated.histories import plain_json
from isotone.trace.events import Row
from isotone.trace.replicated import ObjectAnswered, ObjectCalled

NOTHING = "-"
REGISTER = ("set", "delete", "compare_and_set", "get")
_TYPES = {"done": "ok", "not": "fail"}


def knossos(rows: Iterable[Row], name: str, key: str) -> Iterator[str]:
    """The operations on one key of a dict, as lines of EDN for a compare-and-set register.

    Transactions and reads of many keys are left out: `isotone check` judges them too.
    """
    processes: dict[str, int] = {}
    for place, (entry, call) in enumerate(_in_time(rows)):
        if call.kind_of != "dict" or (call.name, call.key) != (name, key) or call.method not in REGISTER:
            continue
        if isinstance(entry, ObjectCalled):
            processes[entry.operation] = len(processes)  # a process has one operation at a time
            yield _line("invoke", call, processes[entry.operation], place, None)
        else:
            kind = "ok" if entry.answer == "done" else _TYPES.get(entry.answer, "info")
            if kind == "ok" and call.method == "compare_and_set" and entry.result == "0":
                kind = "fail"
            yield _line(kind, call, processes[entry.operation], place, entry.result)


def elle_register(rows: Iterable[Row], name: str) -> Iterator[str]:
    """What is set and read in a dict as transactions, as lines of EDN for Elle's rw-register.

    Values must come once each. Left out are deletes, compare-and-set, reads of many keys, and transactions that compare
    revisions, delete, or have something to do otherwise.
    """
    yield from _elle(rows, "dict", name, _register_operations)


def elle_list_append(rows: Iterable[Row], name: str) -> Iterator[str]:
    """What is added to a set, and reads of all its members, as lines of EDN for Elle's list-append.

    A set keeps its members in the order in which they came. `InputError` if something was discarded from it.
    """
    yield from _elle(rows, "set", name, _list_operations)


_Operations = Callable[[ObjectCalled, str | None], list[str] | None]
"""The operations of one transaction, with what was answered; None for what is left out."""


def _elle(rows: Iterable[Row], kind: str, name: str, operations: _Operations) -> Iterator[str]:
    processes: dict[str, int] = {}
    for place, (entry, call) in enumerate(_in_time(rows)):
        if (call.kind_of, call.name) != (kind, name):
            continue
        told, result = "invoke", None
        if isinstance(entry, ObjectAnswered):
            told, result = _TYPES.get(entry.answer, "info"), entry.result
            if told == "ok" and call.method in ("transact", "join") and result == "0":
                told = "fail"
        found = operations(call, result if told == "ok" else None)
        if found is None:
            continue
        process = processes.setdefault(call.operation, len(processes))
        yield f"{{:index {place}, :type :{told}, :process {process}, :f :txn, :value [{' '.join(found)}]}}"


def _register_operations(call: ObjectCalled, result: str | None) -> list[str] | None:
    match call.method:
        case "set":
            return [f"[:w {_text(call.key)} {_value(call.argument)}]"]
        case "get":
            return [f"[:r {_text(call.key)} {'nil' if result is None else _value(result)}]"]
        case "transact":
            return _transaction(plain_json(call.argument, dict), is_done=result is not None)
    return None


def _transaction(told: Mapping[str, Any], *, is_done: bool) -> list[str] | None:
    if told["revisions"] or told["otherwise"] or any(value == NOTHING for _, value in told["then"]):
        return None
    reads = [f"[:r {_text(key)} {_value(value) if is_done else 'nil'}]" for key, value in told["when"]]
    return reads + [f"[:w {_text(key)} {_value(value)}]" for key, value in told["then"]]


def _list_operations(call: ObjectCalled, result: str | None) -> list[str] | None:
    match call.method:
        case "join":
            return [f"[:append {_text(call.name)} {_value(call.key)}]"]
        case "members":
            members = "nil" if result is None else f"[{' '.join(map(_value, plain_json(result, list)))}]"
            return [f"[:r {_text(call.name)} {members}]"]
        case "part":
            raise InputError(f"members were discarded from the set {call.name}: it is no list that only grows")
    return None


def _in_time(rows: Iterable[Row]) -> list[tuple[ObjectCalled | ObjectAnswered, ObjectCalled]]:
    """Calls and answers by the common clock; a call before what happened at the same moment."""
    kept = [row.entry for row in rows if isinstance(row.entry, ObjectCalled | ObjectAnswered)]
    calls = {entry.operation: entry for entry in kept if isinstance(entry, ObjectCalled)}
    timed = sorted(kept, key=lambda entry: (entry.wall, isinstance(entry, ObjectAnswered), entry.operation))
    return [(entry, calls[entry.operation]) for entry in timed if entry.operation in calls]


def _line(kind: str, call: ObjectCalled, process: int, place: int, result: str | None) -> str:
    match call.method:
        case "set":
            function, value = "write", _value(call.argument)
        case "delete":
            function, value = "write", "nil"
        case "compare_and_set":
            old, _, new = call.argument.partition(">")
            function, value = "cas", f"[{_value(old)} {_value(new)}]"
        case _:
            function, value = "read", "nil" if result is None else _value(result)
    return f"{{:index {place}, :type :{kind}, :process {process}, :f :{function}, :value {value}}}"


def _value(text: str) -> str:
    if text == NOTHING:
        return "nil"
    return text if text.removeprefix("-").isdigit() or text.startswith('"') else _text(text)


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
