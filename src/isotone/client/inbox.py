"""Events that wait for the program, and the bound of all of them together.

Each group and the session itself has an inbox; all share one `Pressure`. Above its bound nothing more is read from the
daemon, whose policy for slow readers then acts. While the program waits for an answer of its daemon reading goes on, or
it would wait for ever: that has a bound too, at which the waiting fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from isotone.client.errors import ClientError, Overrun
from isotone.client.events import Bundle, Message
from isotone.client.streams import Loop

EVENT_BYTES = 256
"""What an event counts beside its payload."""
TURN_MAX = 256
"""Events that a program takes in one turn of the loop, before others have theirs."""

Queued = object  # a Bundle, or an event that stands for itself


class Pressure:
    """Bytes that wait in all inboxes, and operations that wait for the daemon."""

    def __init__(self, bytes_max: int, overrun_max: int, pause: Callable[[bool], None]) -> None:
        self.held = 0
        self.paused = False
        self.overruns = 0
        self._bytes_max = bytes_max
        self._overrun_max = overrun_max
        self._pause = pause
        self._waiting: dict[asyncio.Future[object], None] = {}
        self._released = False

    def enter(self, waiter: asyncio.Future[object]) -> None:
        """An operation waits for the daemon."""
        self._waiting[waiter] = None
        if self.paused:
            self.adjust()

    def exit(self, waiter: asyncio.Future[object]) -> None:
        """It does not any more."""
        self._waiting.pop(waiter, None)
        if not self._waiting and self.held > self._bytes_max:
            self.adjust()

    def taken(self, size: int) -> None:
        """The program read something."""
        self.held -= size
        if self.paused:
            self.adjust()

    def release(self) -> None:
        """From now on everything is read: the session is being closed, and nothing more is put anywhere."""
        self._released = True
        self.adjust()

    def adjust(self) -> None:
        """Read, or do not; after everything that changes what that depends on."""
        if self.held > self._overrun_max and self._waiting:
            self._overrun()
        if self._released or (self._waiting and self.held <= self._overrun_max):
            paused = False
        elif self.paused:
            paused = self.held > self._bytes_max // 2
        else:
            paused = self.held > self._bytes_max
        if paused != self.paused:
            self.paused = paused
            self._pause(paused)

    def _overrun(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self.overruns += 1
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(
                    Overrun(f"{self.held} bytes of events were not read; the bound is {self._overrun_max}")
                )


class Inbox:
    """The events of one group, or those of the session. Several tasks may read: each event goes to one of them."""

    def __init__(self, loop: Loop, pressure: Pressure) -> None:
        self._loop = loop
        self._pressure = pressure
        self._items: deque[tuple[Queued, int, Callable[[], None] | None]] = deque()
        self._place, self._start = 0, 0  # in the bundle at the head
        self._waiters: list[asyncio.Future[None]] = []
        self._ended = False
        self._error: ClientError | None = None
        self._turn = 0
        self._then: Callable[[], None] | None = None  # when the program is done with what it took last
        self.held = 0

    def __len__(self) -> int:
        return len(self._items)

    # --- putting ---------------------------------------------------------------------------------------------------

    def put(self, item: Queued, size: int = 0, then: Callable[[], None] | None = None) -> None:
        """One more; ignored when it is over. ``then`` is called when the program has taken it and asks for more."""
        if self._ended:
            return
        size += EVENT_BYTES
        self._items.append((item, size, then))
        self.held += size
        self._pressure.held += size
        if self._waiters:
            self._wake()

    def drop_oldest(self) -> None:
        """Forget the event that waits longest."""
        self._pop()

    def end(self, error: ClientError | None = None) -> None:
        """Nothing more comes; what is there can still be read, but nobody is slow any more who does not."""
        if not self._ended:
            self._ended, self._error = True, error
            self._pressure.taken(self.held)
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- taking ----------------------------------------------------------------------------------------------------

    def may_take(self) -> bool:
        """Whether the next event may be taken without waiting: it is there, and the turn is not over."""
        self._turn += 1
        if self._then is not None:
            self._go_on()
        return bool(self._items) and self._turn < TURN_MAX

    async def wait(self) -> None:
        """Until there is something; `StopAsyncIteration`, or the error, at the end. What is there stays there."""
        self._turn += 1
        if self._then is not None:
            self._go_on()
        if self._items and self._turn >= TURN_MAX:
            self._turn = 0
            await asyncio.sleep(0)
        while not self._items:
            if self._ended:
                if self._error is not None:
                    raise self._error.with_traceback(None)
                raise StopAsyncIteration
            self._turn = 0
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if not waiter.done() or waiter.cancelled():
                    self._waiters = [each for each in self._waiters if each is not waiter]

    def _go_on(self) -> None:
        then, self._then = self._then, None
        assert then is not None
        then()

    def take(self) -> Queued:
        """The next event; of a bundle, one message."""
        item = self._items[0][0]
        if not isinstance(item, Bundle):
            return self._pop()
        place, lengths = self._place, item.bundle.lengths
        message = Message(item, place, self._start)
        self._start += lengths[place]
        self._place = place = place + 1
        if place == len(lengths):
            self._pop()
        return message

    def take_bundle(self) -> Queued:
        """The next event; bundles as a whole, or what is left of one."""
        place, start = self._place, self._start
        item = self._pop()
        return item.rest(place, start) if place and isinstance(item, Bundle) else item

    def _pop(self) -> Queued:
        item, size, then = self._items.popleft()
        if then is not None:
            self._then = then
        self._place = self._start = 0
        self.held -= size
        if not self._ended:
            self._pressure.taken(size)
        return item
