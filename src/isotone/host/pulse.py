"""Whether the process at the other end of a stream still answers, also where nobody gave a deadline.

The kernel of a process that is stopped, or hangs, takes what is sent and says nothing of it. So while somebody waits
for something, looks are taken at a steady pace: after one in vain the other side is asked something, and after three
more it is given up. Looks are counted, and not time: who was stopped itself has read what came before it looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LOOK_EVERY_S = 5.0
ASK_AT, GIVE_UP_AT = 2, 5
"""The second look in a row is the first before which nothing came for a whole pace."""


class Pulse:
    """Of one stream, from `begin` to `end`."""

    def __init__(
        self,
        every_s: float,
        *,
        is_awaited: Callable[[], bool],
        ask: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._every_s = every_s
        self._is_awaited, self._ask, self._give_up = is_awaited, ask, give_up
        self._looks = 0  # since something was heard, or is awaited
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Look from now on."""
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._look)

    def end(self) -> None:
        """The stream is lost."""
        if self._timer is not None:
            self._timer.cancel()

    def heard(self) -> None:
        """The other side said something."""
        self._looks = 0

    def _look(self) -> None:
        self._looks = self._looks + 1 if self._is_awaited() else 0
        if self._looks >= GIVE_UP_AT:
            self._give_up()
            return
        if self._looks == ASK_AT:
            self._ask()
        self.begin()
