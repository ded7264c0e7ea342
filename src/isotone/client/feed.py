"""Events on their way from the thread of the loop to the thread of a program: several at once, none lost."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from isotone.client.errors import Closed
from isotone.client.events import Bundle, Message
from isotone.client.inbox import Inbox

ITEMS_MAX = 64
"""Bundles and events that are fetched at once."""

Make = Callable[[Bundle, int, int], Message]
Run = Callable[[Coroutine[Any, Any, None], float | None], None]


class Feed:
    """What was fetched from an inbox. Fetching appends here in the thread of the loop, so giving up loses nothing."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._items: deque[object] = deque()
        self._place, self._start = 0, 0  # in the bundle at the head
        self._lock = threading.Lock()  # of those who read
        self._ended = False

    def event(self, run: Run, timeout: float | None, make: Make) -> object | None:
        """The next event, of a bundle one message; None when nothing more comes."""
        return self._locked(run, timeout, lambda: self._take(make))

    def bundle(self, run: Run, timeout: float | None, make: Make) -> object | None:
        """The next event, bundles as a whole, or what is left of one; None when nothing more comes."""
        del make
        return self._locked(run, timeout, self._take_bundle)

    def _locked(self, run: Run, timeout: float | None, take: Callable[[], object]) -> object | None:
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError
        try:
            if not self._items and not self._ended:
                self._fill(run, timeout)
            return take() if self._items else None
        finally:
            self._lock.release()

    def _fill(self, run: Run, timeout: float | None) -> None:
        try:
            run(self._fetch(timeout), None)
        except Closed:
            self._ended = True  # the thread of the loop has ended

    async def _fetch(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._inbox.wait()
        except StopAsyncIteration:
            self._ended = True
        while len(self._inbox) and len(self._items) < ITEMS_MAX:
            self._items.append(self._inbox.take_bundle())

    def _take(self, make: Make) -> object:
        item = self._items[0]
        if not isinstance(item, Bundle):
            return self._items.popleft()
        message = make(item, self._place, self._start)
        self._start += item.bundle.lengths[self._place]
        self._place += 1
        if self._place == item.count:
            self._pop()
        return message

    def _take_bundle(self) -> object:
        place, start = self._place, self._start
        item = self._pop()
        return item.rest(place, start) if place and isinstance(item, Bundle) else item

    def _pop(self) -> object:
        self._place = self._start = 0
        return self._items.popleft()
