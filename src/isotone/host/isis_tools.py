"""The ISIS toolkit in this program: resilient objects, groups with tools, programs. Public in `isotone.isis`.

It runs in a host beside a daemon in this program (``node``) or as a client of one. A site that was declared dead comes
back by itself: objects and groups are entered anew, with the state that the others have; calls under way end with
`SiteFailed`, since nobody here knows whether they were done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isotone.core.errors import LocalProtocolError
from isotone.daemon.node import Node
from isotone.host.embedded import EmbeddedService
from isotone.host.host import Host
from isotone.host.isis_groups import Handler, ObjectProxy, ToolGroup
from isotone.host.isis_site import SiteFailed
from isotone.host.service import Around, Service
from isotone.host.session import SessionService
from isotone.isis.settings import SUSPECT_US, IsisSettings
from isotone.isis.toolkit import process as p
from isotone.isis.toolkit.actions import ActionWanted, general_kind
from isotone.isis.toolkit.boards import Posted
from isotone.isis.toolkit.callers import Answered
from isotone.isis.toolkit.data import ItemChanged
from isotone.isis.toolkit.evs_layer import EvsLayer
from isotone.isis.toolkit.kernel_layer import KernelLayer
from isotone.isis.toolkit.layer import Exited, Operational, Over, Secured, SecureWanted
from isotone.isis.toolkit.locks import LockHeld
from isotone.isis.toolkit.member import CheckpointTaken, MemberIsReady, PropertyChanged, ViewChanged
from isotone.isis.toolkit.objects import RESILIENT, component_tools
from isotone.isis.toolkit.programs import SYSTEM_GROUP, Programs, StartCopy, StopCopy, system_tools
from isotone.isis.toolkit.wire import encode

REQUEST_BYTES_MAX = 24 * 1024


@dataclass
class _Waiting:
    """Futures of this program."""

    calls: dict[int, asyncio.Future[Answered]] = field(default_factory=dict)
    flushes: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    locks: dict[tuple[str, str], asyncio.Future[None]] = field(default_factory=dict)  # by owner and item
    ready: dict[str, asyncio.Event] = field(default_factory=dict)  # by group
    changes: dict[str, asyncio.Future[None]] = field(default_factory=dict)  # by group


class Tools:
    """The toolkit of this program; made by `tools`."""

    def __init__(
        self, settings: IsisSettings, service: Service, directory: Path | None, *, view_synchronous: bool = False
    ) -> None:
        self._settings, self._view_synchronous = settings, view_synchronous
        self._kinds: dict[str, p.GroupKind] = {SYSTEM_GROUP: p.GroupKind(system_tools)}
        self._waiting = _Waiting()
        self._number = 0
        self._operational = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.handlers: dict[str, Handler] = {}
        self.programs: dict[str, Callable[[], Awaitable[None]]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self.host = Host(
            self._build,
            name=settings.site,
            service=service,
            directory=directory,
            on={
                Operational: self._on_operational,
                Over: self._on_over,
                MemberIsReady: self._on_ready,
                ViewChanged: self._on_change,
                ItemChanged: self._on_change,
                Posted: self._on_change,
                PropertyChanged: self._on_change,
                CheckpointTaken: self._on_change,
                Exited: self._on_exited,
                Answered: self._on_answered,
                Secured: self._on_secured,
                LockHeld: self._on_held,
                ActionWanted: self._on_action,
                StartCopy: self._on_start,
                StopCopy: self._on_stop,
            },
        )

    def _build(self, around: Around) -> p.Toolkit:
        kind = EvsLayer if self._view_synchronous else KernelLayer
        return p.Toolkit(kind(around.daemon, self._settings), self._kinds.get)

    @property
    def toolkit(self) -> p.Toolkit:
        """The automaton."""
        assert isinstance(self.host.automaton, p.Toolkit)
        return self.host.automaton

    @property
    def trouble(self) -> str:
        """Why nothing new is agreed on now, such as too few sites; empty if nothing is known to be in the way."""
        return self.toolkit.layer.trouble

    @property
    def me(self) -> str:
        """This process as others see it; empty while the site is not operational."""
        return self.toolkit.me

    async def operational(self) -> None:
        """Wait until the site is in a site view, or in a primary view."""
        await self._operational.wait()

    # --- objects and groups ----------------------------------------------------------------------------------------

    async def serve(self, name: str, cls: type, *, quorum: int = 1) -> None:
        """Be a component of a resilient object; returns when its state is here.

        ``quorum``: so many components begin it anew, from the newest checkpoint among them, when all have failed.
        """
        if not hasattr(cls, RESILIENT):
            raise LocalProtocolError(f"mark the class {cls.__name__} with @isotone.isis.resilient")
        self._kinds[name] = p.GroupKind(component_tools(cls, self._settings.sites), quorum)
        await self._open(name)

    def offer(self, name: str, cls: type, *, quorum: int = 1) -> None:
        """Let the process group manager run a component here when it wants to; see `run_copies`."""
        self._kinds[name] = p.GroupKind(component_tools(cls, self._settings.sites), quorum)

    def object(self, name: str) -> ObjectProxy:
        """A resilient object, by the name of its group or one that the switchboard has."""
        return ObjectProxy(self, name)

    async def group(self, name: str, *, quorum: int = 1) -> ToolGroup:
        """Be a member of a group with tools; returns when its state is here."""
        self._kinds[name] = general_kind(self._settings.sites, quorum)
        await self._open(name)
        return ToolGroup(self, name)

    async def _open(self, group: str) -> None:
        self.host.tell(p.OpenWanted(self.host.now(), group))
        await self.ready(group)

    async def ready(self, group: str) -> None:
        """Wait until the state of a group is here."""
        member = self.toolkit.members.get(group)
        if member is None or not member.is_ready:
            await self._waiting.ready.setdefault(group, asyncio.Event()).wait()

    def leave(self, group: str) -> None:
        """Be a member of a group or object no more; the others go on."""
        self.host.tell(p.CloseWanted(self.host.now(), group))

    def checkpoint(self, name: str) -> None:
        """All components of an object save the state of one instant."""
        self.use(name, "", "checkpoint")

    async def ask(self, name: str, data: bytes) -> Answered:
        """An action of a group or object; repeated until it is answered."""
        if len(data) > REQUEST_BYTES_MAX:
            raise LocalProtocolError(f"a request has at most {REQUEST_BYTES_MAX} bytes, this one {len(data)}")
        await self.host.room()
        await self.operational()
        self._number += 1
        token = self._number
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.calls[token] = future
        try:
            self.host.tell(p.CallWanted(self.host.now(), token, self.toolkit.group_of(name), data))
            answer = await future
        finally:
            self._waiting.calls.pop(token, None)
        if answer.problem:
            raise SiteFailed(answer.problem)
        return answer

    async def flush(self) -> None:
        """Wait until all that this process has heard or sent is sure to be heard: before effects outside."""
        self._number += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.flushes[self._number] = future
        self.host.tell(SecureWanted(self.host.now(), self._number))
        await future

    # --- programs and names ----------------------------------------------------------------------------------------

    async def join_system(self) -> None:
        """Take part in the process group manager and the switchboard."""
        await self._open(SYSTEM_GROUP)

    def run_copies(self, program: str, copies: int) -> None:
        """Keep so many copies of a program or object running over all sites that take part."""
        self.use(SYSTEM_GROUP, "programs", "want", program, copies)

    def move(self, program: str, source: str, target: str) -> None:
        """Move a copy from one process to another, with its state."""
        self.use(SYSTEM_GROUP, "programs", "move", program, source, target)

    def copies_of(self, program: str) -> list[str]:
        """The processes that run it."""
        programs = self.toolkit.tool(SYSTEM_GROUP, "programs")
        assert isinstance(programs, Programs)
        return list(programs.placed.get(program, ()))

    def bind(self, name: str, target: str) -> None:
        """Let a name stand for an object; the first one has it."""
        self.use(SYSTEM_GROUP, "switchboard", "bind", name, target)

    # --- for groups ------------------------------------------------------------------------------------------------

    def use(self, group: str, tool: str, deed: str, *arguments: Any) -> None:
        """A deed of a tool."""
        self.host.tell(p.ToolUsed(self.host.now(), group, tool, deed, arguments))

    def use_if_there(self, group: str, tool: str, deed: str, *arguments: Any) -> None:
        """The same, unless the group is not ready any more: then all that this process had there is over."""
        member = self.toolkit.members.get(group)
        if member is not None and member.is_ready:
            self.use(group, tool, deed, *arguments)

    def new_owner(self) -> str:
        """Of locks."""
        self._number += 1
        return f"{self.me}!{self._number}"

    def expect_lock(self, owner: str, item: str) -> asyncio.Future[None]:
        """Done when it is held."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.locks[owner, item] = future
        return future

    def forget_locks(self, owner: str) -> None:
        """Nobody waits for them any more."""
        for key in [key for key in self._waiting.locks if key[0] == owner]:
            del self._waiting.locks[key]

    async def changed(self, group: str) -> None:
        """Wait until anything in a group changes here."""
        future = self._waiting.changes.get(group)
        if future is None or future.done():
            future = self._waiting.changes[group] = asyncio.get_running_loop().create_future()
        await asyncio.shield(future)

    # --- from the toolkit ------------------------------------------------------------------------------------------

    def _on_operational(self, action: Operational) -> None:
        del action
        self._operational.set()

    def _on_over(self, action: Over) -> None:
        self._operational.clear()
        for ready in self._waiting.ready.values():
            ready.clear()  # whoever waits goes on when the group is entered anew
        error = SiteFailed(action.reason)
        locks, self._waiting.locks = self._waiting.locks, {}
        flushes, self._waiting.flushes = self._waiting.flushes, {}
        for future in (*locks.values(), *flushes.values()):
            if not future.done():
                future.set_exception(error)
        for program in list(self._running):
            self._running.pop(program).cancel()

    def _on_ready(self, action: MemberIsReady) -> None:
        self._waiting.ready.setdefault(action.group, asyncio.Event()).set()

    def _on_exited(self, action: Exited) -> None:
        if action.group in self._waiting.ready:
            self._waiting.ready[action.group].clear()

    def _on_change(self, action: ViewChanged | ItemChanged | Posted | PropertyChanged | CheckpointTaken) -> None:
        future = self._waiting.changes.get(action.group)
        if future is not None and not future.done():
            future.set_result(None)

    def _on_answered(self, action: Answered) -> None:
        future = self._waiting.calls.get(action.token)
        if future is not None and not future.done():
            future.set_result(action)

    def _on_secured(self, action: Secured) -> None:
        future = self._waiting.flushes.pop(action.token, None)
        if future is not None and not future.done():
            future.set_result(None)

    def _on_held(self, action: LockHeld) -> None:
        future = self._waiting.locks.get((action.owner, action.item))
        if future is not None and not future.done():
            future.set_result(None)

    def _on_action(self, action: ActionWanted) -> None:
        self._spawn(self._carry_out(action))

    async def _carry_out(self, action: ActionWanted) -> None:
        handler = self.handlers.get(action.group)
        try:
            if handler is None:
                raise LocalProtocolError(f"nobody at {self.me} carries out actions of {action.group}")
            result, failed = await handler(action.body), False
        except Exception as error:
            result, failed = encode(f"{type(error).__name__}: {error}"[:1000]), True
        self.use_if_there(action.group, "requests", "finish", action.id, result, b"", failed)

    def _on_start(self, action: StartCopy) -> None:
        program = self.programs.get(action.program)
        if program is not None:
            self._running[action.program] = self._spawn(self._run(action.program, program))

    def _on_stop(self, action: StopCopy) -> None:
        if (task := self._running.pop(action.program, None)) is not None:
            task.cancel()

    async def _run(self, name: str, program: Callable[[], Awaitable[None]]) -> None:
        try:
            await program()
        finally:
            if self._running.pop(name, None) is not None:
                self.use_if_there(SYSTEM_GROUP, "programs", "tell_ended", name)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """End what runs here, and the host."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.host.stop()


@asynccontextmanager
async def tools(
    system: str,
    *,
    name: str,
    sites: Sequence[str],
    address: str | Sequence[str] | None = None,
    node: Node | None = None,
    state: Path | str | None = None,
    credential: bytes = b"",
    suspect_ms: int = SUSPECT_US // 1000,
    view_synchronous: bool = False,
) -> AsyncIterator[Tools]:
    """Run the toolkit at the site ``name`` of a system while the block lasts; arguments as of `isotone.isis.site`.

    ``view_synchronous``: on a view-synchronous group instead of ISIS kernels, the same at all sites; the daemons then
    find out who failed, and ``suspect_ms`` is not used.
    """
    if (address is None) == (node is None):
        raise LocalProtocolError("a site needs either the address of a daemon, or a node in this program")
    settings = IsisSettings(site=name, sites=tuple(sites), system=system, suspect_us=suspect_ms * 1000)
    service: Service
    if node is not None:
        service = EmbeddedService(node)
    else:
        assert address is not None
        service = SessionService(address, credential=credential)
    directory = Path(state) if state is not None else None
    running = Tools(settings, service, directory, view_synchronous=view_synchronous)
    await running.host.start()
    try:
        await running.operational()
        yield running
    finally:
        await running.stop()
