"""One replica's copy of a database: calls are applied to it in their order, each with its position, in one transaction.

Each call leaves a row in the file: its position, the digest of its record, its answer and its changes. So a copy that
is further than the rest of the replica's state, after a restart, answers calls that come again as it did. A copy that
is older than a snapshot, damaged, of another history, or not what its digests say, is set aside and made anew.

Implements: [COReL 8.1]; docs/protocols/replicated.md "A database". Deviations: none.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from isotone.core.errors import LocalProtocolError, MachineError
from isotone.replicated.database.changes import TransactionChanges, decoder, encoder
from isotone.replicated.database.files import DatabaseFiles
from isotone.replicated.database.guard import Guard, Use
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.tables import Tables, forms_of, scan_all
from isotone.replicated.database.transaction import RESULT_ROWS_MAX, Transaction, is_machine_fault, told_fault
from isotone.replicated.errors import ChangesForgotten
from isotone.replicated.outcome import DEPTH_MAX, CommandRefused, check_own_fault, is_too_deep

log = logging.getLogger("isotone.replicated")

CALLS_KEPT = 10_000
"""So many of the newest stay with their changes, and all behind the newest snapshot."""
RESULT_BYTES_MAX = 1024 * 1024
OWN_TABLES = (
    "CREATE TABLE IF NOT EXISTS isotone_calls "
    "(position INTEGER PRIMARY KEY, record BLOB NOT NULL, done BLOB NOT NULL, changes BLOB)",
    "CREATE TABLE IF NOT EXISTS isotone_copy "
    "(place INTEGER PRIMARY KEY CHECK (place = 1), position INTEGER NOT NULL, digests BLOB NOT NULL, "
    "forgotten INTEGER NOT NULL)",
)
PRAGMAS = ("PRAGMA foreign_keys = ON", "PRAGMA recursive_triggers = ON", "PRAGMA trusted_schema = ON")
BEHIND_OUR_BACK = (
    "the copy of the database {} was changed behind our back: only procedures may write to it. "
    "Start this program again: the copy is then made anew from the log"
)


class CallDone(msgspec.Struct, frozen=True, array_like=True):
    """What a call came to, and the digests of all tables behind it."""

    value: Any
    error: str
    digests: dict[str, int]


_done_decoder = msgspec.msgpack.Decoder(CallDone)


class DatabaseCopy:
    """Of one database; ``twice`` runs each procedure twice and compares, for tests."""

    def __init__(self, procedures: Procedures, files: DatabaseFiles, *, twice: bool = False) -> None:
        self.name, self._procedures, self._files = procedures.name, procedures, files
        self._twice = twice
        self.position = 0  # of the last call that is applied here
        self._forgotten = 0  # changes up to here are not kept
        self._connection: sqlite3.Connection | None = None

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self, image: bytes, position: int, digests: Mapping[str, int]) -> None:
        """Use what is here if it is sound and not older than this image, which stands for calls up to ``position``."""
        problem = self._try_open(position, digests)
        if not problem:
            return
        self.close()
        if problem != "older":
            aside = self._files.set_aside(self.name)
            log.error("the copy of the database %s %s: it is made anew; the old one: %s", self.name, problem, aside)
        if image:
            self._files.replace(self.name, image)
        elif problem == "older":
            self._files.set_aside(self.name)
        if problem := self._try_open(position, digests):
            self.close()
            raise MachineError(f"the database {self.name} of the snapshot {problem}")

    def _try_open(self, position: int, digests: Mapping[str, int]) -> str:
        """What is wrong with the copy that is there, or "older"."""
        try:
            connection = self._connection = self._files.open(self.name)
            for pragma in PRAGMAS:
                connection.execute(pragma)
            self._tables = Tables(connection)
            self._guard = Guard(connection, self._tables.note)
            for definition in OWN_TABLES:
                connection.execute(definition)
            found = connection.execute("SELECT position, digests, forgotten FROM isotone_copy").fetchone()
            self.position, self._forgotten = (found[0], found[2]) if found else (0, 0)
            known: dict[str, int] = msgspec.msgpack.decode(found[1]) if found else {}
            self._tables.load()
            problem = self._problem(known) if found else self._problem(self._tables.digests)
            self._touched = self._data_version()
            return problem or self._why_not_this(position, digests)
        except sqlite3.Error as error:
            if is_machine_fault(error) and "malformed" not in str(error) and "not a database" not in str(error):
                raise told_fault(self.name, error) from error
            return f"cannot be read ({error})"

    def _problem(self, known: Mapping[str, int]) -> str:
        assert self._connection is not None
        (told,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if told != "ok":
            return f"is damaged ({told})"
        return "" if known == self._tables.digests else "was changed behind our back"

    def _why_not_this(self, position: int, digests: Mapping[str, int]) -> str:
        """Whether the calls up to this position came to these digests here."""
        assert self._connection is not None
        if self.position < position:
            return "older"
        if not position:
            return ""
        found = self._connection.execute("SELECT done FROM isotone_calls WHERE position = ?", (position,)).fetchone()
        if found is None or _done_decoder.decode(found[0]).digests != digests:
            return "belongs to another history"
        return ""

    def close(self) -> None:
        """Nobody uses it any more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise MachineError(f"the copy of the database {self.name} is closed")
        if self._data_version() != self._touched:
            raise MachineError(BEHIND_OUR_BACK.format(self.name))
        return self._connection

    def _data_version(self) -> int:
        assert self._connection is not None
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, position: int, record: bytes, procedure: str, arguments: tuple[Any, ...]) -> CallDone:
        """Apply a call, or tell what it came to when it was applied."""
        try:
            connection = self._open_connection()
            if position <= self.position:
                return self._done_before(connection, position, record)
            done, changes = self._apply(connection, procedure, arguments)
            self._keep((position, record), procedure, done, changes)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if error.__class__ is sqlite3.IntegrityError:  # a foreign key that is checked at the end
                return self._refuse_late(position, record, procedure, str(error))
            raise told_fault(self.name, error) from error
        self._committed(position)
        return done

    def _refuse_late(self, position: int, record: bytes, procedure: str, why: str) -> CallDone:
        connection = self._open_connection()
        connection.execute("ROLLBACK")
        self._tables.undo()
        connection.execute("BEGIN IMMEDIATE")
        done = CallDone(None, f"{procedure}: {why}", self._sorted_digests())
        self._keep((position, record), procedure, done, ())
        connection.execute("COMMIT")
        self._committed(position)
        return done

    def _committed(self, position: int) -> None:
        assert self._connection is not None
        self.position = position
        self._touched = self._data_version()
        self._files.committed(self.name, self._connection)

    def _done_before(self, connection: sqlite3.Connection, position: int, record: bytes) -> CallDone:
        found = connection.execute("SELECT record, done FROM isotone_calls WHERE position = ?", (position,)).fetchone()
        if found is None or found[0] != record:
            self.close()
            self._files.set_aside(self.name)
            raise MachineError(
                f"the copy of the database {self.name} belongs to another history of the log: it is set aside. "
                "Start this program again: the copy is then made anew from the log"
            )
        return _done_decoder.decode(found[1])

    def _apply(
        self, connection: sqlite3.Connection, procedure: str, arguments: tuple[Any, ...]
    ) -> tuple[CallDone, Any]:
        """In an open transaction: what the call came to, and its changes."""
        connection.execute("BEGIN IMMEDIATE")
        first = self._attempt(connection, procedure, arguments)
        if self._twice:
            connection.execute("ROLLBACK")
            self._tables.undo()
            connection.execute("BEGIN IMMEDIATE")
            if encoder.encode(self._attempt(connection, procedure, arguments)) != encoder.encode(first):
                raise LocalProtocolError(
                    f"the procedure {procedure} of {self.name} is not deterministic: run twice on the same rows with "
                    "the same arguments, it came to different results. See docs/guide/replicated.md, 'A database'."
                )
        return first

    def _attempt(
        self, connection: sqlite3.Connection, procedure: str, arguments: tuple[Any, ...]
    ) -> tuple[CallDone, Any]:
        self._tables.begin()
        try:
            value = self._run(connection, procedure, arguments)
        except CommandRefused as refused:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._tables.undo()
            connection.execute("BEGIN IMMEDIATE")
            return CallDone(None, str(refused), self._sorted_digests()), ()
        return CallDone(value, "", self._sorted_digests()), self._tables.take()

    def _sorted_digests(self) -> dict[str, int]:
        """In one order, so that states are equal byte for byte."""
        return dict(sorted(self._tables.digests.items()))

    def _run(self, connection: sqlite3.Connection, procedure: str, arguments: tuple[Any, ...]) -> Any:
        """The procedure's result; `CommandRefused` for whatever it did wrong."""
        function = self._procedures.functions[procedure]
        own = msgspec.msgpack.decode(msgspec.msgpack.encode(arguments))
        transaction = Transaction(connection, self._guard, self._tables)
        self._guard.begin(Use.OURS)
        told = ""
        try:
            value = function(transaction, *own)
        except Exception as error:
            check_own_fault(error, f"the procedure {procedure} of {self.name}")
            told = str(error) if isinstance(error, CommandRefused) else f"raised {type(error).__name__}: {error}"
        finally:
            transaction.finish()
            refusal = self._guard.end()
        if transaction.fault is not None:
            raise told_fault(self.name, transaction.fault) from transaction.fault
        if told := refusal or told:
            raise CommandRefused(f"{procedure}: {told}")
        try:
            encoded = msgspec.msgpack.encode(value)
        except (TypeError, ValueError, OverflowError, NotImplementedError, RecursionError, MemoryError) as error:
            check_own_fault(error, f"the procedure {procedure} of {self.name}")
            raise CommandRefused(f"{procedure} returned what cannot be encoded: {error}") from error
        if len(encoded) > RESULT_BYTES_MAX:
            raise CommandRefused(f"{procedure} returned {len(encoded)} bytes; at most {RESULT_BYTES_MAX}")
        result = msgspec.msgpack.decode(encoded)
        if is_too_deep(result):
            raise CommandRefused(f"{procedure} returned a value that is nested deeper than {DEPTH_MAX}")
        return result

    def _keep(self, place: tuple[int, bytes], procedure: str, done: CallDone, changes: tuple[Any, ...]) -> None:
        """In the same transaction: the position with the digest of its record, the answer and the changes."""
        assert self._connection is not None
        position, record = place
        told: bytes | None = None
        if changes:
            forms = {each.table: self._tables.forms[each.table] for each in changes if each.table in self._tables.forms}
            told = encoder.encode(TransactionChanges(position, procedure, changes, forms))
        row = (position, record, encoder.encode(done), told)
        self._connection.execute("INSERT INTO isotone_calls VALUES (?, ?, ?, ?)", row)
        copy = (position, encoder.encode(done.digests), self._forgotten)
        self._connection.execute("INSERT OR REPLACE INTO isotone_copy VALUES (1, ?, ?, ?)", copy)

    def forget_calls(self, snapshot: int) -> None:
        """Calls before the newest snapshot are not applied again: only the last ones stay, for their changes."""
        connection = self._open_connection()
        try:
            oldest = connection.execute(
                "SELECT position FROM isotone_calls ORDER BY position DESC LIMIT 1 OFFSET ?", (CALLS_KEPT,)
            ).fetchone()
            last = min(snapshot - 1, oldest[0] if oldest else 0)
            if last > self._forgotten:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM isotone_calls WHERE position <= ?", (last,))
                connection.execute("UPDATE isotone_copy SET forgotten = ?", (last,))
                connection.execute("COMMIT")
                self._forgotten = last
                self._committed(self.position)
        except sqlite3.Error as error:
            raise told_fault(self.name, error) from error

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The rows of a SELECT; `LocalProtocolError` for anything that writes, and for one that takes too long."""
        connection = self._open_connection()
        self._guard.begin(Use.READ)
        told = ""
        try:
            cursor = connection.execute(sql, parameters)
            rows = cursor.fetchmany(RESULT_ROWS_MAX + 1)
            cursor.close()
        except sqlite3.Error as error:
            if is_machine_fault(error):
                raise told_fault(self.name, error) from error
            told = str(error)
        finally:
            refusal = self._guard.end()
        if told := refusal or told:
            raise LocalProtocolError(f"{self.name} was not read: {told}")
        if len(rows) > RESULT_ROWS_MAX:
            raise LocalProtocolError(f"a read returns at most {RESULT_ROWS_MAX} rows: read in parts, with LIMIT")
        return rows

    def image(self) -> bytes:
        """The copy as bytes, for a snapshot."""
        return self._open_connection().serialize()

    def changes(self, after: int, count: int) -> list[TransactionChanges]:
        """Those of so many transactions behind a position; `ChangesForgotten` when some are not kept any more."""
        if after < self._forgotten:
            raise ChangesForgotten(
                f"changes of {self.name} behind position {after} are not kept; the oldest kept are behind "
                f"{self._forgotten}: begin with a copy of the tables"
            )
        rows = self._open_connection().execute(
            "SELECT changes FROM isotone_calls WHERE position > ? AND changes IS NOT NULL ORDER BY position LIMIT ?",
            (after, count),
        )
        return [decoder.decode(changes) for (changes,) in rows.fetchall()]

    def problems(self) -> list[str]:
        """By a scan of everything: what is damaged, and tables that are not what they should be."""
        try:
            connection = self._open_connection()
            found = [str(told) for (told,) in connection.execute("PRAGMA integrity_check(10)") if told != "ok"]
            scanned = scan_all(connection, forms_of(connection))
        except (MachineError, sqlite3.Error) as error:
            return [str(error)]
        known = self._tables.digests
        for table in sorted(known.keys() | scanned.keys()):
            if known.get(table) != scanned.get(table):
                found.append(f"{table or 'a definition'} is not what procedures made of it")
        return found
