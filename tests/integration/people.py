"""Clients of real daemons that keep what they heard and what was acknowledged to them, session by session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from isotone.client import ClientError, Group, Message, Reconnected, Session, Settings, View, connect
from isotone.core.ids import ClientId, GroupViewId
from isotone.core.services import Service
from tests.integration.cluster import WITHIN_S

GROUP = "town"
PACE_S = 0.04  # of those who talk, so that records stay short
SETTINGS = Settings(reconnect_within_s=WITHIN_S, pause_max_s=0.2, close_within_s=2.0)


class Heard(NamedTuple):
    """One message: by which session of ours, in which view, what."""

    me: ClientId
    view: GroupViewId
    body: bytes


class Person:
    """A client that reads all the time."""

    def __init__(self, name: str, session: Session, group: Group) -> None:
        self.name, self.session, self.group = name, session, group
        self.heard: list[Heard] = []
        self.views: list[View] = []
        self.reconnected: list[Reconnected] = []
        self.acknowledged: list[bytes] = []
        self._changed = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read())]
        self._talking = False

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.heard]

    @property
    def members(self) -> tuple[str, ...]:
        """By name, in the last view."""
        return tuple(sorted(member.name for member in self.views[-1].members)) if self.views else ()

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        """Look after every event."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while not reached():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{self.name} waited in vain for {what}; last view: {self.members}") from None

    async def sees(self, *names: str) -> None:
        """A view of exactly these."""
        await self.until(lambda: self.members == tuple(sorted(names)), f"a view of {names}")

    async def hears(self, *bodies: bytes) -> None:
        await self.until(lambda: set(bodies) <= set(self.bodies), f"{bodies!r}")

    async def confirm(self, body: bytes) -> None:
        """Send, and keep it if there is an acknowledgement."""
        with suppress(ClientError):
            await self.group.send(body, confirm=True)
            self.acknowledged.append(body)

    def talk(self) -> None:
        """Send one acknowledged message after the other, and others between, until told to be silent."""
        self._talking = True
        self._tasks.append(asyncio.create_task(self._talk()))

    async def silence(self) -> None:
        """Say the last one."""
        self._talking = False
        await self._tasks[-1]

    async def close(self) -> None:
        self._talking = False
        await self.session.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _talk(self) -> None:
        number = 0
        while self._talking:
            number += 1
            await self.confirm(b"%s %d" % (self.name.encode(), number))
            for service in (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED):
                with suppress(ClientError):
                    await self.group.send(b"%s %d %d" % (self.name.encode(), number, service), service=service)
            await asyncio.sleep(PACE_S)

    async def _read(self) -> None:
        async for event in self.group:
            match event:
                case View():
                    self.views.append(event)
                case Message():
                    self.heard.append(Heard(self.session.id, self.views[-1].id, event.body))
                case Reconnected():
                    self.reconnected.append(event)
            self._changed.set()


async def person(name: str, *addresses: str) -> Person:
    """Connected, and in the group."""
    session = await connect(list(addresses), name=name, settings=SETTINGS)
    return Person(name, session, await session.join(GROUP))


def assert_nothing_acknowledged_is_lost(people: Iterable[Person], dead: Iterable[ClientId] = ()) -> int:
    """What one had acknowledged, every member of the view it was heard in heard, unless its session died then."""
    people, gone = list(people), set(dead)
    by_session: dict[ClientId, set[bytes]] = {}
    members: dict[GroupViewId, tuple[ClientId, ...]] = {}
    for each in people:
        members |= {view.id: view.members for view in each.views}
        for heard in each.heard:
            by_session.setdefault(heard.me, set()).add(heard.body)
    count = 0
    for each in people:
        views = {heard.body: heard.view for heard in each.heard}
        for body in each.acknowledged:
            count += 1
            for member in members[views[body]]:
                assert member in gone or body in by_session.get(member, ()), f"{member} never heard {body!r}"
    return count


def assert_all_end_in_one_view(people: Iterable[Person]) -> None:
    """The last view of all is the same, and has their sessions."""
    people = list(people)
    assert len({each.views[-1].id for each in people}) == 1
    for each in people:
        assert set(each.views[-1].members) == {other.session.id for other in people}
