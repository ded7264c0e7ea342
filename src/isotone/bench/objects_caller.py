"""One program of the suite ``objects``: it calls sets, gets, watches and locks of one system, as it is told.

``python -m isotone.bench.objects_caller isotone|pysyncobj|etcd NAME DIRECTORY CALLERS PLACE…``: of isotone and
PySyncObj the program is a server itself, as they are used; of etcd it has a connection for each caller to one member.
Each line of its input is a `Task`, and answered by a line.
"""

from __future__ import annotations

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from isotone.bench.replica_grpc import GrpcConnection
from isotone.bench.replica_pysyncobj import sync_settings
from isotone.host.replica_objects import replica

VALUE_BYTES = 64
WATCHED = "watched"
WITHIN_S = 60.0
LINE_BYTES_MAX = 256 * 1024 * 1024


class Task(msgspec.Struct, frozen=True):
    """For so long, by so many callers at once: ``set``, ``get``, ``lock``, ``watch`` or ``stamp``."""

    deed: str
    callers: int
    seconds: float


class DeedMeasured(msgspec.Struct, frozen=True):
    """How long each call took, in nanoseconds; of locks when each was held, by the machine's clock; the CPU time."""

    taken_ns: list[int]
    held: list[tuple[int, int]]
    cpu_s: float


class Backend(ABC):
    """One system, as a program uses it."""

    @abstractmethod
    def open(self, callers: int) -> Any:
        """A context in which so many may call."""

    @abstractmethod
    async def set(self, caller: int, key: str, value: bytes) -> None:
        """Until it is acknowledged."""

    @abstractmethod
    async def get(self, caller: int, key: str) -> None:
        """Read a key, behind every write that was answered before."""

    def watch(self, key: str) -> AsyncIterator[bytes]:
        """The values of a key as they come."""
        raise NotImplementedError

    def lock(self, caller: int) -> Any:
        """A context in which one holds it."""
        raise NotImplementedError


class Isotone(Backend):
    """A server in this program."""

    def __init__(self, name: str, directory: Path, places: list[str]) -> None:
        named = dict(zip("abc", places, strict=True))
        address = named.pop(name)
        self._opening = replica("bench", name=name, state=directory / name, address=address, peers=named)

    @asynccontextmanager
    async def open(self, callers: int) -> AsyncIterator[None]:
        async with self._opening as objects:
            self._objects, self._dict = objects, objects.dict("bench", bytes)
            await objects.ready()
            yield

    async def set(self, caller: int, key: str, value: bytes) -> None:
        await self._dict.set(key, value, within_s=WITHIN_S)

    async def get(self, caller: int, key: str) -> None:
        await self._dict.get(key, within_s=WITHIN_S)

    async def watch(self, key: str) -> AsyncIterator[bytes]:
        async for change in self._dict.watch(key):
            yield change.value

    def lock(self, caller: int) -> Any:
        return self._objects.lock("held").hold(within_s=WITHIN_S)


class PySyncObj(Backend):
    """A server in this program. It has no linearizable read of its own: a command that reads is ordered instead."""

    def __init__(self, name: str, directory: Path, places: list[str]) -> None:
        self._own = places["abc".index(name)]
        self._peers = [each for each in places if each != self._own]
        self._directory = directory / name

    @asynccontextmanager
    async def open(self, callers: int) -> AsyncIterator[None]:
        module = import_module("pysyncobj")
        self._loop = asyncio.get_running_loop()

        class Store(module.SyncObj):  # type: ignore[misc, name-defined]
            def __init__(self, own: str, peers: list[str], settings: Any) -> None:
                super().__init__(own, peers, settings)
                self._values: dict[str, bytes] = {}

            @module.replicated  # type: ignore[untyped-decorator]
            def put(self, key: str, value: bytes) -> None:
                self._values[key] = value

            @module.replicated  # type: ignore[untyped-decorator]
            def read(self, key: str) -> bytes | None:
                return self._values.get(key)

        self._store = Store(self._own, self._peers, sync_settings(self._directory))
        while not self._store.isReady():
            await asyncio.sleep(0.05)
        yield
        self._store.destroy()

    async def set(self, caller: int, key: str, value: bytes) -> None:
        await self._ordered(self._store.put, key, value)

    async def get(self, caller: int, key: str) -> None:
        await self._ordered(self._store.read, key)

    async def _ordered(self, command: Callable[..., None], *arguments: Any) -> None:
        answer: asyncio.Future[None] = self._loop.create_future()

        def done(error: object) -> None:
            if not answer.done() and not error:
                answer.set_result(None)
            elif not answer.done():
                answer.set_exception(ConnectionError(f"it failed: {error}"))

        command(*arguments, callback=lambda _, error: self._loop.call_soon_threadsafe(done, error))
        await answer


class Etcd(Backend):
    """A connection for each caller, to one member."""

    def __init__(self, name: str, directory: Path, places: list[str]) -> None:
        self._place = places["abc".index(name)]

    @asynccontextmanager
    async def open(self, callers: int) -> AsyncIterator[None]:
        host, _, port = self._place.rpartition(":")
        self._connections = [await GrpcConnection.open(host, int(port)) for _ in range(callers + 1)]
        yield
        for each in self._connections:
            each.close()

    async def set(self, caller: int, key: str, value: bytes) -> None:
        await self._connections[caller].put(key.encode(), value)

    async def get(self, caller: int, key: str) -> None:
        await self._connections[caller].get(key.encode())

    async def watch(self, key: str) -> AsyncIterator[bytes]:
        async with aclosing(self._connections[-1].watch(key.encode(), VALUE_BYTES)) as values:
            async for value in values:
                yield value

    @asynccontextmanager
    async def lock(self, caller: int) -> AsyncIterator[None]:
        connection = self._connections[caller]
        key = await connection.lock(b"held")
        yield
        await connection.unlock(key)


BACKENDS: dict[str, type[Isotone] | type[PySyncObj] | type[Etcd]] = {
    "isotone": Isotone,
    "pysyncobj": PySyncObj,
    "etcd": Etcd,
}


async def perform(backend: Backend, task: Task) -> DeedMeasured:
    """Run all callers side by side until the time is over."""
    taken: list[int] = []
    held: list[tuple[int, int]] = []
    end = time.monotonic() + task.seconds
    begun = time.process_time()

    async def call(caller: int) -> None:
        value = bytes(VALUE_BYTES)
        while time.monotonic() < end:
            asked = time.monotonic_ns()
            match task.deed:
                case "set":
                    await backend.set(caller, f"key{caller}", value)
                case "get":
                    await backend.get(caller, f"key{caller}")
                case "stamp":
                    await backend.set(caller, WATCHED, b"%064d" % asked)
                case _:
                    async with backend.lock(caller):
                        began = time.monotonic_ns()
                        held.append((began, time.monotonic_ns()))
            taken.append(time.monotonic_ns() - asked)

    async def look() -> None:
        async with aclosing(backend.watch(WATCHED)) as values:  # type: ignore[type-var]
            async for value in values:
                taken.append(time.monotonic_ns() - int(value))

    if task.deed == "watch":
        looking = asyncio.create_task(look())
        await asyncio.wait([looking], timeout=task.seconds)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    else:
        await asyncio.gather(*(call(number) for number in range(task.callers)))
    return DeedMeasured(taken, held, time.process_time() - begun)


async def main(kind: str, name: str, directory: Path, callers: int, places: list[str]) -> None:
    """Perform what each line of the input says."""
    backend = BACKENDS[kind](name, directory, places)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(backend.open(callers))
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            answer = await perform(backend, msgspec.json.decode(line, type=Task))
            print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]))
