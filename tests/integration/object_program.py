"""A program on replicated objects that works without end: a dict, a counter, a set, a lock and a database, at once.

``python -m tests.integration.object_program NAME DIRECTORY FIRST_PORT ROUND SEED`` is one of the servers a, b, c; the
name ``client`` is a program that is none. It prints a line for every 10 operations of a task, and ends when it is told
``stop``. What it was acknowledged is in files that are written before the next operation begins: ``notes/*.inserted``,
and ``notes/*.held`` with fence, beginning and end of each time it held the lock. All else is in its history.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

import isotone
from isotone.core.errors import IsotoneError, MachineError

SERVERS = "abc"
TASKS = 3
TOLD_EVERY = 10
WITHIN_S = 5.0
LEASE_S = 3.0
KEYS = 3
KEY_S = 0.5
"""For so long all programs use the same keys: so many operations one key has, and no more."""

table = isotone.Procedures("table")


@table.procedure
def insert(db: Any, row: str) -> None:
    """One row; it must be new."""
    db.execute("CREATE TABLE IF NOT EXISTS inserted (row TEXT PRIMARY KEY) WITHOUT ROWID")
    db.execute("INSERT INTO inserted VALUES (?)", row)


def opened(
    name: str, directory: Path, first_port: int, history: Path | None = None
) -> AbstractAsyncContextManager[Any]:
    """The objects of this program."""
    places = {each: f"127.0.0.1:{first_port + 2 * number}" for number, each in enumerate(SERVERS)}
    clients = {each: f"127.0.0.1:{first_port + 2 * number + 1}" for number, each in enumerate(SERVERS)}
    if name not in SERVERS:
        return isotone.connect_replica(
            list(clients.values()), name=name, databases=[table], lease_s=LEASE_S, history=history
        )
    return isotone.replica(
        "kills",
        name=name,
        state=directory / name,
        address=places[name],
        clients=clients[name],
        peers={each: place for each, place in places.items() if each != name},
        databases=[table],
        lease_s=LEASE_S,
        history=history,
    )


class Worker:
    """One of the tasks of a program."""

    def __init__(self, objects: Any, mark: str, round: int, seed: int, notes: Callable[[str], TextIO]) -> None:
        self._objects, self._mark, self._round, self._notes = objects, mark, round, notes
        self._random = random.Random(f"{mark}/{seed}")
        self._count = 0

    async def work(self, is_over: asyncio.Event) -> None:
        """One operation after another; what fails is in the history, or nothing was promised."""
        deeds = (self._register, self._register, self._register, self._many, self._insert, self._hold)
        while not is_over.is_set():
            self._count += 1
            with suppress(IsotoneError):
                await self._random.choice(deeds)()
            if self._objects.failure is not None:  # a server that ended ends the program, which reads a terminal
                print(self._objects.failure, file=sys.stderr, flush=True)
                os._exit(1)
            if self._count % TOLD_EVERY == 0:
                print(self._count, flush=True)

    async def _register(self) -> None:
        stock, key = self._objects.dict(f"stock{self._round}", str), self._key()
        value = f"{self._mark}.{self._count}"
        match self._random.randrange(6):
            case 0 | 1:
                await stock.set(key, value, within_s=WITHIN_S)
            case 2:
                await stock.compare_and_set(key, await stock.get(key, stale_ok=True), value, within_s=WITHIN_S)
            case 3:
                known = await stock.get(key, stale_ok=True)
                await stock.transact(when={key: known}, then={key: value, self._key(): value}, within_s=WITHIN_S)
            case 4:
                await stock.delete(key, within_s=WITHIN_S)
            case _:
                await stock.get(key, within_s=WITHIN_S)

    async def _many(self) -> None:
        people, hits = self._objects.set(f"people{self._round}", str), self._objects.counter(self._key())
        match self._random.randrange(4):
            case 0:
                await people.add(f"{self._mark}.{self._count}", within_s=WITHIN_S)
            case 1:
                await people.contains(f"{self._mark}.{self._random.randrange(self._count)}", within_s=WITHIN_S)
            case 2:
                await hits.add(1, within_s=WITHIN_S)
            case _:
                await hits.get(within_s=WITHIN_S)

    async def _insert(self) -> None:
        row = f"{self._mark}.{self._count}"
        await self._objects.database("table").call("insert", row, within_s=WITHIN_S)
        print(row, file=self._notes("inserted"), flush=True)

    async def _hold(self) -> None:
        held = await self._objects.lock("door").acquire(within_s=1.0)
        if held.is_held:
            begin = time.monotonic_ns()
            await asyncio.sleep(0.002)
            end = time.monotonic_ns() if held.is_held else 0  # 0: it is not known when it was lost
            print(held.fence, begin, end, file=self._notes("held"), flush=True)
        await held.release(within_s=WITHIN_S)

    def _key(self) -> str:
        return f"{self._round}/{int(time.monotonic() / KEY_S)}/{self._random.randrange(KEYS)}"


async def main(name: str, directory: Path, first_port: int, round: int, seed: int) -> None:
    """Work until it is told to stop."""
    notes = directory / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    begun = f"{name}-{os.getpid()}-{uuid4().hex[:8]}"
    files = {kind: (notes / f"{begun}.{kind}").open("w", encoding="ascii") for kind in ("inserted", "held")}
    async with AsyncExitStack() as stack:
        while True:
            try:
                opening = opened(name, directory, first_port, directory / f"history{round}")
                objects = await stack.enter_async_context(opening)
                break
            except MachineError:
                if name in SERVERS:
                    raise  # a client finds no server just after all were killed
        over = asyncio.Event()
        workers = [Worker(objects, f"{begun}/{number}", round, seed, files.__getitem__) for number in range(TASKS)]
        tasks = [asyncio.create_task(each.work(over)) for each in workers]
        print("up", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        over.set()
        await asyncio.gather(*tasks)
        print("stopped", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6])))
