"""What a transaction did to the rows and tables of a database, with its position in the order.

A table that was made or altered comes as a `TableChange`, and then all of its rows as new ones: whoever keeps a copy
empties it there. A row that changed its key is one that went and one that came.

Implements: [COReL 8.1]; docs/guide/replicated.md "Changes of rows". Deviations: none.
"""

from __future__ import annotations

from typing import Any

import msgspec

Cells = tuple[Any, ...]


class TableForm(msgspec.Struct, frozen=True, array_like=True):
    """A table: its definition, its columns, and which of them are the primary key."""

    name: str
    sql: str
    columns: tuple[str, ...]
    key: tuple[int, ...]


class TableChange(msgspec.Struct, frozen=True, array_like=True, tag="table"):
    """The table has this form from here on and is empty, or, without a form, it is gone."""

    table: str
    form: TableForm | None


class RowChange(msgspec.Struct, frozen=True, array_like=True, tag="row"):
    """A row came (no ``old``), changed, or went (no ``new``); cells stand in the order of the table's columns."""

    table: str
    old: Cells | None
    new: Cells | None

    @property
    def kind(self) -> str:
        """Insert, update or delete."""
        return "insert" if self.old is None else "delete" if self.new is None else "update"


class TransactionChanges(msgspec.Struct, frozen=True, array_like=True):
    """All that one transaction changed, in order; ``forms`` are those of the tables in it, as they were at its end."""

    position: int
    procedure: str
    changes: tuple[TableChange | RowChange, ...]
    forms: dict[str, TableForm]


encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(TransactionChanges)
