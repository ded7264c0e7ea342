"""The blocking twin of the client, for programs without asyncio: the same names, with timeouts.

    with isotone.client.blocking.connect("localhost:4803", name="alice") as me:
        chat = me.join("chat")
        chat.send(b"hello")
        for event in chat:
            ...

A thread of its own runs the asyncio client. Methods take ``timeout`` in seconds and raise `TimeoutError`; what was
asked may still happen then. Objects may be used from several threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, TypeVar, cast

from isotone.client import connecting, group, session
from isotone.client import events as told
from isotone.client.calls import Answers
from isotone.client.errors import Closed
from isotone.client.feed import Feed, Make, Run
from isotone.client.sending import Body
from isotone.client.settings import Settings
from isotone.core.ids import ClientId, MessageId
from isotone.core.services import Service

__all__ = ["Group", "Message", "Session", "connect"]

Result = TypeVar("Result")
Groups = str | ClientId | Sequence[str | ClientId]


class Worker:
    """A thread with an event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"isotone {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        """Whoever still waits for something here hears that there is nothing more."""
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)
        await self._loop.shutdown_asyncgens()

    def run(self, work: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
        """Have it done there, and wait for it."""
        with self._lock:
            if self._stopped:
                work.close()
                raise Closed("the session was closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except CancelledError:
            raise Closed("the session was closed") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread, and wait for that."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Message(told.Message):
    """As `isotone.Message`, but it answers without being awaited."""

    __slots__ = ("_worker",)

    def __init__(self, source: told.Bundle, place: int, start: int, worker: Worker) -> None:
        super().__init__(source, place, start)
        self._worker = worker

    def reply(  # type: ignore[override]
        self, body: bytes | memoryview, *, service: Service = Service.FIFO, timeout: float | None = None
    ) -> None:
        """Answer a call; returns when our daemon has taken the answer."""
        self._check_call()
        self._worker.run(self._source.session._reply(self, body, service), timeout)


GroupEvent = Message | told.View | told.ViewChanging | told.Transitional | told.SelfLeave | told.Slow | told.Reconnected
SessionEvent = Message | told.Slow | told.Interrupted | told.Resumed | told.Reconnected


class Group:
    """As `isotone.Group`."""

    def __init__(self, of: group.Group, session: Session, worker: Worker) -> None:
        self.session = session
        self._group = of
        self._worker = worker
        self._feed = Feed(of._inbox)

    @property
    def name(self) -> str:
        """The group's name."""
        return self._group.name

    @property
    def view(self) -> told.View | None:
        """The newest view that came."""
        return self._group.view

    @property
    def members(self) -> tuple[ClientId, ...]:
        """The members of the newest view."""
        return self._group.members

    @property
    def is_member(self) -> bool:
        """Whether we are in the group now."""
        return self._group.is_member

    @property
    def held(self) -> tuple[ClientId, ...]:
        """See `isotone.Group.held`."""
        return self._group.held

    def send(
        self,
        body: Body,
        *,
        service: Service | None = None,
        type: int = 0,
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
        timeout: float | None = None,
    ) -> told.Receipt:
        """See `isotone.Group.send`."""
        work = self._group.send(
            body, service=service, type=type, deadline=deadline, confirm=confirm, self_discard=self_discard
        )
        return self._worker.run(work, timeout)

    def post(
        self,
        body: Body,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        timeout: float | None = None,
    ) -> MessageId | None:
        """See `isotone.Group.post`."""
        return self._worker.run(self._group.post(body, service=service, type=type, self_discard=self_discard), timeout)

    def send_many(
        self,
        bodies: Sequence[Body],
        *,
        service: Service | None = None,
        types: Sequence[int] = (),
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
        timeout: float | None = None,
    ) -> told.Receipt | None:
        """See `isotone.Group.send_many`."""
        work = self._group.send_many(
            bodies, service=service, types=types, deadline=deadline, confirm=confirm, self_discard=self_discard
        )
        return self._worker.run(work, timeout)

    def call(
        self,
        body: Body,
        *,
        deadline: float,
        answers: Answers = "all",
        service: Service = Service.AGREED,
        type: int = 0,
    ) -> list[told.Message]:
        """See `isotone.Group.call`; the deadline is the timeout."""
        return self._worker.run(self._group.call(body, deadline=deadline, answers=answers, service=service, type=type))

    def leave(self, timeout: float | None = None) -> None:
        """Cease to be a member; returns when that took effect."""
        self._worker.run(self._group.leave(), timeout)

    def receive(self, timeout: float | None = None) -> GroupEvent:
        """The next event; `TimeoutError` if none comes in time, `Closed` when none will."""
        return cast(GroupEvent, _receive(self._feed, self._worker, timeout))

    def __iter__(self) -> Iterator[GroupEvent]:
        return cast(Iterator[GroupEvent], _iterate(self._feed.event, self._worker))

    def bundles(self) -> Iterator[told.BundleEvent]:
        """The same, with bundles as a whole; their messages answer by `isotone.Message.reply`."""
        return cast(Iterator[told.BundleEvent], _iterate(self._feed.bundle, self._worker))

    def __repr__(self) -> str:
        return repr(self._group)


