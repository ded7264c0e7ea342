"""Records of the log as columns: JSON objects or MessagePack maps, by the names and types that a user gives.

A record that is no such object has null in all of them, and so has a value of another type.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from isotone.core.errors import InputError
from isotone.replicated.archive.places import require_pyarrow
from isotone.replicated.archive.segments import arrow_schema

TAKEN = ("position", "message", "sender", "record")


TYPES: Mapping[str, DataType] = {
    "string": StringType(),
    "bigint": LongType(),
    "long": LongType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
}


def parse_columns(text: str) -> StructType:
    """The columns of ``user string, amount bigint``."""
    fields = []
    for part in text.split(","):
        name, _, form = part.strip().partition(" ")
        if not name or form.strip().lower() not in TYPES:
            raise InputError(f"option columns: {part.strip()!r} is no name with a type; types are {', '.join(TYPES)}")
        if name in TAKEN:
            raise InputError(f"option columns: {name} is a column of the log itself")
        fields.append(StructField(name, TYPES[form.strip().lower()]))
    return StructType(fields)


def decoded_schema(columns: StructType) -> Any:
    """The Arrow schema of the log with these columns behind."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = require_pyarrow()
    return arrow.schema([*arrow_schema(), *(field.with_nullable(True) for field in to_arrow_schema(columns))])


def with_columns(batches: Iterable[Any], decode: str, columns: StructType) -> Iterable[Any]:
    """The batches with the decoded columns behind."""
    arrow = require_pyarrow()
    form = decoded_schema(columns)
    reader = msgspec.json.Decoder() if decode == "json" else msgspec.msgpack.Decoder()
    added = list(form)[len(arrow_schema()) :]
    for batch in batches:
        objects = [_object(reader, record) for record in batch.column("record").to_pylist()]
        arrays = [_array(arrow, [each.get(field.name) for each in objects], field.type) for field in added]
        yield arrow.RecordBatch.from_arrays([*batch.columns, *arrays], schema=form)


def _object(reader: Any, record: bytes) -> dict[str, Any]:
    try:
        found = reader.decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _array(arrow: Any, values: list[Any], form: Any) -> Any:
    try:
        return arrow.array(values, form)
    except (arrow.ArrowException, TypeError, ValueError, OverflowError):
        return arrow.array([_value(arrow, value, form) for value in values], form)


def _value(arrow: Any, value: Any, form: Any) -> Any:
    try:
        return arrow.scalar(value, form).as_py()
    except (arrow.ArrowException, TypeError, ValueError, OverflowError):
        return None
