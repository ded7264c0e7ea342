"""What SQL may do in a procedure and in a read, so that every replica does the same.

SQLite asks the authorizer for each thing that a statement wants. Functions that answer differently at different
replicas are taken away twice: the authorizer refuses them by name, and in their place stands one that fails, for those
that hide in a column's default. Dates may be computed, but not asked for ``now``. Work is counted in steps of SQLite's
machine, the same number at every replica, never in time.

Implements: [COReL 8.1], deterministic state machines. Deviations: none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from enum import Enum
from typing import Any

STEPS_MAX = 20_000_000
STEPS_AT_ONCE = 1_000
STATEMENT_STEPS = 100
"""What a statement counts at least, so that a loop over cheap ones ends too."""
LENGTH_MAX = 16 * 1024 * 1024
OWN = "isotone_"
NOTE = f"{OWN}note"
"""By which our triggers tell of a changed row."""

HISTORY = frozenset({"changes", "total_changes", "last_insert_rowid"})
CHANCE = frozenset({"random", "randomblob"})
CLOCKS = frozenset({"current_timestamp", "current_date", "current_time"})
PROGRAM = frozenset(
    {"sqlite_version", "sqlite_source_id", "sqlite_compileoption_get", "sqlite_compileoption_used", "sqlite_offset"}
)
DATES = frozenset({"date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"})
FORBIDDEN = HISTORY | CHANCE | CLOCKS | PROGRAM | {"load_extension"}
INSTEAD = (
    dict.fromkeys(CHANCE, "take a parameter named random")
    | dict.fromkeys(CLOCKS, "take a parameter named now")
    | {"last_insert_rowid": "use RETURNING", "changes": "use db.changed"}
)
NOW = frozenset({"now", "localtime", "utc"})
NOW_FIRST = frozenset({"now", "subsec", "subsecond"})

READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
WRITING = READING | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
DEFINING = frozenset(
    {
        *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_VIEW),
        *(sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX),
        *(sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_DROP_TRIGGER, sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_REINDEX),
    }
)
NAMES = {
    getattr(sqlite3, name): name.removeprefix("SQLITE_").replace("_", " ")
    for name in (
        *("SQLITE_PRAGMA", "SQLITE_TRANSACTION", "SQLITE_SAVEPOINT", "SQLITE_ATTACH", "SQLITE_DETACH"),
        *("SQLITE_ANALYZE", "SQLITE_CREATE_VTABLE", "SQLITE_DROP_VTABLE", "SQLITE_CREATE_TEMP_TABLE"),
        *("SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE"),
    )
}


class Use(Enum):
    """Who uses the connection now."""

    OURS = "ours"  # no rules
    PROCEDURE = "procedure"
    DEFINITION = "definition"  # a procedure's CREATE, DROP or ALTER
    READ = "read"


class Guard:
    """Of one connection."""

    def __init__(self, connection: sqlite3.Connection, on_note: Callable[..., None]) -> None:
        self.use = Use.OURS
        self.refusal = ""  # why something was not allowed; stays until it is taken
        self.steps = 0
        self._plain = sqlite3.connect(":memory:")  # has SQLite's own functions
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._progress, STEPS_AT_ONCE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LENGTH_MAX)
        connection.create_function(NOTE, -1, on_note)
        for name in sorted(FORBIDDEN - HISTORY - {"load_extension", "sqlite_offset"}):
            connection.create_function(name, -1, self._forbidden(name))
        for name in sorted(HISTORY):
            connection.create_function(name, 0, self._forbidden(name))
        for name in sorted(DATES):
            connection.create_function(name, -1, self._dated(name), deterministic=True)

    def begin(self, use: Use) -> None:
        """From here on, by these rules; steps are counted anew."""
        self.use, self.refusal, self.steps = use, "", 0

    def end(self) -> str:
        """Our own statements again; why something was refused meanwhile, if so."""
        refusal, self.use, self.refusal = self.refusal, Use.OURS, ""
        return refusal

    def count_statement(self) -> None:
        """One more."""
        self.steps += STATEMENT_STEPS
        self._check_steps()

    def refuse(self, why: str) -> None:
        """The first reason is told."""
        self.refusal = self.refusal or why

    # --- what SQLite asks --------------------------------------------------------------------------------------------

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
    ) -> int:
        if self.use is Use.OURS or (trigger or "").startswith(OWN):
            return sqlite3.SQLITE_OK
        why = self._why_not(action, first, second, database)
        if why:
            self.refuse(why)
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _why_not(self, action: int, first: str | None, second: str | None, database: str | None) -> str:
        allowed = READING if self.use is Use.READ else WRITING
        if self.use is Use.DEFINITION:
            allowed = allowed | DEFINING
        if action not in allowed:
            what = NAMES.get(action, "this statement")
            return f"{what} is not allowed in a {'read' if self.use is Use.READ else 'procedure'}"
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            if name in (NOTE, "load_extension") or (name in FORBIDDEN and self.use is not Use.READ):
                return not_deterministic(name)
            return ""
        names = [name.lower() for name in (first, second) if name]
        is_temporary = database == "temp" or any(name.startswith("sqlite_temp") for name in names)
        if any(name.startswith(OWN) for name in names) or (is_temporary and self.use is not Use.DEFINITION):
            return f"tables whose names begin with {OWN} are the replica's own"
        return ""  # a RENAME looks for itself whether temporary triggers name the table

    def _progress(self) -> int:
        if self.use is Use.OURS:
            return 0
        self.steps += STEPS_AT_ONCE
        return int(self._check_steps())

    def _check_steps(self) -> bool:
        if self.steps > STEPS_MAX:
            self.refuse(f"it took more than {STEPS_MAX} steps of SQLite: a loop, or a scan that needs an index")
        return self.steps > STEPS_MAX

    # --- functions ---------------------------------------------------------------------------------------------------

    def _forbidden(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.use in (Use.OURS, Use.READ):
                return self._ask(name, arguments)
            self.refuse(not_deterministic(name))
            raise ValueError(name)

        return call

    def _dated(self, name: str) -> Callable[..., Any]:
        first = 1 if name == "strftime" else 0

        def call(*arguments: Any) -> Any:
            if self.use not in (Use.OURS, Use.READ):
                words = [each.strip().lower() for each in arguments if isinstance(each, str)]
                times = [str(each).strip().lower() for each in arguments[first : first + 1]]
                if len(arguments) <= first or NOW & set(words) or NOW_FIRST & set(times):
                    self.refuse(f"{name}() would read the clock or the time zone: take a parameter named now")
                    raise ValueError(name)
            return self._ask(name, arguments)

        return call

    def _ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        marks = ", ".join("?" * len(arguments))
        call = name if name in CLOCKS else f"{name}({marks})"
        return self._plain.execute(f"SELECT {call}", arguments).fetchone()[0]


def not_deterministic(name: str) -> str:
    """In a sentence, with what to do instead."""
    instead = INSTEAD.get(name, "pass what it needs as an argument")
    return f"{name}() is not the same at every replica: {instead}"
