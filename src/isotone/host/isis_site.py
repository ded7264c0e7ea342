"""A site of ISIS in this program: processes that join groups, send by ABCAST, CBCAST and GBCAST, and hear in order.

Public as `isotone.isis`. The kernel runs in a host, beside a daemon in this program (``node``) or as a client of one.
A site that was declared dead recovers by itself, but its memberships are gone: groups end with `SiteFailed`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from isotone.core.errors import IsotoneError, LocalProtocolError
from isotone.daemon.node import Node
from isotone.host.embedded import EmbeddedService
from isotone.host.host import Host
from isotone.host.service import Around, Service
from isotone.host.session import SessionService
from isotone.isis import events as e
from isotone.isis.kernel import Kernel
from isotone.isis.names import process_id
from isotone.isis.settings import SUSPECT_US, IsisSettings

ALL = 0
"""As ``answers`` of a call: wait for every member, or its failure."""
EVENTS_MAX = 100_000
"""So many events of a group wait for their reader; a reader that is further behind loses its membership."""


class SiteFailed(IsotoneError):
    """The site was declared dead: every membership and every call of it is over. Join again."""


class BroadcastFailed(IsotoneError):
    """The broadcast was not begun."""


@dataclass(frozen=True)
class Message:
    """A broadcast, in its place among all events of the group. ``sender`` is a process ``site.incarnation/name``."""

    group: str
    id: str
    sender: str
    primitive: str
    data: bytes
    _reply: tuple[Site, str] | None = field(default=None, repr=False, compare=False)

    @property
    def wants_answer(self) -> bool:
        """Whether it is a call."""
        return self._reply is not None

    def answer(self, data: bytes) -> None:
        """Reply to a call."""
        if self._reply is None:
            raise LocalProtocolError("only a call wants an answer")
        site, process = self._reply
        site.tell(e.AnswerGiven(site.now(), process, self.id, data))


@dataclass(frozen=True)
class View:
    """The members of the group from here on, by rank; ``failed``: who is gone because it failed."""

    group: str
    number: int
    members: tuple[str, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Of one member to a call; ``failed``: it will not answer."""

    process: str
    data: bytes
    failed: bool = False


