"""Histories of clients in the forms that other checkers read: Knossos and Elle (registers), as EDN.

Each operation is two entries, ``:invoke`` and then ``:ok``, ``:fail`` or ``:info``, in the order of real time. They are
made from a trace of replicated objects, simulated or recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isotone.trace.events import Row
from isotone.trace.replicated import ObjectAnswered, ObjectCalled

NOTHING = "-"
_TYPES = {"done": "ok", "not": "fail"}


def knossos(rows: Iterable[Row], name: str, key: str) -> Iterator[str]:
    """The operations on one key of a dict, as lines of EDN for a compare-and-set register."""
    processes: dict[str, int] = {}
    for place, (entry, call) in enumerate(_in_time(rows)):
        if call.kind_of != "dict" or (call.name, call.key) != (name, key):
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
    """The sets and reads of a dict as transactions of one operation, as lines of EDN for Elle's rw-register.

    Only for a dict whose keys are set and read, with values that come once: deletes and conditions are left out.
    """
    processes: dict[str, int] = {}
    for place, (entry, call) in enumerate(_in_time(rows)):
        if call.kind_of != "dict" or call.name != name or call.method not in ("set", "get"):
            continue
        process = processes.setdefault(call.operation, len(processes))
        kind, value = "invoke", "nil"
        if isinstance(entry, ObjectAnswered):
            kind, value = _TYPES.get(entry.answer, "info"), _value(entry.result)
        operation = (
            f":w {_text(call.key)} {_value(call.argument)}" if call.method == "set" else f":r {_text(call.key)} {value}"
        )
        yield f"{{:index {place}, :type :{kind}, :process {process}, :f :txn, :value [[{operation}]]}}"


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
    return text if text.lstrip("-").isdigit() else _text(text)


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
