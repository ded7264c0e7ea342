"""A copy of a log with objects and a database in it, and a log that is made from that: all is there as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import isotone
from isotone.corel.quorum import Majority
from isotone.host.backup import back_up, new_fence, read_backup, restore
from isotone.replicated.database.transaction import Transaction
from tests.ports import free_ports

DEADLINE_S = 120.0
WITHIN_S = 60.0


def bank() -> isotone.Procedures:
    made = isotone.Procedures("bank")

    @made.procedure
    def create(db: Transaction) -> None:
        db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
        db.execute("INSERT INTO account VALUES ('alice', 10)")

    @made.procedure
    def add(db: Transaction, amount: int) -> int:
        ((balance,),) = db.execute("UPDATE account SET balance = balance + ? RETURNING balance", amount)
        return int(balance)

    return made


def opened(state: Path, port: int) -> Any:
    return isotone.replica("shop", name="a", state=state, address=f"127.0.0.1:{port}", databases=[bank()])


async def write(shop: Any, count: int) -> None:
    for number in range(count):
        await shop.dict("stock").set(f"k{number}", number, within_s=WITHIN_S)
        await shop.queue("jobs").put(number, within_s=WITHIN_S)
        await shop.database("bank").call("add", 1, within_s=WITHIN_S)


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_objects_and_a_database_are_restored_as_they_were(tmp_path: Path, has_snapshot: bool) -> None:
    ports = free_ports(2)

    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S):
            async with opened(tmp_path / "old", ports[0]) as shop:
                await shop.database("bank").call("create", within_s=WITHIN_S)
                await write(shop, 3)
                if has_snapshot:
                    assert await shop.offer_snapshot()
                    await write(shop, 2)
                known, position = shop.machine.digests(), shop.machine.state.position
                await write(shop, 5)
            back_up(tmp_path / "old" / "log", "a", tmp_path / "copy", position)
            stores = {"a": tmp_path / "new" / "log"}
            made = read_backup(tmp_path / "copy")
            assert restore(made, stores, servers=("a",), rule=Majority(("a",)), fence=new_fence(made)) == position
            async with opened(tmp_path / "new", ports[1]) as again:
                count = 5 if has_snapshot else 3
                await again.database("bank").read("SELECT 1", within_s=WITHIN_S)
                assert {name: again.machine.digests()[name] for name in known if name} == {
                    name: digest for name, digest in known.items() if name
                }
                assert await again.dict("stock").items() == {f"k{number}": number for number in range(3)}
                assert await again.queue("jobs").size() == count
                assert await again.database("bank").call("add", 1, within_s=WITHIN_S) == 10 + count + 1
                assert not again.machine.problems()

    asyncio.run(main())
