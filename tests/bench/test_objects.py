"""The suite of replicated objects: what a program measures, what is made of it, and the gRPC that it speaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from isotone.bench.objects import Turn, _figures
from isotone.bench.objects_caller import VALUE_BYTES, Backend, Task, perform
from isotone.bench.objects_effort import ObjectsEffort
from isotone.bench.replica_grpc import DATA, END_STREAM, HEAD, HEADERS, PREFACE, GrpcConnection, _frame


class Instant(Backend):
    """Answers at once, in this program."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.seen: set[tuple[str, int]] = set()

    @asynccontextmanager
    async def open(self, callers: int) -> AsyncIterator[None]:
        yield

    async def set(self, caller: int, key: str, value: bytes) -> None:
        assert len(value) == VALUE_BYTES
        self.seen.add(("set", caller))
        await asyncio.sleep(0)

    async def get(self, caller: int, key: str) -> None:
        self.seen.add(("get", caller))
        await asyncio.sleep(0)

    async def watch(self, key: str) -> AsyncIterator[bytes]:
        yield b"%064d" % (time.monotonic_ns() - 5_000_000)
        await asyncio.Event().wait()

    @asynccontextmanager
    async def lock(self, caller: int) -> AsyncIterator[None]:
        async with self._lock:
            await asyncio.sleep(0)
            yield


def test_callers_call_at_once_and_a_lock_is_held_by_one() -> None:
    async def main() -> None:
        backend = Instant()
        for deed in ("set", "get", "stamp"):
            answer = await perform(backend, Task(deed, 3, 0.01))
            assert len(answer.taken_ns) >= 3 and answer.cpu_s >= 0
        assert backend.seen == {(deed, caller) for deed in ("set", "get") for caller in range(3)}
        held = sorted((await perform(backend, Task("lock", 3, 0.01))).held)
        assert len(held) >= 3 and all(first[1] <= second[0] for first, second in pairwise(held))
        (taken,) = (await perform(backend, Task("watch", 1, 0.05))).taken_ns
        assert taken >= 5_000_000

    asyncio.run(main())


def test_a_turn_of_ours_measures_everything(tmp_path: Path) -> None:
    turn = Turn("isotone", tmp_path, ObjectsEffort(callers=(3,), seconds=0.2, rounds=1))
    asyncio.run(turn.run())
    assert all(value > 0 for value in turn.found.values())
    assert {label.partition(",")[0].partition(":")[0] for label, _ in turn.found} == {"set", "get", "lock", "watch"}
    figures = _figures({("isotone", label, unit): [value] for (label, unit), value in turn.found.items()})
    assert all("synced by every server" in figure.over for figure in figures)


@pytest.mark.parametrize("size", [VALUE_BYTES, 3])
def test_a_watch_of_etcd_yields_values_and_a_lock_its_key(size: int) -> None:
    value = b"v" * size
    heard: list[tuple[int, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))
        while True:
            high, low, kind, flags, stream = HEAD.unpack(await reader.readexactly(HEAD.size))
            body = await reader.readexactly(high << 16 | low)
            if kind == DATA:
                heard.append((flags, body[5:]))
                is_watch = not flags & END_STREAM
                message = b"\x12\x04key1\x2a" + bytes([size]) + value if is_watch else b"\x0a\x00\x12\x06held/7"
                writer.write(_frame(DATA, 0, stream, b"\x00" + len(message).to_bytes(4, "big") + message))
                writer.write(_frame(HEADERS, 4 | END_STREAM, stream, b"\x88"))

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            connection = await GrpcConnection.open("127.0.0.1", server.sockets[0].getsockname()[1])
            assert await connection.lock(b"held") == b"held/7"
            async with aclosing(connection.watch(b"key1", size)) as values:
                assert await anext(values) == value
                with pytest.raises(ConnectionError, match="broken off"):
                    await anext(values)
            connection.close()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert heard[0] == (END_STREAM, b"\x0a\x04held") and heard[1] == (0, b"\x0a\x06\x0a\x04key1")
