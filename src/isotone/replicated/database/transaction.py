"""What a procedure is given: SQL on the copy of this replica, inside of the one transaction that the call is.

Implements: [COReL 8.1]. Deviations: none.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from isotone.core.errors import MachineError
from isotone.replicated.database.guard import Guard, Use
from isotone.replicated.database.tables import Tables
from isotone.replicated.outcome import CommandRefused

RESULT_ROWS_MAX = 100_000
MACHINE_FAULTS = frozenset(
    {
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
        *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB),
    }
)
"""What happens to one replica and not to the others: never an answer to a call."""
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
_DEFINITIONS = frozenset({"create", "drop", "alter"})


class Transaction:
    """``db`` of a procedure. It is over when the procedure returns."""

    def __init__(self, connection: sqlite3.Connection, guard: Guard, tables: Tables) -> None:
        self._connection, self._guard, self._tables = connection, guard, tables
        self.changed = 0  # rows that the last statement changed
        self.fault: BaseException | None = None  # of the machine; what the procedure makes of it counts for nothing
        self._is_over = False

    def execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement with parameters for its question marks; its rows."""
        if self._is_over or self._guard.refusal or self.fault is not None:
            raise CommandRefused(self._guard.refusal or "the transaction is over")
        word = _FIRST_WORD.match(sql)
        is_definition = word is not None and word[1].lower() in _DEFINITIONS
        try:
            return self._define(sql, parameters) if is_definition else self._run(sql, parameters)
        except (sqlite3.Error, MemoryError) as error:
            if is_machine_fault(error):
                self.fault = error
            elif self._guard.refusal:
                raise CommandRefused(self._guard.refusal) from error
            raise

    def finish(self) -> None:
        """The procedure has returned, or raised."""
        self._is_over = True

    def _run(self, sql: str, parameters: Sequence[Any], use: Use = Use.PROCEDURE) -> list[tuple[Any, ...]]:
        """One statement: all of it, or nothing."""
        guard, connection = self._guard, self._connection
        guard.count_statement()
        connection.execute("SAVEPOINT isotone_statement")
        guard.use = use
        try:
            cursor = connection.execute(sql, parameters)
            rows = cursor.fetchmany(RESULT_ROWS_MAX + 1)
            self.changed = max(0, cursor.rowcount)
            cursor.close()
            if len(rows) > RESULT_ROWS_MAX:
                guard.refuse(f"a statement returned more than {RESULT_ROWS_MAX} rows")
        except BaseException:
            guard.use = Use.OURS
            self._tables.forget_statement()
            if connection.in_transaction:
                connection.execute("ROLLBACK TO isotone_statement")
                connection.execute("RELEASE isotone_statement")
            else:
                guard.refuse("a statement rolled the whole transaction back")
            raise
        guard.use = Use.OURS
        connection.execute("RELEASE isotone_statement")
        try:
            self._tables.fold()
        except CommandRefused as refused:
            guard.refuse(str(refused))
        if guard.refusal:
            raise CommandRefused(guard.refusal)
        return rows

    def _define(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """A CREATE, DROP or ALTER: without our triggers, which would hinder it."""
        before = self._version()
        self._tables.unwatch()
        try:
            rows = self._run(sql, parameters, Use.DEFINITION)
            if self._version() != before:
                self._tables.redefine()
        except CommandRefused as refused:
            self._guard.refuse(str(refused))
            raise
        finally:
            if self._connection.in_transaction and not self._guard.refusal:
                self._tables.watch()
        return rows

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA main.schema_version").fetchone()[0])


def is_machine_fault(error: BaseException) -> bool:
    """Whether it is this machine's, and not that of the statement."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, MemoryError) or (code is not None and code & 0xFF in MACHINE_FAULTS)


def told_fault(name: str, error: BaseException) -> MachineError:
    """For who runs this replica."""
    return MachineError(
        f"the copy of the database {name} cannot be used here: {error}. Nothing is lost: mend it and start again"
    )
