"""``isotone.replica``: a node, a server of the log and the replicated objects, opened together in one's own program.

``isotone.connect_replica``: the same objects from a program that is no server, over the servers' ports. Both keep a
copy of the whole state and follow the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from isotone.core.addresses import is_loopback, split_address
from isotone.core.errors import InputError, MachineError, RemoteProtocolError
from isotone.core.names import LOG_GROUP_PREFIX, check_client_name, check_log_name
from isotone.corel.quorum import Majority, Rule
from isotone.corel.settings import ReplicaSettings
from isotone.daemon.composition import Hooks
from isotone.daemon.embedded import node
from isotone.daemon.node import Node
from isotone.host.archiving import archive_writers
from isotone.host.embedded import EmbeddedService
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from isotone.host.replica_history import recorded_history
from isotone.host.replica_log import ReplicaLog
from isotone.host.room import watch_room
from isotone.replicated.database.change_log import ChangeLog
from isotone.replicated.database.files import DirectoryFiles
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.state import Databases
from isotone.replicated.state import LEASE_S, ReplicatedState

PORT = 4803
ANYWHERE = "0.0.0.0"  # where peers are elsewhere, they must reach us
MINORITY = ("maybe", "refuse")
COMPARED_WITHIN_S = 8.0
RESERVE_BYTES = 64 * 1024 * 1024
"""With less room on its disk a server takes no new records, and votes on."""


class LocalReplica(ReplicatedState):
    """Replicated objects of a program that is a server itself."""

    node_address: str
    clients_address: str
    replica_log: ReplicaLog

    def why_not_ready(self) -> str:
        """Why it orders nothing now, in a sentence; empty if it does."""
        return self.why_no_order()

    async def answer_digests(self, argument: str) -> object:
        """For `isotone replica verify`."""
        if not (argument.isascii() and argument.isdigit() and len(argument) < 19):
            raise RemoteProtocolError(f"a position is expected, not {argument!r}")
        try:
            async with asyncio.timeout(COMPARED_WITHIN_S):
                return await self.digests_at(int(argument))
        except TimeoutError:
            raise MachineError(f"{self.server} has not applied position {argument} yet") from None

    async def ready(self) -> None:
        """Wait until commands can be ordered: enough servers are there."""
        await self.replica_log.until(lambda: self.replica_log.orders)
        self.check()


@asynccontextmanager
async def replica(
    log: str,
    *,
    name: str,
    state: Path | str,
    peers: Mapping[str, str] | None = None,
    address: str | None = None,
    clients: str | None = None,
    quorum: Rule | None = None,
    joins: bool = False,
    classes: Iterable[type[Any]] = (),
    databases: Iterable[Procedures] = (),
    lease_s: float = LEASE_S,
    minority: str = "maybe",
    hooks: Hooks | None = None,
    centres: Path | str | None = None,
    key: Path | str | None = None,
    archive: str = "",
    archive_credential_file: str = "",
    history: Path | str | None = None,
) -> AsyncIterator[LocalReplica]:
    """Be one server of the replicated log ``log``, and have its objects while the block lasts.

    ``name``: of this server; the same at every start, with the same ``state``, a directory of its own. ``peers``:
    the other servers and their addresses; all servers name all. ``address``: where this one listens for them, port
    4803 of loopback, or of all interfaces if a peer is elsewhere. ``clients``: where it listens for
    `connect_replica` and the commands, if it shall. ``joins``: it is none of the first servers; `isotone replica
    add` counts it in. ``databases``: the procedures of SQLite databases. ``minority``: what a command is answered
    where there is no quorum, ``"maybe"`` (it is kept, and may be applied later) or ``"refuse"``. ``lease_s``: after
    so long without a sign of life, what the program holds is released. ``centres``: a file that names several data
    centres, their processes and keys; then it says all of ``peers``, ``address`` and the quorum, and ``key`` is the
    file of this process' private key (docs/guide/data-centres.md). ``archive``: a directory or URI where the servers
    keep the log, and the changes of their databases, for analysts; the same at all servers. ``history``: a directory
    where what this program calls and hears is recorded, for `isotone check`.
    """
    if minority not in MINORITY:
        raise InputError(f"minority is one of {', '.join(MINORITY)}, not {minority!r}")
    options: dict[str, Any] = {"databases": databases, "classes": classes, "lease_s": lease_s}
    options["refuse_in_minority"] = minority == "refuse"
    opened: AbstractAsyncContextManager[LocalReplica]
    if centres is not None:
        if peers or address or clients or quorum or joins or archive:
            raise InputError(
                "with centres the file says peers, address, clients and quorum; joins and archive cannot be given"
            )
        from isotone.host.hab_objects import centre_replica

        opened = centre_replica(log, name=name, state=state, centres=centres, key=key, hooks=hooks, **options)
    else:
        settings = _settings(log, name, peers or {}, quorum, joins=joins)
        opened = _server(
            settings,
            peers or {},
            address,
            Path(state),
            clients=clients,
            archive=(archive, archive_credential_file),
            hooks=hooks,
            options=options,
        )
    async with opened as objects:
        with recorded_history(objects, name, history):
            yield objects


@asynccontextmanager
async def _server(
    settings: ReplicaSettings,
    peers: Mapping[str, str],
    address: str | None,
    state: Path,
    *,
    clients: str | None,
    archive: tuple[str, str],
    hooks: Hooks | None,
    options: dict[str, Any],
) -> AsyncIterator[LocalReplica]:
    """A node, a server of the log, the objects with these options, and a port for others if there shall be one."""
    state.mkdir(parents=True, exist_ok=True)
    running = node(
        name=settings.server,
        address=address or _default_address(peers),
        peers=list(peers.items()),
        state=state / "node",
        hooks=hooks,
    )
    async with (
        running as daemon,
        replica_beside(daemon, settings, state, clients=clients, archive=archive, **options) as objects,
    ):
        yield objects


@asynccontextmanager
async def replica_beside(
    daemon: Node,
    settings: ReplicaSettings,
    state: Path,
    *,
    clients: str | None = None,
    archive: tuple[str, str] = ("", ""),
    databases: Iterable[Procedures] = (),
    **options: Any,
) -> AsyncIterator[LocalReplica]:
    """A server of the log beside a daemon that runs in this process, and the objects."""
    name = settings.server
    async with AsyncExitStack() as stack:
        server = ReplicaLog(settings, service=EmbeddedService(daemon), directory=state / "log")
        await stack.enter_async_context(server)
        objects = LocalReplica(
            server,
            nonce=lambda: uuid4().hex,
            server=name,
            servers=lambda: server.replica.ledger.queue.configuration.servers,
            why_no_order=lambda: "" if server.orders else server.why_no_primary(),
            red=server.red_messages.records,
            may_cut=lambda position: server.archived is None or position <= server.archived,
            databases=Databases(databases, DirectoryFiles(state / "databases")),
            **options,
        )
        writers = archive_writers(server, *archive, changes=ChangeLog(objects.machine))
        objects.node_address, objects.replica_log, objects.clients_address = daemon.address, server, ""
        server.questions["digests"] = objects.answer_digests
        if clients is not None:
            objects.clients_address = await _serve_clients(server, clients, stack)
        await stack.enter_async_context(objects)
        objects.spawn(watch_room(server, RESERVE_BYTES), "room")
        for writer in writers:
            objects.spawn(writer.run(), "archive")
        yield objects


async def _serve_clients(server: ReplicaLog, address: str, stack: AsyncExitStack) -> str:
    """Listen there until the stack is closed; the address with its port."""
    port = LogPort(server)
    host, number = split_address(address, port_min=0)
    await port.start(host, number)
    stack.push_async_callback(port.stop)
    return port.address


@asynccontextmanager
async def connect_replica(
    addresses: str | Sequence[str],
    *,
    name: str = "client",
    credential: bytes = b"",
    classes: Iterable[type[Any]] = (),
    databases: Iterable[Procedures] = (),
    lease_s: float = LEASE_S,
    history: Path | str | None = None,
) -> AsyncIterator[ReplicatedState]:
    """The objects of the servers whose ``clients`` addresses these are, while the block lasts.

    A copy of the state is kept and followed; when a server is lost the next one serves. Commands that were under way
    are sent again, and applied once. ``history``: a directory where what this program calls and hears is recorded.
    """
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(RemoteLog(addresses, name=name, credential=credential))
        objects = ReplicatedState(
            remote, nonce=lambda: uuid4().hex, lease_s=lease_s, classes=classes, databases=Databases(databases)
        )
        await stack.enter_async_context(objects)
        stack.enter_context(recorded_history(objects, name, history))
        yield objects


def _settings(log: str, name: str, peers: Mapping[str, str], quorum: Rule | None, *, joins: bool) -> ReplicaSettings:
    check_log_name(log)
    for each in (name, *peers):
        check_client_name(each)
    if name in peers:
        raise InputError(f"peers are the others: {name!r} is this server itself")
    if joins and not peers:
        raise InputError("a server that joins needs peers")
    servers = tuple(sorted(peers if joins else {name, *peers}))
    return ReplicaSettings(
        server=name, servers=servers, group=f"{LOG_GROUP_PREFIX}{log}", quorum=quorum or Majority(servers)
    ).check()


def _default_address(peers: Mapping[str, str]) -> str:
    hosts = [split_address(each)[0] for each in peers.values()]
    return f"{ANYWHERE if any(not is_loopback(host) for host in hosts) else '127.0.0.1'}:{PORT}"
