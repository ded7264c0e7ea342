"""A daemon as a service: from its settings to the end of its process, with administration, logs and reloading.

What happens to the node is `isotone.daemon.running`'s; here is what stands around it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from isotone.core.addresses import DEFAULT_PORT
from isotone.core.contract import Address
from isotone.core.ids import DaemonViewId
from isotone.daemon.admin.assembly import Assembly, access_parts, administration_of, assembled, opened
from isotone.daemon.admin.change_log import ChangeLog
from isotone.daemon.admin.logs import configure_logs, set_level
from isotone.daemon.admin.server import AdminServer, AdminSettings
from isotone.daemon.node import Node
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.running import run
from isotone.daemon.security import RosterChanged
from isotone.daemon.settings import DaemonSettings, chosen_daemon, dev_notice, dev_settings, files_of, load_in_full
from isotone.daemon.settings.comparison import differences, mismatch, taken_over
from isotone.daemon.settings.composition import node_settings, roster_of
from isotone.daemon.settings.discovery import Discovery, keep_looking, system_resolver
from isotone.daemon.settings.tables import ADMIN_PORT
from isotone.daemon.settings.whereabouts import listeners_of
from isotone.evs.membership import KnownDaemon, PeersChanged

NOTES_EVERY_US = 1_000_000
OF_THE_NODE = ("daemon ", "cluster.seeds", "trace.level", "faults.enabled")
"""Keys of which, when they are taken over, the node itself says what became of them."""

log = logging.getLogger("isotone.service")

Read = Callable[[], tuple[DaemonSettings, list[str]]]
"""Reads the settings, with warnings about them."""


def run_file(path: Path, name: str = "", *, dev: bool = False) -> int:
    """Run the daemon that a file describes; the exit code of its process. ``dev`` opens it, on loopback only."""

    def read() -> tuple[DaemonSettings, list[str]]:
        loaded = load_in_full(path)
        return opened(loaded.settings) if dev else loaded.settings, [str(warning) for warning in loaded.warnings]

    return run_service(read, name)


def run_dev(*, port: int | None = None, admin_port: int | None = None, directory: Path | None = None) -> int:
    """Run a daemon for development, without a file."""
    settings = dev_settings(
        DEFAULT_PORT if port is None else port,
        directory=directory or dev_directory(),
        admin_port=ADMIN_PORT if admin_port is None else admin_port,
    )
    return run_service(lambda: (settings, []), "", is_file=False)


def dev_directory() -> Path:
    """Where a daemon for development keeps what it needs, so that it is the same one at the next start."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "isotone" / "dev"


def run_service(read: Read, name: str, *, is_file: bool = True) -> int:
    """Put it together and run it until it ends."""
    settings, warnings = read()
    assembly = assembled(settings, name)
    configure_logs(settings.admin.log_format, settings.admin.log_level, daemon=assembly.daemon.name)
    if settings.dev:
        log.warning(dev_notice(settings, assembly.daemon))
    warn(warnings)
    service = Service(assembly, read if is_file else None)
    return run(assembly.node, hooks=assembly.hooks, around=service.around)


def warn(warnings: Sequence[str]) -> None:
    """What is strange in the settings."""
    for warning in warnings:
        log.warning("settings", extra={"fields": {"warning": warning}})


