"""``isotone.replica(..., centres=FILE)``: a node among the daemons of its data centre, a process of all data centres,
and the replicated objects on their one order.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from isotone.core.errors import InputError
from isotone.daemon.composition import Hooks
from isotone.daemon.embedded import node
from isotone.daemon.node_settings import TraceSettings
from isotone.daemon.security.keys import read_key
from isotone.host.embedded import EmbeddedService
from isotone.host.hab_log import CentreLog
from isotone.host.hab_settings import CentresFile, read_centres
from isotone.host.replica_objects import LocalReplica
from isotone.replicated.database.files import DirectoryFiles
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.state import Databases
from isotone.replicated.state import LEASE_S

KEY_FILE = "centre.key"


class LifeFiles:
    """The files of databases, those of each life of the centre in a directory of their own.

    What a centre had when it was declared lost may differ from the order that it takes over when it comes back.
    """

    def __init__(self, directory: Path, life: Callable[[], int]) -> None:
        self._directory, self._life = directory, life

    def _now(self) -> DirectoryFiles:
        """Of the present life; those of earlier ones go."""
        name = f"life-{self._life()}"
        for other in self._directory.glob("life-*"):
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)
        return DirectoryFiles(self._directory / name)

    def open(self, name: str) -> sqlite3.Connection:
        """The copy, or an empty one."""
        return self._now().open(name)

    def replace(self, name: str, image: bytes) -> None:
        """Put this copy in the place of what is there."""
        self._now().replace(name, image)

    def set_aside(self, name: str) -> str:
        """Move a copy that is no good out of the way."""
        return self._now().set_aside(name)

    def committed(self, name: str, connection: sqlite3.Connection) -> None:
        """SQLite has written it."""


class CentreReplica(LocalReplica):
    """Replicated objects of a program that is a process of a data centre: its ``centre_log`` is the log."""

    centre_log: CentreLog

    async def confirmed(self) -> None:
        """Wait until every data centre that is not lost has all that is applied here now.

        With ``mode = "at-once"`` an answered command can be lost until then; with ``waiting`` only one that was
        answered in a backup, if that is lost together with the primary.
        """
        await self.centre_log.until_confirmed(self.machine.state.position)

    async def ready(self) -> None:
        """Wait until commands can be ordered."""
        await self.centre_log.until(lambda: self.centre_log.orders)
        self.check()


@asynccontextmanager
async def centre_replica(
    log: str,
    *,
    name: str,
    state: Path | str,
    centres: Path | str,
    key: Path | str | None = None,
    classes: Iterable[type[Any]] = (),
    databases: Iterable[Procedures] = (),
    lease_s: float = LEASE_S,
    refuse_in_minority: bool = False,
    hooks: Hooks | None = None,
    trace: Path | str | TraceSettings | None = None,
) -> AsyncIterator[CentreReplica]:
    """Be one process of the data centres in the file ``centres``, and have the objects while the block lasts.

    ``key``: the file of its private key, ``centre.key`` in ``state`` if it is not said; `isotone site keygen` makes it.
    ``trace``: where everything is recorded, if it shall be.
    """
    directory = Path(state)
    directory.mkdir(parents=True, exist_ok=True)
    file = read_centres(centres)
    if file.log != log:
        raise InputError(f"{centres} describes the log {file.log!r}, not {log!r}")
    mine = file.centre_of(name)
    pair = read_key(Path(key or directory / KEY_FILE))
    if pair.text != file.processes[name].key:
        raise InputError(f"{centres} names another public key for {name} than this one: {pair.text}")
    async with AsyncExitStack() as stack:
        daemon = await stack.enter_async_context(
            node(
                name=name,
                address=file.processes[name].daemon,
                peers=[(each.name, each.daemon) for each in mine.process if each.name != name],
                state=directory / "node",
                trace=trace,
                hooks=hooks,
            )
        )
        server = CentreLog(file, name, pair, service=EmbeddedService(daemon), directory=directory / "log")
        await stack.enter_async_context(server)
        objects = CentreReplica(
            server,
            nonce=lambda: uuid4().hex,
            server=name,
            servers=lambda: _taking_part(server, file),
            why_no_order=server.why_no_primary,
            lease_s=lease_s,
            refuse_in_minority=refuse_in_minority,
            classes=classes,
            databases=Databases(databases, LifeFiles(directory / "databases", lambda: server.life)),
        )
        objects.node_address, objects.centre_log, objects.clients_address = daemon.address, server, ""
        await stack.enter_async_context(objects)
        yield objects


def _taking_part(server: CentreLog, file: CentresFile) -> tuple[str, ...]:
    """The processes of the centres that are not lost: a majority of them advances the clock of leases."""
    centre = server.hab.centre
    names = {group.name for group in centre.configuration.groups if not centre.is_lost(group.number)}
    return tuple(each.name for each_centre in file.centre if each_centre.name in names for each in each_centre.process)
