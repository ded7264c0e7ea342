"""One process of data centres, for tests: writes to a dict, a counter and a database, and says what was acknowledged.

    python -m tests.integration.centre_process CENTRES.toml NAME STATE TRACES

On its input: ``load`` begins to write, ``rest`` ends that, ``dump N`` prints the state when N records are there,
``close`` ends the objects and waits until nothing of this process is under way, ``reach N`` waits for so many records,
``stop`` ends. On its output lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import isotone
from isotone.core.errors import IsotoneError
from isotone.daemon.node_settings import TraceSettings
from isotone.host.hab_objects import CentreReplica, centre_replica
from isotone.host.hab_settings import read_centres
from isotone.trace.writer import Level

PAUSE_S = 0.02
ORDERS = "orders"

orders = isotone.Procedures(ORDERS)


@orders.procedure
def place(db: Any, name: str) -> int:
    """One more row, which must be new; its number."""
    db.execute("CREATE TABLE IF NOT EXISTS placed (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL)")
    found = db.execute("INSERT INTO placed SELECT coalesce(max(number), 0) + 1, ? FROM placed RETURNING number", name)
    return int(found[0][0])


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


class Writer:
    """Sets keys that nobody else sets, counts each in a counter that all share, and places each in a database."""

    def __init__(self, objects: CentreReplica, name: str, state: Path) -> None:
        self._objects, self._name, self._starts = objects, name, state / "starts"
        starts = int(self._starts.read_text()) + 1 if self._starts.exists() else 1
        self._starts.write_text(str(starts))
        self._prefix = f"{name}.{starts}"
        self._task: asyncio.Task[None] | None = None
        self.is_on = False

    def begin(self) -> None:
        self.is_on = True
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def rest(self) -> None:
        self.is_on = False
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        stock, total, database = (
            self._objects.dict("stock"),
            self._objects.counter("total"),
            self._objects.database(ORDERS),
        )
        number = 0
        while self.is_on:
            number += 1
            key = f"{self._prefix}.{number}"
            try:
                await stock.set(key, number)
                say(acked=key)
                await total.add(1)
                say(counted=key)
                say(placed=key, number=await database.call("place", key))
            except IsotoneError as error:
                say(doubtful=key, why=str(error))
            await asyncio.sleep(PAUSE_S)


async def dump(objects: CentreReplica, count: int) -> None:
    """The state and the order, once so many records are there."""
    log = objects.centre_log
    await log.wait_for(count)
    await objects.applied_beyond(count - 1)
    items = await objects.dict("stock").items(stale_ok=True)
    total = await objects.counter("total").get(stale_ok=True)
    rows = await objects.database(ORDERS).read("SELECT number, name FROM placed ORDER BY number", stale_ok=True)
    first = log.entries.first
    order = [blake2b(entry.record, digest_size=8).hexdigest() for entry in await log.read(first, count)]
    say(items=dict(items), total=total, rows=rows, first=first, order=order)


async def close(objects: CentreReplica) -> None:
    """Nothing of this process comes after that."""
    log = objects.centre_log
    await objects.close()
    await log.until(lambda: not log.hab.submissions.pending)
    say(closed=await log.end())


async def main(file: Path, name: str, state: Path, traces: Path) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for line in sys.stdin:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lines.put_nowait, line.strip())

    log = read_centres(file).log
    trace = TraceSettings(level=Level.FULL, directory=traces)
    opened = centre_replica(log, name=name, state=state, centres=file, databases=[orders], trace=trace)
    async with opened as objects:
        writer = Writer(objects, name, state)
        threading.Thread(target=listen, daemon=True).start()
        say(started=name)
        while (line := await lines.get()) != "stop":
            word, _, count = line.partition(" ")
            match word:
                case "load":
                    writer.begin()
                case "rest":
                    await writer.rest()
                    say(rested=await objects.centre_log.end())
                case "dump":
                    await dump(objects, int(count))
                case "close":
                    await close(objects)
                case "reach":
                    await objects.centre_log.wait_for(int(count))
                    say(reached=int(count))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
