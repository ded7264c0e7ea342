"""Work that may hang, such as asking a disk: in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def in_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], Result]) -> asyncio.Future[Result]:
    """Have it done in a thread that nobody needs to wait for, not even the end of the process."""
    done: asyncio.Future[Result] = loop.create_future()

    def work() -> None:
        try:
            tell = partial(done.set_result, call())
        except Exception as error:
            tell = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if done.done() else tell())

    Thread(target=work, name="isotone-aside", daemon=True).start()
    return done
