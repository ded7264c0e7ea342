"""The objects by name, for every way in: a replica, a connection, a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.core.errors import LocalProtocolError
from isotone.replicated.caller import Caller, ReplicatedObject
from isotone.replicated.collections import ReplicatedCounter, ReplicatedQueue, ReplicatedSet
from isotone.replicated.database.handle import ReplicatedDatabase
from isotone.replicated.database.procedures import KIND, Procedures
from isotone.replicated.dictionary import ReplicatedDict
from isotone.replicated.locks import Barrier, Commitment, Leader, Lock, ReadWriteLock, Semaphore
from isotone.replicated.machine import Machine
from isotone.replicated.own_class import ReplicatedInstance
from isotone.replicated.records import REMOVE


class ObjectFactory(Caller):
    """Objects of one caller. Those of one name are the same object, in whichever program they are opened."""

    machine: Machine

    async def remove(self, each: ReplicatedObject, *, within_s: float | None = None) -> bool:
        """Remove an object with all that is in it; whether it was there. The next command of that name makes a new one.

        `Rejected` while somebody holds it, waits for it or works on an item of it, while a commitment is not decided,
        and for a database.
        """
        return bool((await each._call(REMOVE, within_s=within_s)).value)

    def dict(self, name: str, of: type[Any] | None = None) -> ReplicatedDict:
        """Keys and values; ``of`` is the type of values."""
        return ReplicatedDict(self, name, of)

    def counter(self, name: str) -> ReplicatedCounter:
        """A number."""
        return ReplicatedCounter(self, name)

    def set(self, name: str, of: type[Any] | None = None) -> ReplicatedSet:
        """Members; ``of`` is their type."""
        return ReplicatedSet(self, name, of)

    def queue(self, name: str, of: type[Any] | None = None) -> ReplicatedQueue:
        """Items that come back when their taker dies; ``of`` is their type."""
        return ReplicatedQueue(self, name, of)

    def lock(self, name: str) -> Lock:
        """One holder at a time."""
        return Lock(self, name)

    def read_write_lock(self, name: str) -> ReadWriteLock:
        """Many readers or one writer."""
        return ReadWriteLock(self, name)

    def semaphore(self, name: str, permits: int) -> Semaphore:
        """So many holders at a time."""
        return Semaphore(self, name, permits)

    def leader(self, name: str, of: type[Any] | None = None) -> Leader:
        """An election; ``of`` is the type of what a leader says of itself."""
        return Leader(self, name, of)

    def barrier(self, name: str, parties: int) -> Barrier:
        """All wait for all."""
        return Barrier(self, name, parties)

    def commitment(self, name: str, participants: Sequence[str]) -> Commitment:
        """All commit or all abort."""
        return Commitment(self, name, participants)

    def database(self, name: str | Procedures) -> ReplicatedDatabase:
        """A SQLite database; every server's program must know its procedures."""
        if isinstance(name, Procedures):
            return ReplicatedDatabase(self, name)
        known = self.machine.databases.kinds.get(f"{KIND}{name}")
        if known is None:
            raise LocalProtocolError(f"{name} has no procedures here: name them with databases=[...]")
        return ReplicatedDatabase(self, known)

    def object(self, cls: type[Any], name: str) -> ReplicatedInstance:
        """An object of your own class; every server's program must know the class."""
        return ReplicatedInstance(self, name, cls)
