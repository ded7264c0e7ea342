"""The state of everything that is held: lock, read-write lock, semaphore and leadership are one rule.

Whoever waits is served in the order of the log; nobody overtakes, so a writer is not starved by readers. Each grant has
a *fence*: a number above all that were given before, in the whole log.
"""

from __future__ import annotations

from typing import Any

import msgspec

from isotone.replicated.outcome import WAITING, CommandRefused, Context

WAITING_MAX = 65_536
PERMITS_MAX = 65_536


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """Who holds it: the session, the request that asked for it, alone or shared, and what it says of itself."""

    session: int
    request: int
    fence: int
    exclusive: bool
    note: bytes = b""


class Waiter(msgspec.Struct, frozen=True, array_like=True):
    """Who waits for it."""

    session: int
    request: int
    exclusive: bool
    note: bytes = b""


class LockState(msgspec.Struct, tag="lock"):
    """Of one lock. ``permits``: how many may share it."""

    permits: int = 0  # 0 until it is first asked for
    holders: list[Holder] = []
    waiters: list[Waiter] = []

    @property
    def is_free(self) -> bool:
        """Nobody holds it, and nobody waits."""
        return not (self.holders or self.waiters)

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Acquire, release, or stop to wait."""
        match method, arguments:
            case "acquire", (bool(exclusive), int(permits), bool(waits), bytes(note)) if 1 <= permits <= PERMITS_MAX:
                return self._acquire(context, exclusive, permits, waits, note)
            case "release", (int(fence),):
                return self._drop(context, lambda each: each.fence == fence and each.session == context.session)
            case "abandon", (int(request),):
                waiting = len(self.waiters)
                mine = (context.session, request)
                self.waiters = [each for each in self.waiters if (each.session, each.request) != mine]
                if len(self.waiters) < waiting:
                    self._serve(context)  # it may have stood before others that are compatible
                    return True
                return self._drop(context, lambda each: (each.session, each.request) == mine)
        raise CommandRefused(f"a lock has no command {method} with these arguments")

    def _acquire(self, context: Context, exclusive: bool, permits: int, waits: bool, note: bytes) -> Any:
        if not (self.holders or self.waiters):
            self.permits = permits
        elif self.permits != permits:
            raise CommandRefused(f"it has {self.permits} permits while it is in use, not {permits}")
        waiter = Waiter(context.session, context.request, exclusive, note)
        if not self.waiters and self._is_free_for(waiter):
            return self._grant(context, waiter).fence
        if not waits:
            return None
        if len(self.waiters) >= WAITING_MAX:
            raise CommandRefused(f"too many wait for it: {WAITING_MAX}")
        self.waiters.append(waiter)
        return WAITING

    def _is_free_for(self, waiter: Waiter) -> bool:
        if waiter.exclusive:
            return not self.holders
        return len(self.holders) < self.permits and not any(each.exclusive for each in self.holders)

    def _grant(self, context: Context, waiter: Waiter) -> Holder:
        fence = context.take_fence()
        holder = Holder(waiter.session, waiter.request, fence, waiter.exclusive, waiter.note)
        self.holders.append(holder)
        return holder

    def _serve(self, context: Context) -> None:
        while self.waiters and self._is_free_for(self.waiters[0]):
            waiter = self.waiters.pop(0)
            context.answer(waiter.session, waiter.request, self._grant(context, waiter).fence)

    def _drop(self, context: Context, goes: Any) -> bool:
        held = len(self.holders)
        self.holders = [each for each in self.holders if not goes(each)]
        dropped = len(self.holders) < held
        self._serve(context)
        return dropped

    def release(self, context: Context, session: int) -> None:
        """A session that is over holds nothing and waits for nothing."""
        self.waiters = [each for each in self.waiters if each.session != session]
        self._drop(context, lambda each: each.session == session)
