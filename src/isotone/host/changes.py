"""Changes of the servers under way: asked for, accepted or refused, and green."""

from __future__ import annotations

import asyncio

from isotone.corel.events import ConfigurationChanged, ReconfigurationAnswered
from isotone.host.answers import Maybe, Refused


class Changes:
    """What this process asked for."""

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, tuple[str, str, asyncio.Future[None]]] = {}

    def begin(self, *, add: str, remove: str) -> tuple[int, asyncio.Future[None]]:
        """A number, and what is settled when it is green."""
        self._last += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[self._last] = (add, remove, done)
        return self._last, done

    def on_answered(self, action: ReconfigurationAnswered) -> None:
        """It is being ordered, or it is not."""
        if not action.accepted:
            _, _, done = self._open.pop(action.request)
            if not done.done():
                done.set_exception(Refused(action.reason))

    def on_changed(self, action: ConfigurationChanged) -> None:
        """These servers vote now."""
        for request, (add, remove, done) in list(self._open.items()):
            if (not add or add in action.servers) and remove not in action.servers:
                del self._open[request]
                if not done.done():
                    done.set_result(None)

    def end(self, reason: str) -> None:
        """Nobody here will hear of the rest."""
        for _, _, done in self._open.values():
            if not done.done():
                done.set_exception(Maybe(reason))
        self._open.clear()
