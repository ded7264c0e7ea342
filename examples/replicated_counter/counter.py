"""A counter with several replicas: an increment that was confirmed is never lost, whatever the network does.

Every replica joins one group. In each view the members tell each other what they have counted, and go on with the
newest state among them; only views with a majority of all replicas count, so there is never more than one that does.
Increments are SAFE messages. One is confirmed when its own replica hears it in such a view *before a transitional
signal*: then every member of the view has it or hears it before the next daemon view, and every later majority contains
one of them. After the signal that is promised only of those who stay together, perhaps nobody else; so what comes then
is counted, but confirmed only when the next majority turns out to have it. If that majority does not have it, it is
sent again.

A member may hear it after one view more: when the network falls apart, a message of a sender that is cut off comes in a
view of the transition, with the members as before. That view is the end of the one before it, and is counted as such.

State is in memory, and a replica whose daemon crashed begins anew. If only two counted an increment, one of them
forgets it and then counts with the third, it is lost. Who needs more keeps the state on disk.
"""

from __future__ import annotations

import asyncio

import msgspec

import isotone
from isotone.core.ids import NO_DAEMON_VIEW, ClientId, GroupViewId
from isotone.core.views import Cause

NEVER = GroupViewId(NO_DAEMON_VIEW)


class Counted(msgspec.Struct, tag=True):
    """What a replica has counted, told in a view; ``up_to`` is the last majority view in which it counted."""

    view: GroupViewId
    up_to: GroupViewId
    operations: list[str]


class Increment(msgspec.Struct, tag=True):
    """Count one more. The name makes that hearing it twice is harmless."""

    operation: str


decoder = msgspec.json.Decoder(Counted | Increment)


class Counter:
    """One replica of ``replicas``."""

    def __init__(self, group: isotone.Group, replicas: int) -> None:
        self.operations: set[str] = set()
        self._group = group
        self._majority = replicas // 2 + 1
        self._up_to = NEVER
        self._view = NEVER
        self._members: tuple[ClientId, ...] = ()
        self._told: dict[ClientId, Counted] = {}  # in this view
        self._certain = False  # no transitional signal since the view
        self._asked = 0
        self._waiting: dict[str, asyncio.Future[None]] = {}

    @property
    def value(self) -> int:
        """What is counted here."""
        return len(self.operations)

    @property
    def counts(self) -> bool:
        """Whether this view has a majority, and all its members told what they have."""
        return self._up_to == self._view

    async def increment(self) -> str:
        """Count one more; returns its name when it is confirmed."""
        self._asked += 1
        operation = f"{self._group.session.name}.{self._asked}"
        confirmed = self._waiting[operation] = asyncio.get_running_loop().create_future()
        if self.counts:
            await self._send(Increment(operation))
        await confirmed
        return operation

    async def run(self) -> None:
        """Follow the group, for ever."""
        async for event in self._group:
            match event:
                case isotone.View():
                    await self._on_view(event)
                case isotone.Transitional():
                    self._on_transitional()
                case isotone.Reconnected():
                    self._forget()
                case isotone.Message():
                    await self._on_message(event.sender, decoder.decode(event.data))

    def _on_transitional(self) -> None:
        self._certain = False

    def _forget(self) -> None:
        """Messages were missed: what we have is no longer what its view says."""
        self.operations, self._up_to = set(), NEVER

    async def _on_view(self, view: isotone.View) -> None:
        if view.cause is Cause.NETWORK and view.id.next_daemon_view != NO_DAEMON_VIEW:
            return  # a view of the transition: what others confirmed in the one before it may still come, then the next
        self._view, self._members = view.id, view.members
        self._told, self._certain = {}, True
        if len(view.members) >= self._majority:
            await self._send(Counted(view.id, self._up_to, sorted(self.operations)))

    async def _on_message(self, sender: ClientId, message: Counted | Increment) -> None:
        if isinstance(message, Counted):
            if message.view == self._view:
                self._told[sender] = message
            if len(self._told) == len(self._members) and not self.counts:
                await self._begin()
        elif self.counts:
            self.operations.add(message.operation)
            self._confirm()

    async def _begin(self) -> None:
        """All members told what they have: the newest is what all have now. What of ours is missing is sent again."""
        newest = max(each.up_to for each in self._told.values())
        latest = [each.operations for each in self._told.values() if each.up_to == newest]
        self.operations = {operation for operations in latest for operation in operations}
        self._up_to = self._view
        self._confirm()
        for operation in list(self._waiting):
            await self._send(Increment(operation))

    def _confirm(self) -> None:
        if self._certain:
            for operation in [each for each in self._waiting if each in self.operations]:
                confirmed = self._waiting.pop(operation)
                if not confirmed.done():  # nobody waits any more
                    confirmed.set_result(None)

    async def _send(self, message: Counted | Increment) -> None:
        await self._group.send(msgspec.json.encode(message), service=isotone.SAFE)
