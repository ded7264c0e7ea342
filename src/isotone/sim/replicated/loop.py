"""An asyncio loop inside of one simulated process: it runs when its node handles an event, and wakes by a timer.

So the very objects and the shell of `isotone.replicated` run in the simulator, not a second version of them.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, cast

US = 1_000_000
TURNS_MAX = 100_000


class NodeLoop:
    """Callbacks, timers, futures and tasks: all that objects use. ``rate``: how fast the program's clock runs."""

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate
        self.at = 0  # the process' clock
        self.failure: BaseException | None = None
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0

    # --- for the node ------------------------------------------------------------------------------------------------

    def run_at(self, at: int) -> None:
        """Run all that is ready at this time of the process' clock."""
        self.at = at
        known = events._get_running_loop()
        events._set_running_loop(cast(Any, self))
        try:
            for _ in range(TURNS_MAX):
                while self._timers and self._timers[0][0] <= self.time():
                    self._ready.append(heappop(self._timers)[2])
                if not self._ready:
                    break
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
            else:
                raise AssertionError("a program polls without waiting")
        finally:
            events._set_running_loop(known)
        if self.failure is not None:
            raise self.failure

    def wake_after_us(self) -> int | None:
        """When it wants to run next, by the process' clock."""
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        if not self._timers:
            return None
        return max(1, round((self._timers[0][0] - self.time()) * US / self.rate))

    # --- for asyncio -------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.at * self.rate / US

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, cast(Any, self), context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, cast(Any, self), context)
        self._count += 1
        heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(Any, self))

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=cast(Any, self), name=name or "task", context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its process may crash
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody looked at is our bug."""
        error = context.get("exception")
        if error is not None and self.failure is None:
            self.failure = error
