"""A server of the replicated log as a process: ``isotone replica start``.

Beside its daemon in one process, which is the default, or as a client of a daemon that runs by itself. When the replica
ends by itself (its disk failed, its log is damaged, it was removed) the process ends with the reason.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from isotone.core.addresses import is_loopback, split_address
from isotone.core.boundary import Join, Send
from isotone.core.bundles import bundle_of
from isotone.core.contract import Address
from isotone.core.errors import InputError, IsotoneError
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.core.services import Service as Level
from isotone.daemon.admin.assembly import access_of, assembled, opened
from isotone.daemon.admin.logs import configure_logs
from isotone.daemon.admin.service import Service as AdminService
from isotone.daemon.admin.service import warn
from isotone.daemon.node import Node
from isotone.daemon.running import BAD_INPUT, BAD_MACHINE, GOOD, run
from isotone.daemon.security.access import Access
from isotone.daemon.settings import DaemonSettings, daemon_address, dev_notice, files_of, load_in_full
from isotone.daemon.settings.replication import (
    chosen_server,
    daemon_of,
    log_directory,
    replica_settings,
    server_address,
    server_host,
)
from isotone.daemon.settings.tables import Daemon, ReplicaServer
from isotone.evs.sessions.admission import Denied
from isotone.host.archiving import archive_writers
from isotone.host.embedded import EmbeddedService
from isotone.host.log_port import LogPort
from isotone.host.replica_log import ReplicaLog
from isotone.host.room import watch_room
from isotone.host.service import Service
from isotone.host.session import SessionService
from isotone.host.store import Sync

log = logging.getLogger("isotone.replica")

SYNCS = {"every-commit": Sync.EVERY_COMMIT, "left-to-the-system": Sync.LEFT_TO_THE_SYSTEM}
RELAXED = (
    'sync = "left-to-the-system": what is acknowledged is not on disk yet; a machine that stops may lose it, '
    "and the order may then change"
)


class ServerProcess:
    """One server in this process."""

    def __init__(self, settings: DaemonSettings, server: ReplicaServer, access: Access) -> None:
        self.settings, self.server, self.access = settings, server, access
        self.end_reason = ""  # why it ended by itself

    @asynccontextmanager
    async def running(self, service: Service, on_end: Callable[[str], object]) -> AsyncIterator[ReplicaLog]:
        """The replica and its port; ``on_end`` hears when it ends by itself."""
        replica = self.settings.replica
        if replica.sync != "every-commit":
            log.warning(RELAXED)
        replicated = ReplicaLog(
            replica_settings(self.settings, self.server),
            service=service,
            directory=log_directory(self.settings, self.server),
            sync=SYNCS[replica.sync],
            disk_within_ms=replica.disk_within_ms,
            maybe_after_ms=replica.maybe_after_ms,
        )
        host, number = self._place()
        if not is_loopback(host):
            log.warning(
                "replica %s listens at %s in clear text: only for networks that are trusted", self.server.name, host
            )
        port = LogPort(replicated, judge=self._judge, judge_change=self._judge_change)
        writers = archive_writers(replicated, replica.archive, replica.archive_credential_file)
        await replicated.start()
        tasks = [asyncio.create_task(self._watch(replicated, on_end))]
        tasks += [asyncio.create_task(writer.run()) for writer in writers]
        tasks.append(asyncio.create_task(watch_room(replicated, replica.reserve_bytes)))
        try:
            await port.start(host, number)
            yield replicated
        finally:
            for task in tasks:
                task.cancel()
            for failed in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(failed, Exception):
                    log.error("replica %s: what watched it failed", self.server.name, exc_info=failed)
            await replicated.stop()
            await port.stop()

    def _place(self) -> tuple[str, int]:
        host, port = split_address(server_address(self.settings, self.server))
        return self.settings.replica.listen or host, port

    async def _watch(self, replicated: ReplicaLog, on_end: Callable[[str], object]) -> None:
        reason = await replicated.closed()
        if reason:
            self.end_reason = reason
            log.error("replica %s ended: %s", self.server.name, reason)
            if any(stored.damaged for stored in replicated.host.storage.logs.values()):
                log.error("repair it: isotone replica scrub FILE --name %s", self.server.name)
            on_end(reason)

    def _judge(self, name: str, credential: bytes, peer: str) -> str:
        """Who may connect, and send to the group and join it, may use its log."""
        admitted = self.access.admit(name, credential, Address(peer))
        if isinstance(admitted, Denied):
            return admitted.reason
        group = self.settings.replica.group
        probe = bundle_of(ClientId(NO_DAEMON, name, 1), 1, Level.AGREED, (group,), (b"",))
        return self.access.permit(admitted.principal, Join(group)) or self.access.permit(
            admitted.principal, Send(probe)
        )

    def _judge_change(self, name: str, credential: bytes, peer: str) -> str:
        """Who may administer, may change its servers."""
        del name, peer
        judged = self.access.judge_admin(credential, "change the servers of a log")
        return judged.reason if isinstance(judged, Denied) else ""


def run_server(path: Path, name: str = "", *, dev: bool = False, credential: bytes = b"") -> int:
    """Run the server that a file describes; the exit code of its process."""

    def read() -> tuple[DaemonSettings, list[str]]:
        loaded = load_in_full(path)
        return opened(loaded.settings) if dev else loaded.settings, [str(warning) for warning in loaded.warnings]

    settings, warnings = read()
    server = chosen_server(settings, name)
    daemon = daemon_of(settings, server)
    assert daemon is not None, "the settings were validated"
    host = settings.replica.listen or server_host(settings, server)
    if settings.dev and not is_loopback(host):
        raise InputError(f"--dev is open, so it is for loopback alone; server {server.name} would listen at {host}")
    configure_logs(settings.admin.log_format, settings.admin.log_level, daemon=server.name)
    if settings.dev:
        log.warning(dev_notice(settings, daemon))
    warn(warnings)
    if settings.replica.attach == "client":
        return _run_as_client(settings, server, daemon, credential)
    assembly = assembled(settings, daemon.name)
    process = ServerProcess(settings, server, assembly.access)
    admin = AdminService(assembly, read)

    @asynccontextmanager
    async def around(node: Node) -> AsyncIterator[None]:
        async with admin.around(node), process.running(EmbeddedService(node), node.stop):
            yield

    code = run(assembly.node, hooks=assembly.hooks, around=around)
    return BAD_MACHINE if process.end_reason else code


# --- as a client of a daemon --------------------------------------------------------------------------------------


def _run_as_client(settings: DaemonSettings, server: ReplicaServer, daemon: Daemon, credential: bytes) -> int:
    process = ServerProcess(settings, server, access_of(settings, files_of(settings, daemon)))
    addresses = [str(_client_address(each)) for each in (daemon, *settings.daemon)]
    service = SessionService(tuple(dict.fromkeys(addresses)), credential=credential)
    try:
        asyncio.run(_serve_as_client(process, service))
    except InputError as error:
        log.error("%s", error)
        return BAD_INPUT
    except IsotoneError as error:
        log.error("%s", error)
        return BAD_MACHINE
    return BAD_MACHINE if process.end_reason else GOOD


def _client_address(daemon: Daemon) -> Address:
    if daemon.client_port is None:
        return daemon_address(daemon)
    host, _ = split_address(daemon_address(daemon))
    return Address(f"{host}:{daemon.client_port}")


async def _serve_as_client(process: ServerProcess, service: SessionService) -> None:
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ends.set)
    try:
        async with process.running(service, lambda reason: ends.set()):
            await ends.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
