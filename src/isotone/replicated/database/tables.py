"""The tables of a copy: their forms, a digest of each that follows every row, and the changes of a transaction.

The digest of a table is the sum of the digests of its rows, so a changed row costs one subtraction and one addition,
and a full scan must come to the same number. Rows are noticed by temporary triggers of ours, of which nothing stands in
the file. SQLite fires triggers of one row in no fixed order; sums and counts do not depend on it.

Implements: [COReL 8.1], copies that can be compared. Deviations: none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec
import xxhash

from isotone.replicated.database.changes import Cells, RowChange, TableChange, TableForm
from isotone.replicated.database.guard import NOTE, OWN
from isotone.replicated.outcome import CommandRefused

COLUMNS_MAX = 60
"""A trigger of ours hands both forms of a row to one function, which takes 127 arguments."""
ROWS_MAX = 100_000
KEY_MAX = 2**63 - 1
SCHEMA = ""
"""Under this name stands the digest of all definitions."""
_ENCODE = msgspec.msgpack.Encoder().encode


def quoted(name: str) -> str:
    """As an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def digest_of(table: str, cells: Cells) -> int:
    """Of one row."""
    return int(xxhash.xxh3_64_intdigest(_ENCODE((table, *cells))))


def forms_of(connection: sqlite3.Connection) -> dict[str, TableForm]:
    """All tables but ours and SQLite's, by name."""
    found = connection.execute("SELECT name, sql FROM main.sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    forms = {}
    for name, sql in found:
        if name.startswith(("sqlite_", OWN)):
            continue
        told = connection.execute("SELECT name, pk FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,)).fetchall()
        places = sorted((pk, place) for place, (_, pk) in enumerate(told) if pk)
        columns = tuple(column for column, _ in told)
        forms[name] = TableForm(name, sql, columns, tuple(place for _, place in places))
    return forms


def scan(connection: sqlite3.Connection, form: TableForm) -> int:
    """The digest of a table, from all of its rows."""
    columns = ", ".join(map(quoted, form.columns))
    rows = connection.execute(f"SELECT {columns} FROM main.{quoted(form.name)}")
    return sum(digest_of(form.name, row) for row in rows) % 2**64


def scan_all(connection: sqlite3.Connection, forms: Mapping[str, TableForm]) -> dict[str, int]:
    """Of all tables, and of the definitions."""
    return {SCHEMA: schema_digest(connection)} | {name: scan(connection, form) for name, form in forms.items()}


def schema_digest(connection: sqlite3.Connection) -> int:
    """Of all definitions."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_master ORDER BY type, name")
    kept = [row for row in rows if not row[2].startswith((OWN, "sqlite_"))]
    return int(xxhash.xxh3_64_intdigest(_ENCODE(kept)))


class Tables:
    """Of one connection. `begin` a transaction, `fold` after each statement, `take` what changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.forms: dict[str, TableForm] = {}
        self.digests: dict[str, int] = {}
        self._notes: list[tuple[Any, ...]] = []  # of the statement that runs
        self._net: dict[tuple[str, bytes], dict[bytes, int]] = {}  # by table and key: rows that came and went
        self._changes: list[TableChange | RowChange] = []
        self._rows = 0
        self._kept: tuple[dict[str, TableForm], dict[str, int]] = ({}, {})

    def load(self, digests: Mapping[str, int] | None = None) -> None:
        """Look at the tables; without digests that are known, by a scan."""
        self.forms = forms_of(self._connection)
        self.digests = scan_all(self._connection, self.forms) if digests is None else dict(digests)
        self.watch()

    # --- noticing ----------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Triggers on all tables."""
        for form in self.forms.values():
            old, new = ([f"{row}.{quoted(column)}" for column in form.columns] for row in ("OLD", "NEW"))
            for event, cells in (("INSERT", new), ("UPDATE", [*old, *new]), ("DELETE", old)):
                table = "'" + form.name.replace("'", "''") + "'"
                self._connection.execute(
                    f"CREATE TEMP TRIGGER {quoted(f'{OWN}{event}_{form.name}')} AFTER {event} ON main."
                    f"{quoted(form.name)} BEGIN SELECT {NOTE}({table}, '{event}', {', '.join(cells)}); END"
                )

    def unwatch(self) -> None:
        """No triggers: they would hinder a change of a table."""
        for name, *_ in self._connection.execute(
            "SELECT name FROM sqlite_temp_master WHERE type = 'trigger'"
        ).fetchall():
            self._connection.execute(f"DROP TRIGGER temp.{quoted(name)}")

    def note(self, *told: Any) -> None:
        """By a trigger: a row came, changed or went."""
        self._notes.append(told)

    # --- one transaction ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Nothing changed yet."""
        self._kept = (self.forms, dict(self.digests))
        self._notes, self._net, self._changes, self._rows = [], {}, [], 0

    def undo(self) -> None:
        """The transaction was rolled back, with its triggers."""
        self.forms, self.digests = self._kept

    def forget_statement(self) -> None:
        """The statement was undone."""
        self._notes = []

    def fold(self) -> None:
        """What the statement did."""
        notes, self._notes = self._notes, []
        for table, event, *cells in notes:
            width = len(self.forms[table].columns)
            if event != "INSERT":
                self._count(table, tuple(cells[:width]), -1)
            if event != "DELETE":
                self._count(table, tuple(cells[-width:]), 1)

    def _count(self, table: str, cells: Cells, sign: int) -> None:
        self._rows += 1
        if self._rows > 2 * ROWS_MAX:
            raise CommandRefused(f"a procedure changes at most {ROWS_MAX} rows")
        key = tuple(cells[place] for place in self.forms[table].key)
        if None in key or KEY_MAX in key:
            raise CommandRefused(f"a primary key of {table} is {key}: NULL and {KEY_MAX} cannot be replicated")
        self.digests[table] = (self.digests[table] + sign * digest_of(table, cells)) % 2**64
        counts = self._net.setdefault((table, _ENCODE(key)), {})
        row = _ENCODE(cells)
        counts[row] = counts.get(row, 0) + sign

    def redefine(self) -> None:
        """After a CREATE, DROP or ALTER: tables that are not as they were are told anew, with all of their rows."""
        self._flush()
        before, known = self.forms, self.digests
        self.forms = forms_of(self._connection)
        self.digests = {SCHEMA: schema_digest(self._connection)}
        for name in sorted(before.keys() | self.forms.keys()):
            form = self.forms.get(name)
            if form is None:
                self._changes.append(TableChange(name, None))
                continue
            check_form(form)
            self.digests[name] = scan(self._connection, form)
            if before.get(name) != form or known.get(name) != self.digests[name]:
                self._tell_anew(form)

    def _tell_anew(self, form: TableForm) -> None:
        self._changes.append(TableChange(form.name, form))
        columns = ", ".join(map(quoted, form.columns))
        key = ", ".join(quoted(form.columns[place]) for place in form.key)
        for row in self._connection.execute(f"SELECT {columns} FROM main.{quoted(form.name)} ORDER BY {key}"):
            self._rows += 2
            if self._rows > 2 * ROWS_MAX:
                raise CommandRefused(f"a procedure changes at most {ROWS_MAX} rows, and {form.name} has more")
            self._changes.append(RowChange(form.name, None, row))

    def _flush(self) -> None:
        """By table and key: the order in which triggers fire is SQLite's affair."""
        for (table, _), counts in sorted(self._net.items(), key=_place_of):
            old = next((row for row, count in counts.items() if count < 0), None)
            new = next((row for row, count in counts.items() if count > 0), None)
            if old is not None or new is not None:
                self._changes.append(RowChange(table, _cells(old), _cells(new)))
        self._net = {}

    def take(self) -> tuple[TableChange | RowChange, ...]:
        """All that the transaction changed."""
        self._flush()
        return tuple(self._changes)


def _place_of(net: tuple[tuple[str, bytes], object]) -> tuple[str, list[tuple[str, Any]]]:
    """By which the changes of rows are sorted: table and key, bytes, numbers, text."""
    (table, key), _ = net
    return table, [(type(cell).__name__, cell) for cell in msgspec.msgpack.decode(key)]


def _cells(row: bytes | None) -> Cells | None:
    return None if row is None else tuple(msgspec.msgpack.decode(row))


def check_form(form: TableForm) -> None:
    """Refuse a table whose rows could not be told apart, or not be watched."""
    if not form.key:
        raise CommandRefused(f"the table {form.name} has no primary key: its rows could not be told apart")
    if len(form.columns) > COLUMNS_MAX:
        raise CommandRefused(f"the table {form.name} has {len(form.columns)} columns; at most {COLUMNS_MAX}")
