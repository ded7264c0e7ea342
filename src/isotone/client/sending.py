"""Sending: wait for room, submit, wait for what becomes of it.

Senders wait for room in their turn. What never left this process when its session ended is sent in the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from isotone.client.errors import ClientError, NotSent, Unconfirmed, UnknownFate
from isotone.client.inbox import Pressure
from isotone.client.ledger import Again, Ledger, Outcome, Parcel, Sent
from isotone.client.link import MICROSECONDS, Link
from isotone.client.streams import Loop
from isotone.core import boundary as b4
from isotone.core.bundles import MESSAGES_MAX
from isotone.core.ids import Stamp
from isotone.evs.sessions.notices import SendWanted

GRACE_S = 0.25
"""So long after its deadline a sender waits for the word that its message was dropped."""

MESSAGE_COST = 100
"""Roughly, what a request costs beside its bodies."""

Item = TypeVar("Item")
Body = bytes | bytearray | memoryview


def parcels(whole: Parcel, bundle_bytes_max: int) -> list[Parcel]:
    """Cut into what fits into a bundle each."""
    out: list[Parcel] = []
    start, size = 0, 0
    for place, body in enumerate(whole.bodies):
        if place > start and (size + len(body) > bundle_bytes_max or place - start == MESSAGES_MAX):
            out.append(_piece(whole, start, place))
            start, size = place, 0
        size += len(body)
    out.append(_piece(whole, start, len(whole.bodies)) if start else whole)
    return out


def _piece(whole: Parcel, start: int, end: int) -> Parcel:
    return msgspec.structs.replace(whole, bodies=whole.bodies[start:end], types=whole.types[start:end])


class Turn(msgspec.Struct, frozen=True):
    """Somebody waits for room for so many bytes."""

    number: int
    size: int
    waiter: asyncio.Future[None]


class Sending:
    """The senders of one client."""

    def __init__(self, link: Link, pressure: Pressure, loop: Loop, echoes: Callable[[Parcel], bool]) -> None:
        self.ledger = Ledger()
        self._link = link
        self._pressure = pressure
        self._echoes = echoes  # whether we will hear it ourselves, if it is sent now
        self._loop = loop
        self._queue: deque[Turn] = deque()  # who waits for room
        self._called: set[int] = set()  # whose turn it is; only looked up
        self._promised = 0  # what they will take of the room
        self._turns = 0
        self._over: ClientError | None = None

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def wait(
        self, waiter: asyncio.Future[Item], due: float | None = None, late: ClientError | None = None
    ) -> Item:
        """Wait for the daemon; the error ``late`` when it is due."""
        timer = None
        if due is not None and late is not None:
            timer = self._loop.call_at(due, _fail, waiter, late)
        self._pressure.enter(waiter)  # type: ignore[arg-type]
        try:
            return await waiter
        finally:
            self._pressure.exit(waiter)  # type: ignore[arg-type]
            if timer is not None:
                timer.cancel()

    async def room(self, due: float | None = None, size: int = 0) -> None:
        """Until something of this size may be asked; whoever came first goes first."""
        if self._over is not None:
            raise self._over.with_traceback(None)
        if self._link.room > 0 and not self._queue and not self._called:
            return
        self._turns += 1
        turn = Turn(self._turns, size + MESSAGE_COST, self._loop.create_future())
        self._queue.append(turn)
        while True:
            try:
                await self.wait(turn.waiter, due, NotSent("deadline"))
            except BaseException:
                self._give_up(turn)
                raise
            self._uncall(turn)
            if self._link.room > 0:
                return
            turn = Turn(turn.number, turn.size, self._loop.create_future())
            self._queue = deque(sorted([turn, *self._queue], key=lambda each: each.number))

    def _give_up(self, turn: Turn) -> None:
        if self._uncall(turn):
            self.wake()  # it had its turn: now it is the next one's
        else:
            self._queue = deque(each for each in self._queue if each is not turn)

    def _uncall(self, turn: Turn) -> bool:
        if turn.number not in self._called:
            return False
        self._called.remove(turn.number)
        self._promised -= turn.size
        return True

    def ask(self, request: b4.Request) -> None:
        """Ask something for which there was room, and let the next one have what is left of it."""
        try:
            self._link.driver.ask(request)
        finally:
            self.wake()

    def wake(self) -> None:
        """Call those who wait, as many as there is room for."""
        if not self._queue:
            return
        room = self._link.room
        while self._queue and room > self._promised:
            turn = self._queue.popleft()
            if not turn.waiter.done():
                self._called.add(turn.number)
                self._promised += turn.size
                turn.waiter.set_result(None)

    def end(self, error: ClientError) -> None:
        """There will be no room any more."""
        self._over = error
        queue, self._queue = self._queue, deque()
        for turn in queue:
            _fail(turn.waiter, error)

    # --- sending ---------------------------------------------------------------------------------------------------

    async def send_one(self, parcel: Parcel, due: float | None) -> Stamp | None:
        """Send what fits into one bundle."""
        while True:
            await self.room(due, _size(parcel))
            sent = self._submit(parcel, due)
            try:
                outcome = await self._outcome(sent, due)
            finally:
                sent.waiter.cancel()  # no more than a mark, if somebody gave up waiting
            if not isinstance(outcome, Again):
                return outcome

    async def send(self, pieces: Sequence[Parcel], due: float | None) -> Stamp | None:
        """Send in order; the stamp of the last that is to be confirmed."""
        todo, flying = deque(pieces), deque[tuple[Parcel, Sent]]()
        stamp: Stamp | None = None
        try:
            while todo or flying:
                epoch = self._link.epoch
                while todo and self._link.epoch == epoch:
                    await self.room(due, _size(todo[0]))
                    if flying and self._link.epoch != epoch:
                        self.wake()  # what is sent again goes first; the turn is the next one's
                        break
                    epoch = self._link.epoch
                    flying.append((todo[0], self._submit(todo[0], due)))
                    todo.popleft()
                again: list[Parcel] = []
                while flying:
                    outcome = await self._outcome(flying[0][1], due)
                    parcel, _ = flying.popleft()
                    if isinstance(outcome, Again):
                        again.append(parcel)
                    else:
                        stamp = outcome
                todo.extendleft(reversed(again))
        finally:
            for _, sent in flying:
                sent.waiter.cancel()
        return stamp

    def _submit(self, parcel: Parcel, due: float | None) -> Sent:
        deadline_us = None if due is None else max(0, int((due - self._loop.time()) * MICROSECONDS))
        driver = self._link.driver
        wanted = SendWanted(
            driver.now(), parcel.service, parcel.groups, parcel.bodies, parcel.types, parcel.flags, deadline_us
        )
        waiter: asyncio.Future[Outcome] = self._loop.create_future()
        sent = Sent(driver.session.submitted + 1, parcel, waiter, echoes=self._echoes(parcel))
        self.ledger.add(sent)
        try:
            driver.hand(wanted)
        except BaseException:
            self.ledger.forget(sent)
            raise
        finally:
            self.wake()
        return sent

    async def _outcome(self, sent: Sent, due: float | None) -> Outcome:
        if due is None:
            return await self.wait(sent.waiter)
        if sent.confirm:
            return await self.wait(sent.waiter, due, Unconfirmed("deadline"))
        return await self.wait(sent.waiter, due + GRACE_S, UnknownFate("its deadline passed"))


def _size(parcel: Parcel) -> int:
    return sum(map(len, parcel.bodies))


def _fail(waiter: asyncio.Future[Item], error: ClientError) -> None:
    if not waiter.done():
        waiter.set_exception(error)
