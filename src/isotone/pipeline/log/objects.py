"""Replicated objects as tables, all as of one position: the state machine over the log, in one task.

What an object holds at a position follows from all records before it, so they are applied in their order, once, by the
same code that replicas run. The result is a table like any other.

Implements: [DESIGN 5], tables as of one position. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.core.errors import InputError
from isotone.replicated.archive.places import require_pyarrow
from isotone.replicated.dict_state import DictState
from isotone.replicated.machine import Machine, kind_of
from isotone.replicated.small_states import CounterState, SetState

COLUMNS = (
    "object string, kind string, key string, value binary, json string, number bigint, revision bigint, as_of bigint"
)
"""``json`` is the value in words, where it is MessagePack; ``number`` the value of a counter."""
BATCH_ROWS = 8_192


MACHINE = "machine"
"""The kind of the one row, of no object, whose value is a snapshot of the state machine."""


def objects_as_of(
    log: DataFrame, position: int | None = None, *, since: bytes = b"", with_machine: bool = False
) -> DataFrame:
    """A row for each entry of each dict, each member of each set, and each counter, as of this position or the last.

    ``log`` is the whole log from its first position on, as ``format("isotone")`` reads it; from the first one behind
    ``since``, where that is the machine's snapshot from an earlier call ``with_machine``.
    """
    wanted = log.select("position", "record")
    if position is not None:
        wanted = wanted.where(F.col("position") <= position)
    ordered = wanted.repartition(1).sortWithinPartitions("position")
    return ordered.mapInArrow(_applying(position, since, with_machine=with_machine), COLUMNS)


def _applying(position: int | None, since: bytes, *, with_machine: bool) -> Any:
    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        machine = Machine(is_server=False)
        if since:
            machine.restore(since)
        for batch in batches:
            for at, record in zip(batch.column("position").to_pylist(), batch.column("record").to_pylist()):
                if at != machine.state.position + 1:
                    raise InputError(
                        f"position {machine.state.position + 1} is missing: tables need the whole log from 1 on"
                    )
                machine.apply(at, record)
        if position is not None and machine.state.position < position:
            raise InputError(f"the log ends at {machine.state.position}, before {position}")
        yield from _rows(machine, with_machine=with_machine)

    return apply


def _rows(machine: Machine, *, with_machine: bool) -> Iterator[Any]:
    """What the machine holds, in batches."""
    arrow = require_pyarrow()
    text, number, blob = arrow.string(), arrow.int64(), arrow.binary()
    names = ("object", "kind", "key", "value", "json", "number", "revision", "as_of")
    form = arrow.schema(list(zip(names, (text, text, text, blob, text, number, number, number), strict=True)))
    rows: list[tuple[Any, ...]] = []
    if with_machine:
        rows.append((None, MACHINE, None, machine.snapshot(), None, None, None, machine.state.position))
    for row in _entries(machine):
        rows.append((*row, machine.state.position))
        if len(rows) == BATCH_ROWS:
            yield _batch(arrow, form, rows)
            rows = []
    yield _batch(arrow, form, rows)


def _batch(arrow: Any, form: Any, rows: list[tuple[Any, ...]]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(form)
    arrays = [arrow.array(column, field.type) for column, field in zip(columns, form, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=form)


def _entries(machine: Machine) -> Iterator[tuple[Any, ...]]:
    for name, state in sorted(machine.state.objects.items()):
        kind = kind_of(state)
        match state:
            case DictState(entries=entries):
                for key, entry in sorted(entries.items()):
                    yield name, kind, key, entry.value, as_json(entry.value), None, entry.revision
            case SetState(members=members):
                for member, revision in members.items():
                    yield name, kind, None, member, as_json(member), None, revision
            case CounterState(value=value):
                yield name, kind, None, None, str(value), value, None


def as_json(value: bytes) -> str | None:
    """A value that is MessagePack, in words; None for other bytes."""
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(value)).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, UnicodeDecodeError, RecursionError):
        return None
