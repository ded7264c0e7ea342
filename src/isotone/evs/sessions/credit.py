"""Credit: how many bytes of requests a client may have sent in all, as the daemon grants it.

Each client may have a window of bytes with the daemon that are not handed on yet. A request above the window needs
credit that all clients share; it is granted in turn and comes back when as much was handed on. The daemon
checks each head of a frame against the credit, so that nobody makes it hold more.
"""

from __future__ import annotations

from collections import deque

from isotone.core.errors import RemoteProtocolError


class Credit:
    """The account of one session. Counts are bytes of request frames since the session began."""

    __slots__ = ("_base", "asked", "extra", "granted", "handed", "received", "wanted", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.granted = window  # what the client may have sent; never falls
        self.received = 0  # in whole frames
        self.handed = 0  # handed on or dropped
        self.extra = 0  # borrowed from the pool
        self.asked = 0  # what the client asked for just now, until the pool hears of it
        self.wanted = 0  # what it waits for in the pool
        self._base = 0  # ``handed`` when it was borrowed

    def check(self, size: int) -> None:
        """Whether a request of this size may come."""
        if self.received + size > self.granted:
            raise RemoteProtocolError(f"a request of {size} bytes; the credit left is {self.granted - self.received}")

    def hand_on(self, size: int) -> int:
        """So much left the daemon's care; what the pool gets back."""
        self.handed += size
        back = 0
        if self.extra and self.handed - self._base >= self.extra:
            back, self.extra = self.extra, 0
        self._grant()
        return back

    def borrow(self, free: int) -> int:
        """Take what is wanted from the pool, if so much is free; how much was taken."""
        more = self.wanted  # on top of a loan whose request is here and not handed on: that one is used up
        if more > free:
            return 0
        if not self.extra:
            self._base = self.handed
        self.extra, self.wanted = self.extra + more, 0
        self._grant()
        return more

    def _grant(self) -> None:
        self.granted = max(self.granted, self.handed + self.window, (self._base + self.window + self.extra))


class Pool:
    """What all sessions share for requests above the window; first come, first served."""

    __slots__ = ("_queue", "free")

    def __init__(self, size: int) -> None:
        self.free = size
        self._queue: deque[Credit] = deque()

    def ask(self, credit: Credit) -> None:
        """A session wants to send a request that costs what it asked for."""
        if not credit.wanted:
            self._queue.append(credit)
        credit.wanted, credit.asked = credit.asked, 0

    def leave(self, credit: Credit) -> None:
        """A session is over."""
        self.free += credit.extra
        credit.extra = 0
        if credit.wanted:
            self._queue.remove(credit)
            credit.wanted = 0

    def serve(self) -> bool:
        """Lend to those whose turn it is; whether anybody got something."""
        served = False
        while self._queue and self._queue[0].wanted <= self.free:
            self.free -= self._queue.popleft().borrow(self.free)
            served = True
        return served
