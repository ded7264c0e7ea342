"""What a replica's state knows of a database, and the databases that a program has: procedures, files, copies.

The rows are in a file. The state keeps the position of the last call and the digests behind it, so that states of
replicas are compared with all of their rows; a snapshot holds the file too.

Implements: [COReL 8.1]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from isotone.core.errors import InputError, LocalProtocolError
from isotone.replicated.database.database_copy import DatabaseCopy
from isotone.replicated.database.files import DatabaseFiles, MemoryFiles
from isotone.replicated.database.procedures import KIND, Procedures
from isotone.replicated.outcome import CommandRefused, Context


class DatabaseState(msgspec.Struct, tag="database"):
    """Of one database. ``image`` is filled in a snapshot only."""

    kind: str
    applied: int = 0  # the position of the last call
    digests: dict[str, int] = {}
    image: bytes = b""

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call the procedure."""
        assert context.databases is not None
        copy = context.databases.copy_of(self)
        if method not in context.databases.names_of(self.kind):
            raise InputError(
                f"this program's {name_of(self.kind)} has no procedure {method}: it is older than the others"
            )
        done = copy.call(context.position, xxh3_128_digest(context.record), method, arguments)
        self.applied, self.digests = context.position, done.digests
        if done.error:
            raise CommandRefused(done.error)
        return done.value

    def release(self, context: Context, session: int) -> None:
        """Nothing belongs to a session."""


def name_of(kind: str) -> str:
    """Of the database."""
    return kind.removeprefix(KIND)


class Databases:
    """Of one program. ``files``: where its copies are."""

    def __init__(
        self, procedures: Iterable[Procedures] = (), files: DatabaseFiles | None = None, *, twice: bool = False
    ) -> None:
        self.twice = twice  # run each procedure on the same rows twice and compare, for tests
        self.files: DatabaseFiles = files or MemoryFiles()
        self._known: dict[str, Procedures] = {}
        self._copies: dict[str, DatabaseCopy] = {}
        for each in procedures:
            self.add(each)

    def add(self, procedures: Procedures) -> str:
        """The kind under which it stands."""
        known = self._known.setdefault(procedures.kind, procedures)
        if known is not procedures:
            raise LocalProtocolError(f"two databases are named {procedures.name}; rename one")
        if not procedures.names:
            raise LocalProtocolError(f"the database {procedures.name} has no procedure: mark functions with @procedure")
        return procedures.kind

    @property
    def kinds(self) -> Mapping[str, Procedures]:
        """All that are known here."""
        return self._known

    def names_of(self, kind: str) -> tuple[str, ...]:
        """The procedures of a kind that are known here."""
        known = self._known.get(kind)
        return () if known is None else known.names

    def copy_of(self, state: DatabaseState) -> DatabaseCopy:
        """The copy, opened if need be; its procedures are known."""
        copy = self._copies.get(state.kind)
        if copy is None:
            copy = self._copies[state.kind] = DatabaseCopy(self._known[state.kind], self.files, twice=self.twice)
            copy.open(state.image, state.applied, state.digests)
        return copy

    def restore(self, states: Iterable[DatabaseState]) -> None:
        """Another state took the place of ours: copies that are older are made anew."""
        self.close()
        for state in states:
            if state.kind in self._known:
                self.copy_of(state)
            state.image = b""

    def fill(self, states: Iterable[DatabaseState]) -> None:
        """Put the images into the states, for a snapshot; not while a copy is further than its state."""
        for state in states:
            copy = self.copy_of(state)
            if copy.position != state.applied:
                raise LocalProtocolError(f"the database {copy.name} is further than the rest of the state")
            state.image = copy.image()

    def positions(self) -> dict[str, int]:
        """The last call of each copy."""
        return {kind: copy.position for kind, copy in self._copies.items()}

    def forget_calls(self, positions: Mapping[str, int]) -> None:
        """A snapshot is kept by the log in which copies were as far as this."""
        for kind, position in positions.items():
            if kind in self._copies:
                self._copies[kind].forget_calls(position)

    def close(self) -> None:
        """Close all copies."""
        for copy in self._copies.values():
            copy.close()
        self._copies.clear()
