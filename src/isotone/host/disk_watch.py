"""Whether the disk answers: one that neither fails nor answers must not hold up everybody else.

A server that writes and hears nothing acknowledges nothing, and what is green needs the word of every member. So a host
whose oldest write has waited too long ends its sessions, ahead of all that stands behind that write; the group goes on
without it. A large write is no hanging one: it goes to disk in stretches, and every stretch is an answer. Nothing is
tried again: when the write comes back, what stood behind it is done, and the automaton connects again as after any loss
of its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

LOOKS = 4
"""So often it looks in the time that a write may take."""


class Waiting(Protocol):
    """A disk."""

    def waited_s(self) -> float:
        """How long the oldest write has waited without any answer of it; 0 if none does."""


class DiskWatch:
    """Looks now and then, from `begin` to `end`; with ``within_s`` 0 never."""

    def __init__(
        self, disk: Waiting, within_s: float, *, hangs: Callable[[str], object], answers: Callable[[], object]
    ) -> None:
        self.hanging = ""  # for people: how long it has not answered, while it does not
        self._disk, self._within_s = disk, within_s
        self._hangs, self._answers = hangs, answers
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look from now on."""
        if self._within_s:
            self._timer = loop.call_later(self._within_s / LOOKS, self._look_again, loop)

    def end(self) -> None:
        """Never look again."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begin(loop)
        self.look()

    def look(self) -> None:
        """Tell it when it begins to hang, and when it answers again."""
        waited_s, was = self._disk.waited_s(), self.hanging
        if waited_s < self._within_s:
            self.hanging = ""
            if was:
                self._answers()
            return
        hanging = f"the disk has not answered for {waited_s:.1f} s"
        if not was:
            self._hangs(hanging)
        self.hanging = hanging  # not before it was told: else nobody would be told again
