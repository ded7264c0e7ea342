"""What is appended may be much more than what is held: snapshots by bytes and by time, and servers that join."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import isotone
from isotone.core.ordered_log import Refused
from isotone.host.replica_objects import LocalReplica
from isotone.replicated import pulse
from isotone.replicated.records import DigestWanted, encode
from tests.ports import free_ports

DEADLINE_S = 240.0
WITHIN_S = 120.0
SNAPSHOT_BYTES = 64 * 1024
VALUE_BYTES = 16 * 1024
WRITTEN_BYTES = 12 * SNAPSHOT_BYTES
HELD_MAX = 2 * SNAPSHOT_BYTES


def server(directory: Path, name: str, places: dict[str, str], **options: Any) -> Any:
    peers = {each: place for each, place in places.items() if each != name}
    return isotone.replica("shop", name=name, state=directory / name, address=places[name], peers=peers, **options)


def held_bytes(shop: LocalReplica) -> int:
    """Of records that are in memory: those that can be read, and those of the replica itself."""
    entries, queue = shop.replica_log.entries, shop.replica_log.replica.ledger.queue
    readable = sum(len(each.record) for each in entries.read(entries.first, entries.end))
    return max(readable, sum(len(record) for message in queue.held for record in message.records))


async def until_little_is_held(*servers: LocalReplica) -> None:
    for each in servers:
        await each.replica_log.until(lambda shop=each: held_bytes(shop) <= HELD_MAX)


async def count_in(shop: LocalReplica, name: str) -> None:
    """As soon as the others know that it has caught up, and order again since it came."""
    while True:
        with suppress(Refused):
            return await shop.replica_log.reconfigure(add=name, within_s=WITHIN_S)
        await shop.applied_beyond(shop.machine.state.position)  # its session is renewed now and then


def test_a_log_is_larger_than_what_is_held_and_a_server_joins_while_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "SNAPSHOT_BYTES", SNAPSHOT_BYTES)
    places = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
    first = {name: places[name] for name in "ab"}

    async def write(shop: LocalReplica, count: int, mark: str) -> None:
        """Many values under few keys, never more than a snapshot's bytes ahead of what was forgotten."""
        for number in range(count):
            await shop.dict("stock", bytes).set(f"{mark}{number % 3}", bytes(VALUE_BYTES), within_s=WITHIN_S)

    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S), server(tmp_path, "a", first) as a, server(tmp_path, "b", first) as b:
            for _ in range(WRITTEN_BYTES // SNAPSHOT_BYTES):
                await write(a, SNAPSHOT_BYTES // VALUE_BYTES, "k")
                await until_little_is_held(a, b)
            assert a.replica_log.entries.first > WRITTEN_BYTES // VALUE_BYTES // 2
            async with server(tmp_path, "c", places, joins=True) as c:
                writing = asyncio.create_task(write(b, 8, "while c joins"))
                await c.applied_beyond(a.machine.state.position - 1)
                await count_in(a, "c")
                await writing
                position = await c.append(encode(DigestWanted()), WITHIN_S)
                told = [(await each.digests_at(position))["digests"] for each in (a, b, c)]
                assert told[0] and told[0] == told[1] == told[2]

    asyncio.run(main())


def test_a_snapshot_is_taken_when_its_time_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "SNAPSHOT_EVERY_US", 1)
    (port,) = free_ports(1)

    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S), server(tmp_path, "a", {"a": f"127.0.0.1:{port}"}) as shop:
            await shop.dict("stock").set("apples", 3, within_s=WITHIN_S)
            ledger = shop.replica_log.replica.ledger
            await shop.replica_log.until(lambda: ledger.snapshot is not None)

    asyncio.run(main())