class Group:
    """A membership of one process. Iterate over it for messages and views, in their order."""

    def __init__(self, site: Site, name: str, process: str) -> None:
        self.name, self.process = name, process
        self.view: View | None = None
        self._site = site
        self._events: deque[Message | View] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end: IsotoneError | None = None
        self._left = False
        self.joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def abcast(self, data: bytes, *, label: str = "", uniform: bool = False, causal: bool = False) -> str:
        """In one order for all of this label; ``uniform``: also as seen by members that fail right afterwards.

        ``causal``: without a label, and behind all that this process has sent or heard (causal atomic broadcast).
        """
        return await self._site.cast(self, e.Primitive.ABCAST, data, label, uniform=uniform, causal=causal)

    async def cbcast(self, data: bytes, *, label: str = "", number: int = 0) -> str:
        """Behind all that it could be caused by; a ``label`` with a ``number`` says itself what precedes it."""
        return await self._site.cast(self, e.Primitive.CBCAST, data, label, number)

    async def mbcast(self, data: bytes) -> str:
        """To all or none, in no order (minimal broadcast)."""
        return await self._site.cast(self, e.Primitive.CBCAST, data, "", -1)

    async def gbcast(self, data: bytes) -> str:
        """In one order against everything in the group."""
        return await self._site.cast(self, e.Primitive.GBCAST, data)

    async def call(self, data: bytes, *, answers: int = ALL, label: str = "") -> list[Answer]:
        """Send by ABCAST and wait for so many answers; a member that fails counts only where all are asked."""
        return await self._site.call(self, data, answers, label)

    async def leave(self) -> None:
        """Leave; what comes before that is still delivered."""
        self._site.tell(e.LeaveWanted(self._site.now(), self.process, self.name))

    def __aiter__(self) -> AsyncIterator[Message | View]:
        return self

    async def __anext__(self) -> Message | View:
        while not self._events:
            if self._end is not None:
                raise self._end
            if self._left:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._events.popleft()

    def hear(self, event: Message | View) -> None:
        """From the site."""
        if isinstance(event, View):
            self.view = event
            if not self.joined.done():
                self.joined.set_result(None)
        if len(self._events) >= EVENTS_MAX:
            self.end(LocalProtocolError(f"{EVENTS_MAX} events of {self.name} wait: read them faster"))
            self._site.tell(e.LeaveWanted(self._site.now(), self.process, self.name))
            return
        self._events.append(event)
        self._wake()

    def end(self, error: IsotoneError | None) -> None:
        """No event follows."""
        self._end, self._left = error, True
        if not self.joined.done():
            self.joined.set_exception(error or LocalProtocolError("left before it had joined"))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Site:
    """The site of this program; made by `site`."""

    def __init__(self, settings: IsisSettings, service: Service, directory: Path | None) -> None:
        self._settings = settings
        self._groups: dict[tuple[str, str], Group] = {}
        self._begun: dict[int, asyncio.Future[str]] = {}
        self._calls: dict[int, _Call] = {}
        self._flushes: dict[int, asyncio.Future[None]] = {}
        self._token = 0
        self._operational = asyncio.Event()
        self.host = Host(
            self._build,
            name=settings.site,
            service=service,
            directory=directory,
            on={
                e.Deliver: self._on_deliver,
                e.DeliverView: self._on_view,
                e.Left: self._on_left,
                e.BroadcastDone: self._on_begun,
                e.FlushDone: self._on_flushed,
                e.AnswerHeard: self._on_answer,
                e.CallOpened: self._on_opened,
                e.SiteViewChanged: self._on_site_view,
                e.SiteDied: self._on_died,
            },
        )

    def _build(self, around: Around) -> Kernel:
        return Kernel(around.daemon, self._settings)

    @property
    def kernel(self) -> Kernel:
        """The automaton."""
        assert isinstance(self.host.automaton, Kernel)
        return self.host.automaton

    @property
    def members(self) -> tuple[str, ...]:
        """The operational sites, from the oldest; empty while this one is not among them."""
        life = self.kernel.life
        return life.site.view.members if life is not None else ()

    def now(self) -> int:
        """The time that events carry."""
        return self.host.now()

    def tell(self, event: e.JoinWanted | e.LeaveWanted | e.AnswerGiven | e.ProcessEnded) -> None:
        """To the kernel."""
        self.host.tell(event)

    async def operational(self) -> None:
        """Wait until the site is in a site view."""
        await self._operational.wait()

    async def join(self, group: str, *, process: str = "main") -> Group:
        """Make a process of this site a member; returns when it is one."""
        if (group, process) in self._groups:
            raise LocalProtocolError(f"process {process} is in {group} already")
        membership = self._groups[group, process] = Group(self, group, process)
        self.tell(e.JoinWanted(self.now(), process, group))
        await membership.joined
        return membership

    async def flush(self) -> None:
        """Wait until every CBCAST that this site knows of is at its destinations: before effects outside."""
        self._token += 1
        done = self._flushes[self._token] = asyncio.get_running_loop().create_future()
        self.host.tell(e.FlushWanted(self.now(), self._token))
        await done

    async def cast(
        self,
        group: Group,
        primitive: e.Primitive,
        data: bytes,
        label: str = "",
        number: int = 0,
        *,
        uniform: bool = False,
        causal: bool = False,
    ) -> str:
        """Begin a broadcast of a member; its id."""
        if causal and label:
            raise LocalProtocolError(f"a causal broadcast has no label, {label!r} was given")
        await self.host.room()
        self._token += 1
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._begun[self._token] = begun
        wanted = e.BroadcastWanted(
            self.now(), group.process, group.name, primitive, data, label, number, uniform, self._token, causal=causal
        )
        self.host.tell(wanted)
        return await begun

    async def call(self, group: Group, data: bytes, answers: int, label: str) -> list[Answer]:
        """Of a member to its group."""
        await self.host.room()
        self._token += 1
        token = self._token
        call = self._calls[token] = _Call(answers)
        wanted = e.BroadcastWanted(
            self.now(), group.process, group.name, e.Primitive.ABCAST, data, label, token=token, call=True
        )
        try:
            self.host.tell(wanted)
            return await call.done
        finally:
            self._calls.pop(token, None)

    # --- from the kernel -------------------------------------------------------------------------------------------

    def _on_deliver(self, action: e.Deliver) -> None:
        for process in action.processes:
            name = process.partition("/")[2]
            if (group := self._groups.get((action.group, name))) is not None:
                reply = (self, name) if action.call else None
                kind = action.primitive.value
                group.hear(Message(action.group, action.message, action.sender, kind, action.body, reply))

    def _on_view(self, action: e.DeliverView) -> None:
        view = View(action.view.name, action.view.number, action.view.members, action.failed)
        for process in action.processes:
            if (group := self._groups.get((view.group, process.partition("/")[2]))) is not None:
                group.hear(view)

    def _on_left(self, action: e.Left) -> None:
        if (group := self._groups.pop((action.group, action.process.partition("/")[2]), None)) is not None:
            group.end(None)

    def _on_begun(self, action: e.BroadcastDone) -> None:
        if action.token in self._calls:
            self._calls[action.token].fail(BroadcastFailed(action.problem))
        begun = self._begun.pop(action.token, None)
        if begun is None or begun.done():
            return
        if action.problem:
            begun.set_exception(BroadcastFailed(action.problem))
        else:
            begun.set_result(action.message)

    def _on_flushed(self, action: e.FlushDone) -> None:
        if (done := self._flushes.pop(action.token, None)) is not None and not done.done():
            done.set_result(None)

    def _on_opened(self, action: e.CallOpened) -> None:
        if (call := self._calls.get(action.token)) is not None:
            call.open(action.processes)

    def _on_answer(self, action: e.AnswerHeard) -> None:
        if (call := self._calls.get(action.token)) is not None:
            call.hear(Answer(action.process, action.body, action.failed))

    def _on_site_view(self, action: e.SiteViewChanged) -> None:
        del action
        self._operational.set()

    def _on_died(self, action: e.SiteDied) -> None:
        self._operational.clear()
        error = SiteFailed(f"site {action.site}: {action.reason}")
        groups, self._groups = self._groups, {}
        for group in groups.values():
            group.end(error)
        for call in self._calls.values():
            call.fail(error)
        futures: list[asyncio.Future[str] | asyncio.Future[None]] = [*self._begun.values(), *self._flushes.values()]
        self._begun, self._flushes = {}, {}
        for each in futures:
            if not each.done():
                each.set_exception(error)

    def id_of(self, process: str) -> str:
        """The name of a process of this incarnation as others see it."""
        return process_id(self.kernel.me, process)


