"""A replicated log from another process, as an `OrderedLog`: what the automaton of its port says becomes futures.

Around it are streams and timers: those of asyncio in `isotone.host.log_client`, those of a simulated run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

from isotone.core.contract import Action, Event
from isotone.core.errors import IsotoneError
from isotone.core.ordered_log import LogEntry, Snapshot
from isotone.corel.port import wire
from isotone.corel.port.client import PortClient
from isotone.corel.port.events import (
    AppendsWanted,
    AppendWanted,
    Asked,
    ConnectionWanted,
    FollowWanted,
    FrameCame,
    FrameTaken,
    OfferWanted,
    Settled,
    Unwanted,
)

FOLLOW_CREDIT = 4 * 1024 * 1024
US = 1_000_000


class Shell(Protocol):
    """What carries out the rest."""

    def now(self) -> int:
        """Microseconds."""
        ...

    def hand(self, event: Event) -> None:
        """To the automaton, at once or when its turn comes."""
        ...


class Feed:
    """What comes for one who follows."""

    def __init__(self, ticket: int, shell: Shell, feeds: dict[int, Feed]) -> None:
        self.ticket = ticket
        self.frames: asyncio.Queue[wire.Fed | IsotoneError] = asyncio.Queue()
        self._shell, self._feeds = shell, feeds

    async def next(self) -> wire.Fed:
        """The next frame; raises why there is none any more."""
        frame = await self.frames.get()
        if isinstance(frame, IsotoneError):
            raise frame
        return frame

    def used(self, frame: wire.Fed) -> None:
        """More may come."""
        self._shell.hand(FrameTaken(self._shell.now(), self.ticket, frame.size))

    def close(self) -> None:
        """Enough."""
        del self._feeds[self.ticket]
        self._shell.hand(Unwanted(self._shell.now(), self.ticket))


class PortLog:
    """On the running loop. The shell calls `take` for each action."""

    def __init__(self, client: PortClient, shell: Shell) -> None:
        self.client, self._shell = client, shell
        self._tickets = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._feeds: dict[int, Feed] = {}
        self._appends: list[AppendWanted] = []  # of this turn of the loop

    def take(self, action: Action) -> bool:
        """What the automaton said to a caller; False if it is for the shell."""
        if isinstance(action, Settled):
            if (feed := self._feeds.get(action.ticket)) is not None:
                if isinstance(action.outcome, IsotoneError):
                    feed.frames.put_nowait(action.outcome)
            elif (answer := self._answers.pop(action.ticket, None)) is not None and not answer.done():
                if isinstance(action.outcome, IsotoneError):
                    answer.set_exception(action.outcome)
                else:
                    answer.set_result(action.outcome)
            return True
        if isinstance(action, FrameCame):
            if (feed := self._feeds.get(action.ticket)) is not None:
                feed.frames.put_nowait(action.frame)
            return True
        return False

    # --- asking ------------------------------------------------------------------------------------------------------

    def _begin(self) -> tuple[int, asyncio.Future[Any]]:
        """A ticket, and what will be answered."""
        self._tickets += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[self._tickets] = answer
        return self._tickets, answer

    async def _answer(self, ticket: int, answer: asyncio.Future[Any]) -> Any:
        try:
            return await answer
        finally:
            if self._answers.pop(ticket, None) is not None:  # nobody waits any more
                self._shell.hand(Unwanted(self._shell.now(), ticket))

    async def connected(self) -> str:
        """The name of a server that answers."""
        ticket, answer = self._begin()
        self._shell.hand(ConnectionWanted(self._shell.now(), ticket))
        return str(await self._answer(ticket, answer))

    async def append(self, record: bytes, *, within_s: float | None = None) -> int:
        """Order the record and return its position. All of one turn of the loop go together."""
        ticket, answer = self._begin()
        if not self._appends:
            asyncio.get_running_loop().call_soon(self._hand_appends)
        self._appends.append(AppendWanted(ticket, record, None if within_s is None else int(within_s * US)))
        return int(await self._answer(ticket, answer))

    def _hand_appends(self) -> None:
        appends, self._appends = self._appends, []
        wanted = tuple(each for each in appends if each.ticket in self._answers)
        self._shell.hand(AppendsWanted(self._shell.now(), wanted))

    async def asked(
        self,
        frame: wire.ReadRange | wire.WaitFor | wire.Question | wire.Reconfigure,
        *,
        within_s: float | None = None,
        is_change: bool = False,
    ) -> Any:
        """The answer, from whichever server."""
        ticket, answer = self._begin()
        within_us = None if within_s is None else int(within_s * US)
        self._shell.hand(Asked(self._shell.now(), ticket, frame, within_us, is_change))
        return await self._answer(ticket, answer)

    def _feed(self, wanted: wire.Wanted, *, elsewhere: bool = True) -> Feed:
        self._tickets += 1
        feed = self._feeds[self._tickets] = Feed(self._tickets, self._shell, self._feeds)
        self._shell.hand(FollowWanted(self._shell.now(), feed.ticket, wanted, elsewhere))
        return feed

    async def followed(self, wanted: wire.Wanted, *, elsewhere: bool = True) -> AsyncGenerator[wire.Fed, None]:
        """What comes, one after another; ``elsewhere``: it goes on at another server when one is lost."""
        feed = self._feed(wanted, elsewhere=elsewhere)
        try:
            while True:
                frame = await feed.next()
                yield frame
                feed.used(frame)
        finally:
            feed.close()

    # --- the log -----------------------------------------------------------------------------------------------------

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries ``first`` … ``last`` as far as they are green at the server."""
        found: list[LogEntry] = []
        while first <= last:
            answer = await self.asked(wire.ReadRange(0, first, last))
            if not answer.records:
                break
            found += answer.entries()
            first += len(answer.records)
        return found

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on, without end, through losses of servers."""
        feed = self._feed(wire.Follow(0, first, FOLLOW_CREDIT))
        try:
            while True:
                frame = await feed.next()
                assert isinstance(frame, wire.Entries)
                for entry in frame.entries():
                    yield entry
                feed.used(frame)
        finally:
            feed.close()

    async def end(self) -> int:
        """The last position that is green at the server, 0 when there is none."""
        return int(await self.asked(wire.Question(0, "end")))

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if there is one."""
        found, pieces, size = (0, b""), list[bytes](), 0
        while True:
            told = await self.asked(wire.Question(0, "snapshot", f"{found[0]} {size}"))
            if told is None:
                return None
            position, digest, whole, piece = told
            if (position, digest) != found:  # a newer one, or that of another server
                behind = position == found[0] and size > 0
                found, pieces, size = (position, digest), [], 0
                if behind:
                    continue
            pieces.append(piece)
            size += len(piece)
            if size >= whole:
                return Snapshot(position, b"".join(pieces))

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand in a snapshot."""
        ticket, answer = self._begin()
        self._shell.hand(OfferWanted(self._shell.now(), ticket, snapshot.position, snapshot.state))
        await self._answer(ticket, answer)
