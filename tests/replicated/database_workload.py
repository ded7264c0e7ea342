"""Random calls to a database: rows come, change and go, tables are made, altered and dropped, triggers fire."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from isotone.core.choice import Choice
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.transaction import Transaction
from isotone.replicated.records import Announced, Called, Opened, Ticked, encode

NAME = "book"
TABLES = ("account", "note", 'odd "name"')
FORMS = (
    "(id INTEGER PRIMARY KEY, name TEXT, amount REAL, data BLOB, extra)",
    "(name TEXT NOT NULL, id INTEGER NOT NULL, amount DECIMAL(10, 2) DEFAULT 1, PRIMARY KEY (name, id)) WITHOUT ROWID",
    "(id INTEGER, name TEXT COLLATE NOCASE PRIMARY KEY, amount INT)",
)
VALUES: tuple[Any, ...] = (None, 0, -7, 2**60, 1.5, "text", "über", "A", "a", b"\x00\xff", 3.0, "12")


def workload_procedures() -> Procedures:
    """One that runs what it is given, statements with their parameters; one that fails is left out."""
    made = Procedures(NAME)

    @made.procedure
    def run(db: Transaction, *statements: list[Any]) -> None:
        for each in statements:
            with suppress(sqlite3.Error):
                db.execute(*each)

    return made


def records(seed: int, length: int) -> list[bytes]:
    """A log of so many records; some calls are refused, and some records are of no database."""
    choice = Choice(f"database/{seed}")
    made = [encode(Announced("a", ("a",), f"database:{NAME}", ("run",))), encode(Opened("nonce", 5))]
    for request in range(1, length):
        if choice.chance(0.05):
            made.append(encode(Ticked("nobody", 0, ("a",))))
        statements = tuple(_statement(choice, request) for _ in range(choice.between(1, 4)))
        made.append(encode(Called(2, request, request, f"database:{NAME}", NAME, "run", statements)))
    return made[:length]


def _statement(choice: Choice, request: int) -> list[Any]:
    table = '"' + choice.pick(TABLES).replace('"', '""') + '"'
    if request < 4 or choice.chance(0.08):
        return _definition(choice, table, request)
    key, value = choice.between(0, 30), choice.pick(VALUES)
    return choice.pick(
        (
            [f"INSERT OR REPLACE INTO {table} (id, name, amount) VALUES (?, ?, ?)", key, f"n{key % 7}", value],
            [f"INSERT OR IGNORE INTO {table} (id, name, amount) VALUES (?, ?, ?)", key, f"N{key % 7}", key / 2],
            [f"UPDATE OR REPLACE {table} SET amount = ?, name = name || 'x' WHERE id % 5 = ?", value, key % 5],
            [f"UPDATE OR REPLACE {table} SET id = id + 1 WHERE id > ?", key],
            [f"UPDATE {table} SET amount = ? WHERE id < ?", value, key],
            [f"DELETE FROM {table} WHERE id % 4 = ?", key % 4],
            [f"DELETE FROM {table} WHERE id = ?", key],
        )
    )


def _definition(choice: Choice, table: str, request: int) -> list[Any]:
    return [
        choice.pick(
            (
                f"CREATE TABLE IF NOT EXISTS {table} {choice.pick(FORMS)}",
                f"CREATE TABLE IF NOT EXISTS {table} {choice.pick(FORMS)}",
                f"CREATE TABLE IF NOT EXISTS {table} {choice.pick(FORMS)}",
                f"DROP TABLE IF EXISTS {table}",
                f"ALTER TABLE {table} ADD COLUMN c{request} TEXT DEFAULT 'new'",
                f"ALTER TABLE {table} RENAME COLUMN amount TO amount",
                f"CREATE INDEX IF NOT EXISTS i{request} ON {table} (amount)",
                f"CREATE TRIGGER IF NOT EXISTS t{request % 3} AFTER UPDATE ON {table} WHEN new.id > 20 BEGIN "
                f"DELETE FROM {table} WHERE id = new.id - 20; END",
            )
        )
    ]
