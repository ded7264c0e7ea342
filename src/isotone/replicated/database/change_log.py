"""The changes of rows of all databases as a log beside the ordered log, so that an archive can keep them.

Procedures are code, so nobody who reads the log alone can tell which rows they changed; a replica can. Each position of
the log has one record here: the changes that the call at this position made, or nothing. The records are a function
of the log alone, equal at every replica.

Implements: [DESIGN 5], tables and streams; [COReL 8.1]. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.ordered_log import LogEntry
from isotone.replicated.database.changes import RowChange, TableChange, TableForm, TransactionChanges
from isotone.replicated.database.changes import encoder as _encoder
from isotone.replicated.database.state import DatabaseState, name_of
from isotone.replicated.errors import ChangesForgotten
from isotone.replicated.machine import Machine

FOLDER = "changes"
"""Below the place of an archive: the archive of changes."""
VERSION = 1


class PositionChanges(msgspec.Struct, frozen=True, array_like=True):
    """What the call at one position changed; ``forms`` are those of its tables, as they were at its end."""

    version: int
    database: str
    procedure: str
    changes: tuple[TableChange | RowChange, ...]
    forms: dict[str, TableForm]


_decoder = msgspec.msgpack.Decoder(PositionChanges)


class ChangeLog:
    """Of one replica: read as far as it has applied the log. Positions that changed no row have empty records."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def end(self) -> int:
        """The last position that is applied here."""
        return self._machine.state.position

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The positions ``first`` … ``last`` as far as they are applied; `LocalProtocolError` for what is forgotten."""
        last = min(last, self._machine.state.position)
        found: dict[int, bytes] = {}
        for state in self._machine.state.objects.values():
            if isinstance(state, DatabaseState):
                copy = self._machine.databases.copy_of(state)
                try:
                    told = copy.changes(first - 1, max(0, last + 1 - first))
                except ChangesForgotten as error:
                    raise LocalProtocolError(str(error)) from error
                found |= {each.position: encode_changes(name_of(state.kind), each) for each in told}
        return [LogEntry(position, found.get(position, b"")) for position in range(first, last + 1)]


def encode_changes(database: str, told: TransactionChanges) -> bytes:
    """The record of a transaction, the same at every replica."""
    forms = dict(sorted(told.forms.items()))
    return _encoder.encode(PositionChanges(VERSION, database, told.procedure, told.changes, forms))


def decode_changes(record: bytes) -> PositionChanges | None:
    """None for an empty record; an `InputError` for one that cannot be read."""
    if not record:
        return None
    try:
        found = _decoder.decode(record)
    except msgspec.DecodeError as error:
        raise InputError(f"this is no record of row changes: {error}") from error
    if found.version != VERSION:
        raise InputError(f"row changes of version {found.version} are unknown here; install a newer Isotone")
    return found
