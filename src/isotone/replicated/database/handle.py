"""A replicated database as programs use it: call procedures, read with SQL, follow the changes of rows.

Implements: [COReL 8.1]; docs/guide/replicated.md "A database". Deviations: none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from isotone.core.errors import LocalProtocolError
from isotone.replicated.caller import Caller, ReplicatedObject
from isotone.replicated.database.changes import TransactionChanges
from isotone.replicated.database.database_copy import DatabaseCopy
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.state import DatabaseState
from isotone.replicated.own_class import bound_arguments, until_announced

CHANGES_AT_ONCE = 256


class ReplicatedDatabase(ReplicatedObject):
    """``await bank.call("transfer", "alice", "bob", 5)``; ``await bank.read("SELECT …")``."""

    def __init__(self, caller: Caller, procedures: Procedures) -> None:
        super().__init__(caller, procedures.name)
        self.kind, self._procedures = caller.machine.databases.add(procedures), procedures

    async def call(self, procedure: str, *arguments: Any, within_s: float | None = None) -> Any:
        """Run a procedure at its place in the order; its result. `Rejected` if it raised: then nothing changed."""
        function = self._procedures.functions.get(procedure)
        if function is None:
            raise LocalProtocolError(f"{self.name} has no procedure {procedure!r}")
        bound = bound_arguments(f"{self.name}.{procedure}", function, arguments, {})
        await until_announced(self._caller, self.kind, procedure, within_s)
        return (await self._call(procedure, *bound, within_s=within_s)).value

    async def read(
        self,
        sql: str,
        *parameters: Any,
        stale_ok: bool = False,
        at_least: int | None = None,
        within_s: float | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a SELECT, from the copy here; see `ReplicatedDict.get` for what a read may be."""
        await self._caller.go_behind(stale_ok=stale_ok, at_least=at_least, within_s=within_s)
        return (await self._copy()).read(sql, parameters)

    async def changes(self, *, after: int | None = None) -> AsyncIterator[TransactionChanges]:
        """The changes of each transaction behind this position (else from now on), in their order, each once.

        `ChangesForgotten` if they are not kept any more; those of the last 10,000 calls are.
        """
        machine = self._caller.machine
        seen = machine.state.position if after is None else after
        while True:
            copy = await self._copy()
            position = machine.state.position
            found = copy.changes(seen, CHANGES_AT_ONCE)
            for each in found:
                seen = each.position
                yield each
            if len(found) < CHANGES_AT_ONCE:
                seen = max(seen, position)
                await self._caller.applied_beyond(position)

    async def _copy(self) -> DatabaseCopy:
        """The copy, as soon as the rest of the state is as far: after a start it may be behind."""
        machine = self._caller.machine
        if self.name in machine.blind:
            raise LocalProtocolError(
                f"open {self.name} with its procedures before it is used: connect_replica(databases=[...])"
            )
        found = machine.state.objects.get(self.name)
        if found is not None and not (isinstance(found, DatabaseState) and found.kind == self.kind):
            raise LocalProtocolError(f"{self.name} is no database")
        copy = machine.databases.copy_of(found or DatabaseState(self.kind))
        await self._caller.applied_beyond(copy.position - 1)
        return copy
