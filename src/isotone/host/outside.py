"""Appends without a deadline at a server that stands outside of every primary component [COReL 8.2].

Nobody there can say where a record will stand, or when, so the answer is *maybe*. An ordinary change of view ends in a
primary component again soon: so the answer comes when the server has stood outside for some time without a break, and
from then on to every append as soon as its message has a name; to one whose message gets none, after as long again.
A primary component that is no quorum behind a reconfiguration orders nothing more, and counts as none. A change of the
servers that was accepted, and is not green by then, is answered the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from isotone.host.appends import Appends
from isotone.host.changes import Changes

MICROSECONDS = 1_000_000


class Outside:
    """Watches one server. ``why`` explains an answer of *maybe* to a message."""

    def __init__(
        self,
        appends: Appends,
        changes: Changes,
        *,
        after_us: int,
        orders: Callable[[], bool],
        now: Callable[[], int],
        why: Callable[[str], str],
    ) -> None:
        self._appends, self._changes, self._after_us = appends, changes, after_us
        self._orders, self._now, self._why = orders, now, why
        self._since: int | None = None  # when it was found to stand outside
        self._timer: asyncio.TimerHandle | None = None  # armed while one without a deadline is open there
        self._last = 0  # the request that was the last when it was armed

    def look(self) -> None:
        """Its standing may have changed."""
        if self._orders():
            self.end()
        elif self._since is None:
            self._since = self._now()
            self.begun()

    def begun(self) -> None:
        """Something without a deadline is open."""
        if self._since is not None and self._timer is None and (self._appends.waiting or self._changes.are_waiting):
            self._last = self._appends.last
            self._timer = asyncio.get_running_loop().call_later(self._after_us / MICROSECONDS, self._on_time)

    def named(self, requests: Sequence[int]) -> None:
        """These have a message now."""
        self.look()
        if self._since is not None and self._now() - self._since >= self._after_us:
            self._appends.give_up(requests, self._why)

    def end(self) -> None:
        """It orders, or is no more."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        self.look()
        if self._since is not None:
            self._appends.give_up(self._appends.waiting_since(self._last), self._why)
            self._changes.give_up()
            self.begun()
