"""Replicated objects in a simulated cluster: users test their own replicated programs under partitions and crashes."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

import isotone
import isotone.testing
from isotone.core.errors import IsotoneError, LocalProtocolError
from isotone.core.ordered_log import Maybe
from isotone.replicated.database.transaction import Transaction
from isotone.replicated.errors import ChangesForgotten, ReadNotSettled, Rejected


class Dice(msgspec.Struct):
    """A class with a command that is not deterministic."""

    last: int = 0

    @isotone.command
    def roll(self) -> int:
        self.last = random.randrange(10**9)
        return self.last

    @isotone.command
    def put(self, now: float, random: int) -> int:
        self.last = random
        return self.last


@isotone.testing.seeds(4)
async def test_a_majority_goes_on_and_the_minority_catches_up() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with cluster as c, c.replica("d1") as one, c.replica("d3") as three:
        await one.dict("stock").set("apples", 3, within_s=30)
        assert await three.dict("stock").get("apples", within_s=30) == 3
        c.partition(["d1", "d2"], ["d3"])
        await one.dict("stock").set("apples", 4, within_s=30)
        with pytest.raises((ReadNotSettled, Maybe)):
            await three.dict("stock").get("apples", within_s=3)
        assert await three.dict("stock").get("apples", stale_ok=True) == 3
        c.heal()
        assert await three.dict("stock").get("apples", within_s=60) == 4


@isotone.testing.seeds(4)
async def test_a_program_that_is_no_server_goes_on_at_another_one() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with (
        cluster as c,
        c.replica("d1"),
        c.replica("d2"),
        c.replica("d3"),
        isotone.connect_replica(["d1:4816", "d2:4816"], lease_s=3600) as shop,
    ):
        stock = shop.dict("stock")
        await stock.set("apples", 3, within_s=30)
        c.crash("d1")
        assert await stock.get("apples", within_s=60) == 3
        await stock.set("apples", 4, within_s=60)
        changes = stock.watch(after=1)
        assert [(await anext(changes)).value for _ in range(2)] == [3, 4]
        await changes.aclose()


@isotone.testing.seeds(3)
async def test_a_lock_passes_on_when_its_holder_crashes() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with cluster as c, c.replica("d2") as two, c.replica("d3"):
        async with c.replica("d1") as one:
            held = await one.lock("door").acquire(within_s=30)
            assert held is not None and held.is_held
            waiting = asyncio.ensure_future(two.lock("door").acquire(within_s=120))
            c.crash("d1")
            with pytest.raises(IsotoneError):
                await one.counter("x").add(1, within_s=5)
            assert "d1 is gone" in await held.until_lost()
            assert not held.is_held and not waiting.done()
        later = await waiting
        assert later is not None and later.fence > held.fence
        c.restart("d1")
        async with c.replica("d1") as again:
            assert await again.lock("door").fences(within_s=60) == [later.fence]


@isotone.testing.seeds(1)
async def test_a_command_that_is_not_deterministic_is_found() -> None:
    async with isotone.testing.cluster(daemons=1, log="shop") as c, c.replica("d1", classes=[Dice]) as one:
        dice = one.object(Dice, "dice")
        drawn = await dice.put(within_s=30)
        assert (await dice.read()).last == drawn
        with pytest.raises(LocalProtocolError, match="not deterministic"):
            await dice.roll(within_s=30)


class Words(msgspec.Struct):
    """One command commutes, one is only said to."""

    count: int = 0
    last: str = ""

    @isotone.command(commutes=True)
    def count_one(self) -> int:
        self.count += 1
        return self.count

    @isotone.command(commutes=True)
    def say(self, word: str) -> None:
        self.last = word


@isotone.testing.seeds(4)
async def test_commands_that_commute_are_seen_in_a_minority_and_count_once() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with (
        cluster as c,
        c.replica("d1", classes=[Words]) as one,
        c.replica("d2", classes=[Words]) as two,
        c.replica("d3", classes=[Words], lease_s=600) as three,
    ):
        words = three.object(Words, "words")
        await words.count_one(within_s=30)
        await two.object(Words, "words").read(within_s=30)
        assert (await words.read(within_s=30)).count == 1
        c.partition(["d1", "d2"], ["d3"])
        for _ in range(2):
            with pytest.raises(Maybe):
                await words.count_one(within_s=5)
        seen = await words.provisional()
        assert (seen.value.count, seen.red) == (3, 2) and (await words.read(stale_ok=True)).count == 1
        await one.object(Words, "words").count_one(within_s=30)
        with pytest.raises(Maybe):
            await words.say("a", within_s=5)
        with pytest.raises(Maybe):
            await words.say("b", within_s=5)
        with pytest.raises(LocalProtocolError, match="declared commutative and are not"):
            await words.provisional()
        c.heal()
        while (await words.read(within_s=60)).count < 4:
            pass
        seen = await words.provisional()
        assert (seen.value.count, seen.red) == (4, 0)


BANK = isotone.Procedures("bank")


@BANK.procedure
def create(db: Transaction) -> None:
    db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
    db.execute("INSERT INTO account VALUES ('alice', 10), ('bob', 10)")


@BANK.procedure
def transfer(db: Transaction, amount: int) -> None:
    db.execute("UPDATE account SET balance = balance - ? WHERE owner = 'alice'", amount)
    db.execute("UPDATE account SET balance = balance + ? WHERE owner = 'bob'", amount)


@BANK.procedure
def roll(db: Transaction) -> int:
    return random.randrange(10**9)


@isotone.testing.seeds(6)
async def test_a_database_through_crashes_that_lose_its_last_commits() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with cluster as c, c.replica("d1", databases=[BANK]) as one, c.replica("d3", databases=[BANK]) as three:
        async with c.replica("d2", databases=[BANK]) as two:
            await one.database("bank").call("create", within_s=30)
            for _ in range(5):
                await one.database("bank").call("transfer", 1, within_s=30)
            await two.offer_snapshot()
            for _ in range(3):
                await three.database("bank").call("transfer", 1, within_s=30)
            c.crash("d2")
        c.restart("d2")
        async with c.replica("d2", databases=[BANK]) as again:
            rows = await again.database("bank").read("SELECT balance FROM account ORDER BY owner", within_s=60)
            assert rows == [(2,), (18,)]
            await one.applied_beyond(again.machine.state.position - 1)
            assert again.machine.digests()["bank"] == one.machine.digests()["bank"]


@isotone.testing.seeds(1)
async def test_a_procedure_that_is_not_deterministic_is_found() -> None:
    async with isotone.testing.cluster(daemons=1, log="shop") as c, c.replica("d1", databases=[BANK]) as one:
        with pytest.raises(LocalProtocolError, match="not deterministic"):
            await one.database("bank").call("roll", within_s=30)


@isotone.testing.seeds(2)
async def test_an_object_is_removed_everywhere_and_who_watches_it_is_told() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with cluster as c, c.replica("d1") as one, c.replica("d2") as two, c.replica("d3"):
        stock = one.dict("stock", int)
        begun = await stock.set("apples", 3, within_s=30)
        watching = stock.watch(after=begun - 1)
        assert (await anext(watching)).value == 3
        assert await two.remove(two.dict("stock"), within_s=30)
        gone = await asyncio.wait_for(anext(watching), 60)
        assert (gone.key, gone.deleted) == ("apples", True)
        assert await stock.items(within_s=30) == {}
        await two.dict("stock").set("pears", 4, within_s=30)
        again = await asyncio.wait_for(anext(watching), 60)
        assert (again.key, again.value) == ("pears", 4)
        with pytest.raises(ChangesForgotten):
            await anext(stock.watch(after=begun - 1))
        held = await one.lock("door").acquire(within_s=30)
        assert held is not None
        with pytest.raises(Rejected, match="somebody holds it"):
            await two.remove(two.lock("door"), within_s=30)
        assert not await two.remove(two.queue("jobs"), within_s=30)


@isotone.testing.seeds(2)
async def test_ones_own_writes_to_a_set_and_a_queue_are_read_without_a_quorum() -> None:
    cluster = isotone.testing.cluster(daemons=3, log="shop")
    async with cluster as c, c.replica("d1") as one, c.replica("d2") as two, c.replica("d3"):
        number = await one.queue("jobs").put("x", within_s=30)
        await one.set("people").add("alice", within_s=30)
        at_least = one.machine.state.position
        assert await two.queue("jobs").size(at_least=number, within_s=30) == 1
        assert await two.set("people").contains("alice", at_least=at_least, within_s=30)
        c.partition(["d1"], ["d2", "d3"])
        assert await one.set("people").members(at_least=at_least, within_s=30) == ["alice"]
        assert await one.queue("jobs").size(at_least=number, within_s=30) == 1


@isotone.testing.seeds(1)
async def test_a_cluster_without_a_log_says_so() -> None:
    async with isotone.testing.cluster(daemons=1) as c:
        with pytest.raises(LocalProtocolError, match='log="shop"'):
            c.replica("d1")
