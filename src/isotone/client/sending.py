"""Sending: wait for room, submit, wait for what becomes of it.

Senders wait for room in their turn. What never left this process when its session ended is sent in the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from isotone.client.errors import ClientError, NotSent, Unconfirmed, UnknownFate
from isotone.client.events import Receipt
from isotone.client.inbox import Pressure
from isotone.client.ledger import Again, Ledger, Outcome, Parcel, Sent
from isotone.client.link import MICROSECONDS, Link
from isotone.client.posting import Kind, Posting
from isotone.client.streams import Loop
from isotone.core import boundary as b4
from isotone.core.ids import MessageId
from isotone.evs.sessions.notices import SendWanted
from isotone.evs.sessions.settings import ClientSettings
from isotone.evs.sessions.submission import cuts

GRACE_S = 0.25
"""So long after its deadline a sender waits for the word that its message was dropped."""

MESSAGE_COST = 100
"""Roughly, what a request costs beside its bodies."""

Item = TypeVar("Item")
Body = bytes | bytearray | memoryview


def parcels(whole: Parcel, settings: ClientSettings) -> list[Parcel]:
    """Cut into what fits into a bundle each."""
    sizes = list(map(len, whole.bodies))
    places = list(cuts(sizes, bundle_bytes_max=settings.bundle_bytes_max, packed_bytes_max=settings.packed_bytes_max))
    return [whole] if len(places) == 1 else [_piece(whole, start, end) for start, end in places]


def _piece(whole: Parcel, start: int, end: int) -> Parcel:
    return msgspec.structs.replace(whole, bodies=whole.bodies[start:end], types=whole.types[start:end])


class Turn(msgspec.Struct, frozen=True):
    """Somebody waits for room for so many bytes."""

    number: int
    size: int
    waiter: asyncio.Future[None]


class Sending:
    """The senders of one client."""

    def __init__(
        self,
        link: Link,
        pressure: Pressure,
        loop: Loop,
        echoes: Callable[[Parcel], bool],
        settings: ClientSettings,
    ) -> None:
        self.ledger = Ledger()
        self._link = link
        self._pressure = pressure
        self._echoes = echoes  # whether we will hear it ourselves, if it is sent now
        self._loop = loop
        self._queue: deque[Turn] = deque()  # who waits for room
        self._called: set[int] = set()  # whose turn it is; only looked up
        self._promised = 0  # what they will take of the room
        self._turns = 0
        self._waking = False
        self._over: ClientError | None = None
        self._again: list[Parcel] = []  # posted in a session that ended before they left
        self._posting = Posting(loop, self._submit_posted, parcel_bytes_max=settings.packed_bytes_max)
        self._message_bytes_max = settings.message_bytes_max

    # --- posting ---------------------------------------------------------------------------------------------------

    def post(self, kind: Kind, body: bytes, type: int, *, in_turn: bool = False) -> bool:
        """Send without waiting for what becomes of it; False when there is no room now, or others wait for it."""
        if not in_turn and (self._queue or self._called or self._over is not None or self._again):
            return False
        return self._posting.put(kind, body, type, self._message_bytes_max)

    def posted_id(self) -> MessageId | None:
        """The name of what was posted last, if the session lasts and drops nothing before it; None without one."""
        waiting = sum(len(parcel.bodies) for parcel in self._again) + self._posting.count
        session = self._link.session
        return session.message_id(session.submitted + waiting)

    def flush(self) -> bool:
        """Submit what was posted; whether nothing is left."""
        while self._again:
            if not self._submit_posted(self._again[0]):
                return False
            del self._again[0]
        return self._posting.flush()

    def _submit_posted(self, parcel: Parcel) -> bool:
        if self._link.room <= 0:
            return False
        sent = self._submit(parcel, None)
        sent.waiter.add_done_callback(partial(self._on_posted, parcel))
        return True

    def _on_posted(self, parcel: Parcel, waiter: asyncio.Future[Outcome]) -> None:
        """Taken, or of unknown fate, and then `Reconnected` says so; what never left goes in the next session."""
        if not waiter.cancelled() and waiter.exception() is None and isinstance(waiter.result(), Again):
            self._again.append(parcel)
            self.wake()

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
        if self.flush() and self._link.room > 0 and not self._queue and not self._called:
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
        """Call those who wait, as many as there is room for; what was posted stands before them."""
        if self._waking or not (self._queue or self._posting or self._again):
            return
        self._waking = True
        is_flushed = self.flush()
        self._waking = False
        if not self._queue or not is_flushed:
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

    async def send_one(self, parcel: Parcel, due: float | None, *, again: bool = True) -> Receipt:
        """Send what fits into one bundle; ``again``: also in a later session, if it did not leave in the present."""
        while True:
            await self.room(due, _size(parcel))
            sent = self._submit(parcel, due)
            try:
                outcome = await self._outcome(sent, due)
            finally:
                sent.waiter.cancel()  # no more than a mark, if somebody gave up waiting
            if not isinstance(outcome, Again):
                return outcome
            if not again:
                raise NotSent("disconnected")

    async def send(self, pieces: Sequence[Parcel], due: float | None) -> Receipt | None:
        """Send in order; the receipt of the last, None where there is nothing to send."""
        todo, flying = deque(pieces), deque[tuple[Parcel, Sent]]()
        receipt: Receipt | None = None
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
                        receipt = outcome
                todo.extendleft(reversed(again))
        finally:
            for _, sent in flying:
                sent.waiter.cancel()
        return receipt

    def _submit(self, parcel: Parcel, due: float | None) -> Sent:
        deadline_us = None if due is None else max(0, int((due - self._loop.time()) * MICROSECONDS))
        driver = self._link.driver
        wanted = SendWanted(
            driver.now(), parcel.service, parcel.groups, parcel.bodies, parcel.types, parcel.flags, deadline_us
        )
        waiter: asyncio.Future[Outcome] = self._loop.create_future()
        sent = Sent(
            driver.session.submitted + 1, parcel, waiter, driver.session.message_id, echoes=self._echoes(parcel)
        )
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
            return await self.wait(sent.waiter, due, Unconfirmed("deadline", id=sent.id))
        return await self.wait(sent.waiter, due + GRACE_S, UnknownFate("its deadline passed", sent.id))


def _size(parcel: Parcel) -> int:
    return sum(map(len, parcel.bodies))


def _fail(waiter: asyncio.Future[Item], error: ClientError) -> None:
    if not waiter.done():
        waiter.set_exception(error)