class _Call:
    """One call that waits for answers."""

    def __init__(self, wanted: int) -> None:
        self.done: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._wanted = wanted
        self._owing: set[str] = set()
        self._answers: list[Answer] = []

    def open(self, processes: tuple[str, ...]) -> None:
        self._owing, self._answers = set(processes), []

    def hear(self, answer: Answer) -> None:
        self._owing.discard(answer.process)
        if self._wanted == ALL or not answer.failed:
            self._answers.append(answer)
        enough = self._wanted != ALL and len(self._answers) >= self._wanted
        if (enough or not self._owing) and not self.done.done():
            self.done.set_result(self._answers)

    def fail(self, error: IsotoneError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


@asynccontextmanager
async def site(
    system: str,
    *,
    name: str,
    sites: Sequence[str],
    address: str | Sequence[str] | None = None,
    node: Node | None = None,
    state: Path | str | None = None,
    credential: bytes = b"",
    suspect_ms: int = SUSPECT_US // 1000,
    clusters: Sequence[Sequence[str]] = (),
) -> AsyncIterator[Site]:
    """Run the site ``name`` of a system while the block lasts; ``sites`` are the names of all, the same at all.

    ``clusters``: the sites of each cluster of a wide-area network, the same at all; ``sites`` are those of one.

    It stands beside a daemon in this program (``node``), or is a client of one at an ``address``. ``state`` is a
    directory of its own, in which it keeps the site views: without one, its incarnations are not told apart after a
    restart, so leave it out in tests only.
    """
    if (address is None) == (node is None):
        raise LocalProtocolError("a site needs either the address of a daemon, or a node in this program")
    settings = IsisSettings(
        site=name,
        sites=tuple(sites),
        system=system,
        suspect_us=suspect_ms * 1000,
        clusters=tuple(map(tuple, clusters)),
    )
    service: Service
    if node is not None:
        service = EmbeddedService(node)
    else:
        assert address is not None
        service = SessionService(address, credential=credential)
    running = Site(settings, service, Path(state) if state is not None else None)
    await running.host.start()
    try:
        await running.operational()
        yield running
    finally:
        await running.host.stop()