class Service:
    """What stands around one node."""

    def __init__(self, assembly: Assembly, read: Read | None = None) -> None:
        self.assembly = assembly
        self.settings = assembly.settings  # what runs; a reload takes over what can change
        self.admin: AdminServer | None = None
        self._read = read
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def around(self, node: Node) -> AsyncIterator[None]:
        """Administration, logs and look-ups of names, from the node's start to its end."""
        if self._read is not None:
            node.read_settings = lambda: self._read_again(node)
        watch = Watch(node, self)
        node.observers.append(watch.look)
        self._looking = asyncio.create_task(self._look_up(node))
        try:
            await self._start_admin(node)
            yield
        finally:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
            if self.admin is not None:
                await self.admin.stop()

    async def _start_admin(self, node: Node) -> None:
        where = listeners_of(self.settings, self.assembly.daemon).admin
        if where is None:
            return
        settings = AdminSettings(address=where, metrics_open=self.settings.admin.metrics_open)
        access, audit = self.assembly.access, self.assembly.audit
        self.admin = AdminServer(
            node,
            settings,
            judge=access.judge_admin,
            is_open=access.is_open,
            audit=audit,
            others=lambda: administration_of(self.settings, self.assembly.daemon),
        )
        await self.admin.start()

    async def _look_up(self, node: Node) -> None:
        """Addresses of names that the settings have, again and again."""

        def tell(changed: PeersChanged) -> None:
            log.info("names lead elsewhere", extra={"fields": {"daemons": len(changed.known), "seeds": changed.seeds}})
            node.shell.engine.take(node.shell.stack_lane, changed)

        discovery = Discovery(self.settings, self.assembly.daemon.name)
        interval_ms = self.settings.cluster.resolve_interval_ms
        await keep_looking(discovery, tell, now=node.now, resolver=system_resolver, interval_ms=interval_ms)

    async def _read_again(self, node: Node) -> tuple[NodeSettings, list[str]]:
        """What can be taken over of the file as it is now; access list, keys and level of the log are taken at once.

        What needs a restart stays as it runs, and is told at every reload until the file agrees or the daemon ended.
        """
        assert self._read is not None
        wanted, warnings = await asyncio.to_thread(self._read)
        warn(warnings)
        name = chosen_daemon(wanted, self.assembly.daemon.name).name
        found, settings = differences(self.settings, wanted, name), taken_over(self.settings, wanted, name)
        parts = access_parts(settings, files_of(settings, self.assembly.daemon))
        fresh, roster = node_settings(settings, name), roster_of(settings)
        self.assembly.renew_certificate()
        for difference in found:
            log.info("reload", extra={"fields": {"change": str(difference)}})
        self.assembly.access.replace(*parts)
        if node.shell.guard_lane is not None:
            node.shell.engine.take(node.shell.guard_lane, RosterChanged(node.now(), roster))
        set_level(settings.admin.log_level)
        self.settings = settings
        self._look_up_anew(node)
        told = [each for each in found if each.needs_restart or not each.key.startswith(OF_THE_NODE)]
        return fresh, [f"{each.key} changed{': that needs a restart' if each.needs_restart else ''}" for each in told]

    def _look_up_anew(self, node: Node) -> None:
        """Other names may stand in the file now; and what a reload tells the daemon has only those without look-up."""
        if self._looking is not None:
            self._looking.cancel()
        self._looking = asyncio.create_task(self._look_up(node))


class Watch:
    """Looks at a node after every wake-up: logs, and whether file and daemon view agree."""

    def __init__(self, node: Node, service: Service) -> None:
        self._node, self._service = node, service
        self._changes = ChangeLog(node.stack)
        self._view: DaemonViewId | None = None
        self._notes_at = 0

    def look(self, at: int) -> None:
        """After a wake-up."""
        self._changes.look(at)
        if at - self._notes_at >= NOTES_EVERY_US:
            self._notes_at = at
            for note in self._service.assembly.access.notes():
                self._changes.refusals.tell(note.peer, note.reason, note.text)
        view = self._node.stack.membership.view
        if view != self._view and self._node.is_ready:
            self._view = view
            for line in self._differences():
                log.warning("settings and daemon view differ", extra={"fields": {"difference": line}})

    def _differences(self) -> list[str]:
        """Of those who are there: of the others the log of changes tells, and why."""
        settings, members = self._service.settings, self._members()
        present = {member.name for member in members}
        named = tuple(each for each in settings.daemon if each.name in present)
        return mismatch(msgspec.structs.replace(settings, daemon=named), members)

    def _members(self) -> list[KnownDaemon]:
        stack, peers = self._node.stack, self._node.stack.membership.node.peers.by_name
        own = KnownDaemon(self._node.name, stack.membership.node.site, Address(""))
        others = [peers[member.name] for member in stack.membership.members if member.name in peers]
        return [own, *(KnownDaemon(each.name, each.site, each.address) for each in others)]
