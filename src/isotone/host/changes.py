"""Changes of the servers and their rule under way: asked for, accepted or refused, and green."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from isotone.corel.events import ConfigurationChanged, ReconfigurationAnswered
from isotone.host.answers import Maybe, Refused


@dataclass
class _Change:
    add: str
    remove: str
    done: asyncio.Future[None]
    is_patient: bool  # without a deadline
    accepted: bool = False  # it is being ordered
    encoded_rule: bytes = b""  # with this rule


class Changes:
    """What this process asked for. ``why`` tells why one is not green."""

    def __init__(self, why: Callable[[], str]) -> None:
        self.why = why
        self._last = 0
        self._open: dict[int, _Change] = {}

    @property
    def are_waiting(self) -> bool:
        """Whether one is being ordered for somebody who set no deadline."""
        return bool(self._waiting())

    def _waiting(self) -> list[_Change]:
        return [each for each in self._open.values() if each.accepted and each.is_patient and not each.done.done()]

    def begin(self, *, add: str, remove: str, is_patient: bool) -> tuple[int, asyncio.Future[None]]:
        """A number, and what is settled when it is green."""
        self._last += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[self._last] = _Change(add, remove, done, is_patient)
        return self._last, done

    def drop(self, request: int) -> None:
        """Nobody waits for it any more."""
        self._open.pop(request, None)

    def on_answered(self, action: ReconfigurationAnswered) -> None:
        """It is being ordered, or it is not."""
        change = self._open.get(action.request)
        if change is None or change.done.done():
            return
        change.accepted, change.encoded_rule = action.accepted, action.encoded_rule
        if not action.accepted:
            change.done.set_exception(Refused(action.reason))

    def on_changed(self, action: ConfigurationChanged) -> None:
        """They vote now, by this rule. Of changes that were accepted at once the first takes effect, and no other."""
        for change in self._open.values():
            if not change.accepted or change.done.done():
                continue
            is_there = (not change.add or change.add in action.servers) and change.remove not in action.servers
            if is_there and change.encoded_rule == action.encoded_rule:
                change.done.set_result(None)
            else:
                change.done.set_exception(Refused("another change came first; ask again"))

    def give_up(self) -> None:
        """Answer who waits without a deadline."""
        for change in self._waiting():
            change.done.set_exception(Maybe(self.why()))

    def end(self, reason: str) -> None:
        """Nobody here will hear of the rest."""
        for change in self._open.values():
            if not change.done.done():
                change.done.set_exception(Maybe(reason))
        self._open.clear()
