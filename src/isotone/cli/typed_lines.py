"""Lines of standard input as they are typed, for a loop that has other things to do, and may end before they do."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from threading import Thread

READ_BYTES = 64 * 1024
WAITING_MAX = 1_000


async def typed_lines() -> AsyncIterator[str]:
    """Until the end of standard input. A thread reads, which holds up neither the loop nor the end of the process."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue(WAITING_MAX)

    def read() -> None:
        with suppress(RuntimeError, asyncio.CancelledError):  # the loop has ended
            for line in _lines():
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
            asyncio.run_coroutine_threadsafe(lines.put(None), loop).result()

    Thread(target=read, name="isotone-typed", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line


def _lines() -> Iterator[str]:
    """Read past Python's own buffer: a thread that waits in it could not be left behind at the end."""
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, io.UnsupportedOperation):
        yield from (line.rstrip("\n") for line in sys.stdin or ())
        return
    rest = b""
    with suppress(OSError):
        while data := os.read(descriptor, READ_BYTES):
            *whole, rest = (rest + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")
