"""The log in memory keeps the promise of `OrderedLog`."""

from __future__ import annotations

import asyncio

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.core.memory_log import FOLLOW_BATCH_MAX, MemoryLog
from isotone.core.ordered_log import LogEntry, OrderedLog, Snapshot


async def filled(count: int, **options: int) -> MemoryLog:
    log = MemoryLog(**options)
    for number in range(1, count + 1):
        assert await log.append(b"%d" % number) == number
    return log


def test_it_is_an_ordered_log() -> None:
    log: OrderedLog = MemoryLog()
    assert asyncio.run(log.end()) == 0
    assert asyncio.run(log.snapshot()) is None


def test_positions_are_dense_from_one_and_what_is_read_is_what_was_appended() -> None:
    async def scenario() -> None:
        log = await filled(5)
        assert await log.end() == 5
        assert await log.read(2, 3) == [LogEntry(2, b"2"), LogEntry(3, b"3")]
        assert await log.read(4, 99) == [LogEntry(4, b"4"), LogEntry(5, b"5")]
        assert await log.read(6, 99) == []
        assert await log.read(3, 2) == []
        assert await log.read(5, 1) == []

    asyncio.run(scenario())


def test_a_record_is_copied() -> None:
    async def scenario() -> None:
        log, record = MemoryLog(), bytearray(b"then")
        await log.append(record)
        record[:] = b"now!"
        assert await log.read(1, 1) == [LogEntry(1, b"then")]

    asyncio.run(scenario())


@pytest.mark.parametrize("first", [0, -3])
def test_nothing_stands_before_position_one(first: int) -> None:
    async def scenario() -> None:
        log = await filled(2)
        with pytest.raises(LocalProtocolError):
            await log.read(first, 2)

    asyncio.run(scenario())


def test_followers_see_every_entry_once_and_in_order_also_those_that_come_later() -> None:
    count = 2 * FOLLOW_BATCH_MAX + 7

    async def scenario() -> None:
        log = await filled(3)

        async def take(first: int) -> list[int]:
            seen = []
            async for entry in log.follow(first):
                seen.append(entry.position)
                if entry.position == count:
                    return seen
            raise AssertionError("a follower has no end")

        followers = [asyncio.ensure_future(take(first)) for first in (1, 3, 4, 9)]
        for number in range(4, count + 1):
            await log.append(b"%d" % number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        for first, seen in zip((1, 3, 4, 9), await asyncio.gather(*followers), strict=True):
            assert seen == list(range(first, count + 1))

    asyncio.run(scenario())


def test_a_snapshot_lets_the_log_forget_and_positions_go_on() -> None:
    async def scenario() -> None:
        log = await filled(10, kept_behind=2)
        await log.offer_snapshot(Snapshot(7, b"state"))
        assert await log.snapshot() == Snapshot(7, b"state")
        assert [entry.position for entry in await log.read(6, 10)] == [6, 7, 8, 9, 10]
        with pytest.raises(LocalProtocolError, match="oldest is 6"):
            await log.read(5, 10)
        await log.offer_snapshot(Snapshot(10, b"later"))
        assert await log.append(b"eleven") == 11
        assert await log.read(11, 11) == [LogEntry(11, b"eleven")]

    asyncio.run(scenario())


def test_everything_may_be_forgotten() -> None:
    async def scenario() -> None:
        log = await filled(4)
        await log.offer_snapshot(Snapshot(4, b"all"))
        assert await log.end() == 4
        assert await log.read(5, 9) == []
        assert await log.append(b"five") == 5

    asyncio.run(scenario())


def test_an_older_snapshot_changes_nothing_and_one_of_the_future_is_refused() -> None:
    async def scenario() -> None:
        log = await filled(5)
        await log.offer_snapshot(Snapshot(4, b"new"))
        await log.offer_snapshot(Snapshot(2, b"old"))
        await log.offer_snapshot(Snapshot(4, b"the same place again"))
        assert await log.snapshot() == Snapshot(4, b"new")
        with pytest.raises(LocalProtocolError):
            await log.offer_snapshot(Snapshot(6, b"future"))

    asyncio.run(scenario())


def test_a_follower_that_fell_behind_a_cut_hears_of_it() -> None:
    async def scenario() -> None:
        log = await filled(5)
        await log.offer_snapshot(Snapshot(5, b"state"))
        with pytest.raises(LocalProtocolError):
            await anext(aiter(log.follow(3)))

    asyncio.run(scenario())


def test_a_full_log_refuses_until_it_may_forget() -> None:
    async def scenario() -> None:
        log = await filled(3, entries_max=3)
        with pytest.raises(LocalProtocolError, match="full"):
            await log.append(b"four")
        await log.offer_snapshot(Snapshot(2, b"state"))
        assert await log.append(b"four") == 4

    asyncio.run(scenario())
