"""Appended records per second, each a `Persist` of its own: ``python tests/host/measure_store.py [DIRECTORY]``."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from isotone.core.contract import Append
from isotone.host.disk import Disk
from isotone.host.store import Store

RECORD_BYTES = 256
SECONDS = 3.0


async def measure(in_flight: int, where: str | None) -> str:
    """So many always wait for the disk."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    done, left = 0, in_flight
    write = [Append("log", b"x" * RECORD_BYTES)]
    with tempfile.TemporaryDirectory(dir=where) as directory:
        store = Store(Path(directory))
        store.open("measured")
        disk = Disk(store, loop.call_soon_threadsafe)
        syncs = disk.syncs

        def answer(reason: str) -> None:
            nonlocal done, left
            assert not reason, reason
            done += 1
            if time.perf_counter() < ends:
                disk.submit(write, answer)
            else:
                left -= 1
                if not left:
                    over.set_result(None)

        began, cpu = time.perf_counter(), time.process_time()
        ends = began + SECONDS
        for _ in range(in_flight):
            disk.submit(write, answer)
        await over
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        text = f"{in_flight:4} in flight: {done / seconds:8.0f} records/s, {1e6 * cpu / done:6.1f} µs of CPU each"
        text += f", {disk.commits} commits, {disk.syncs - syncs} syncs, {1000 * seconds / disk.commits:.1f} ms each"
        disk.close()
        store.close()
    return text


if __name__ == "__main__":
    for number in (1, 16, 256):
        print(asyncio.run(measure(number, sys.argv[1] if len(sys.argv) > 1 else None)))