class Session:
    """As `isotone.Session`. Made by `connect`."""

    def __init__(self, of: session.Session, worker: Worker) -> None:
        self._session = of
        self._worker = worker
        self._feed = Feed(of._hearing.private)
        self._joined: dict[str, Group] = {}

    @property
    def id(self) -> ClientId:
        """Who we are for others."""
        return self._session.id

    @property
    def name(self) -> str:
        """Our private name."""
        return self._session.name

    @property
    def private_group(self) -> str:
        """Where we alone can be reached."""
        return self._session.private_group

    @property
    def is_connected(self) -> bool:
        """Whether the daemon can be reached at present."""
        return self._session.is_connected

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that we are in."""
        return {name: self._joined[name] for name in self._session.groups if name in self._joined}

    @property
    def held(self) -> tuple[ClientId, ...]:
        """See `isotone.Session.held`."""
        return self._session.held

    @property
    def dropped_private(self) -> int:
        """See `isotone.Session.dropped_private`."""
        return self._session.dropped_private

    def join(self, group: str, timeout: float | None = None, *, view_synchronous: bool = False) -> Group:
        """Become a member; returns when the first view with us came."""
        joined = self._joined[group] = Group(
            self._worker.run(self._session.join(group, view_synchronous=view_synchronous), timeout), self, self._worker
        )
        return joined

    def send(
        self,
        groups: Groups,
        body: Body,
        *,
        service: Service | None = None,
        type: int = 0,
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
        timeout: float | None = None,
    ) -> told.Receipt:
        """See `isotone.Session.send`."""
        work = self._session.send(
            groups, body, service=service, type=type, deadline=deadline, confirm=confirm, self_discard=self_discard
        )
        return self._worker.run(work, timeout)

    def post(
        self,
        groups: Groups,
        body: Body,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        timeout: float | None = None,
    ) -> MessageId | None:
        """See `isotone.Session.post`."""
        work = self._session.post(groups, body, service=service, type=type, self_discard=self_discard)
        return self._worker.run(work, timeout)

    def send_many(
        self,
        groups: Groups,
        bodies: Sequence[Body],
        *,
        service: Service | None = None,
        types: Sequence[int] = (),
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
        timeout: float | None = None,
    ) -> told.Receipt | None:
        """See `isotone.Session.send_many`."""
        work = self._session.send_many(
            groups, bodies, service=service, types=types, deadline=deadline, confirm=confirm, self_discard=self_discard
        )
        return self._worker.run(work, timeout)

    def call(
        self,
        group: str,
        body: Body,
        *,
        deadline: float,
        answers: Answers = "first",
        service: Service = Service.AGREED,
        type: int = 0,
    ) -> list[told.Message]:
        """See `isotone.Session.call`; the deadline is the timeout."""
        return self._worker.run(
            self._session.call(group, body, deadline=deadline, answers=answers, service=service, type=type)
        )

    def events(self) -> Iterator[SessionEvent]:
        """Private messages, and what the session says about itself. Once asked for, they must be read."""
        self._session._hearing.events_wanted = True
        return cast(Iterator[SessionEvent], _iterate(self._feed.event, self._worker))

    def receive(self, timeout: float | None = None) -> SessionEvent:
        """The next of these events."""
        self._session._hearing.events_wanted = True
        return cast(SessionEvent, _receive(self._feed, self._worker, timeout))

    def close(self) -> None:
        """Close the session, and end its thread. Twice is harmless."""
        with contextlib.suppress(Closed):
            self._worker.run(self._session.close())
        self._worker.stop()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._session)


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    credential: connecting.Credential = b"",
    tls: connecting.Tls = None,
    settings: Settings | None = None,
    timeout: float | None = None,
) -> Session:
    """Open a session; see `isotone.connect`. It is open when this returns; ``with`` closes it at the end."""
    making = connecting.connect(address, name=name, credential=credential, tls=tls, settings=settings)
    worker = Worker(name or "client")
    try:
        return Session(worker.run(making._open(), timeout), worker)
    except BaseException:
        worker.stop()
        raise


def _receive(feed: Feed, worker: Worker, timeout: float | None) -> object:
    event = feed.event(worker.run, timeout, _maker(worker))
    if event is None:
        raise Closed("nothing more comes")
    return event


def _iterate(take: Callable[[Run, float | None, Make], object | None], worker: Worker) -> Iterator[object]:
    make = _maker(worker)
    while (event := take(worker.run, None, make)) is not None:
        yield event


def _maker(worker: Worker) -> Make:
    return lambda source, place, start: Message(source, place, start, worker)
