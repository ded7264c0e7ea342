"""Who waits for what: the tasks of a loop in words, and whether any of them can ever go on.

A client's session keeps timers for ever (heartbeats), and so do daemons. So "nothing will ever happen" is judged by the
tasks: all of them wait for the same futures as a while ago, and no timer is pending but those of clients.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable
from typing import Any

PATIENCE_S = 60.0
"""Longer than a session may stay parked or a client looks for its daemon: both end in an event."""
IDLE_MODULES = ("isotone.client",)
"""Timers of these keep a session alive and wake no task by themselves."""


def described(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """One line for each task that is not done: its name, its coroutine, and where it waits."""
    lines = [f"  {task.get_name()}: {_where(task)}" for task in tasks if not task.done()]
    return "\n".join(lines) or "  (no task is left)"


def _where(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    frames = _frames(coroutine)
    if not frames:
        return name
    places = " > ".join(f"{frame.name} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})" for frame in frames)
    return f"{name} waits in {places}"


def _frames(awaited: Any) -> list[traceback.FrameSummary]:
    """From the coroutine of a task to the innermost one that it awaits."""
    found = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is None:
            break
        found.append(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return found


class Watch:
    """Looks now and then whether tasks still get on."""

    def __init__(self) -> None:
        self._waits: list[tuple[asyncio.Task[Any], object]] = []
        self._since = 0.0

    def stands_still(self, now: float, tasks: Iterable[asyncio.Task[Any]], timers: Iterable[asyncio.Handle]) -> bool:
        """Whether no task went on for `PATIENCE_S`, and nothing is pending that could make one."""
        waits = [(task, getattr(task, "_fut_waiter", None)) for task in tasks if not task.done()]
        same = len(waits) == len(self._waits) and all(
            one[0] is other[0] and one[1] is other[1] for one, other in zip(waits, self._waits)
        )
        if not same or any(not _is_idle(handle) for handle in timers):
            self._waits, self._since = waits, now
            return False
        return now - self._since >= PATIENCE_S


def _is_idle(handle: asyncio.Handle) -> bool:
    callback: Any = getattr(handle, "_callback", None)
    if handle.cancelled() or callback is None:
        return True
    while hasattr(callback, "func"):  # functools.partial
        callback = callback.func
    module = getattr(callback, "__module__", None) or ""
    return module.startswith(IDLE_MODULES)
