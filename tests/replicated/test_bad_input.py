"""What a program does wrong, or finds wrong: a clear error, nothing lost, and all replicas are equal."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import isotone
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.host.replica_objects import LocalReplica
from isotone.replicated.database import guard
from isotone.replicated.database.transaction import Transaction
from isotone.replicated.errors import Rejected
from isotone.replicated.records import DigestWanted, encode
from tests.ports import free_ports

DEADLINE_S = 120.0
WITHIN_S = 60.0
STEPS_MAX = 200_000


class Account(msgspec.Struct):
    """As all programs had it at first."""

    balance: int = 0

    @isotone.command
    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    @isotone.command
    def spoil(self, amount: int) -> None:
        self.balance += amount
        raise ValueError("spoilt")


class NewerAccount(Account):
    """With a command more."""

    @isotone.command
    def double(self) -> int:
        self.balance *= 2
        return self.balance


NewerAccount.__name__ = Account.__name__


def bank() -> isotone.Procedures:
    made = isotone.Procedures("bank")

    @made.procedure
    def create(db: Transaction) -> None:
        db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
        db.execute("INSERT INTO account VALUES ('alice', 10)")

    @made.procedure
    def spoil(db: Transaction) -> None:
        db.execute("UPDATE account SET balance = 0")
        raise ValueError("spoilt")

    @made.procedure
    def loop(db: Transaction) -> None:
        db.execute("UPDATE account SET balance = 0")
        while True:
            db.execute("SELECT count(*) FROM account")

    return made


class Shop:
    """Servers in this process, each opened and closed by itself."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._places = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
        self._stacks: dict[str, AsyncExitStack] = {}
        self.servers: dict[str, LocalReplica] = {}

    async def open(self, name: str, account: type[Account] = Account) -> LocalReplica:
        stack = self._stacks[name] = AsyncExitStack()
        self.servers[name] = await stack.enter_async_context(
            isotone.replica(
                "shop",
                name=name,
                state=self._directory / name,
                address=self._places[name],
                peers={each: place for each, place in self._places.items() if each != name},
                classes=[account],
                databases=[bank()],
            )
        )
        return self.servers[name]

    async def close(self, name: str) -> None:
        del self.servers[name]
        await self._stacks.pop(name).aclose()

    async def check_equal(self) -> None:
        """All three have the same digests at one position, and their databases are sound."""
        position = await self.servers["a"].append(encode(DigestWanted()), WITHIN_S)
        told = [await each.digests_at(position) for each in self.servers.values()]
        assert len(told) == 3 and told[0]["digests"]
        assert all(each["digests"] == told[0]["digests"] and not each["problems"] for each in told)


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Shop]:
    shop = Shop(directory)
    try:
        async with asyncio.timeout(DEADLINE_S):
            for name in "abc":
                await shop.open(name)
            yield shop
            await shop.check_equal()
    finally:
        for name in list(shop.servers):
            await shop.close(name)


def test_values_commands_and_procedures_that_are_wrong_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "STEPS_MAX", STEPS_MAX)

    async def main() -> None:
        async with opened(tmp_path) as shop:
            stock, alice = shop.servers["a"].dict("stock"), shop.servers["b"].object(Account, "alice")
            accounts = shop.servers["c"].database("bank")
            await stock.set("apples", 3, within_s=WITHIN_S)
            await alice.deposit(10, within_s=WITHIN_S)
            await accounts.call("create", within_s=WITHIN_S)
            with pytest.raises(LocalProtocolError, match="cannot be encoded"):
                await stock.set("apples", object())
            with pytest.raises(LocalProtocolError, match="a key of 1025 bytes; at most 1024"):
                await stock.transact(then={"apples": 4, "k" * 1025: 1})
            with pytest.raises(LocalProtocolError, match="cannot be encoded"):
                await alice.deposit(object())
            with pytest.raises(Rejected, match=r"Account\.spoil raised ValueError: spoilt"):
                await alice.spoil(5, within_s=WITHIN_S)
            with pytest.raises(Rejected, match=r"Account\.deposit raised TypeError"):
                await alice.deposit("much", within_s=WITHIN_S)
            with pytest.raises(Rejected, match="spoil: raised ValueError: spoilt"):
                await accounts.call("spoil", within_s=WITHIN_S)
            with pytest.raises(Rejected, match=f"more than {STEPS_MAX} steps"):
                await accounts.call("loop", within_s=WITHIN_S)
            for each in shop.servers.values():
                assert await each.dict("stock").items(within_s=WITHIN_S) == {"apples": 3}
                assert (await each.object(Account, "alice").read(stale_ok=True)).balance == 10
                assert await each.database("bank").read("SELECT * FROM account", stale_ok=True) == [("alice", 10)]

    asyncio.run(main())


def test_a_table_changed_behind_our_back_stops_that_server_until_it_is_opened_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as shop:
            await shop.servers["a"].database("bank").call("create", within_s=WITHIN_S)
            await shop.servers["b"].database("bank").read("SELECT * FROM account", within_s=WITHIN_S)
            with sqlite3.connect(tmp_path / "b" / "databases" / "bank.sqlite") as other:
                other.execute("UPDATE account SET balance = 1000")
            other.close()
            with pytest.raises(MachineError, match="behind our back"):
                await shop.servers["b"].database("bank").read("SELECT * FROM account", stale_ok=True)
            with pytest.raises(Rejected, match="spoilt"):
                await shop.servers["a"].database("bank").call("spoil", within_s=WITHIN_S)
            await shop.close("b")
            again = await shop.open("b")
            assert await again.database("bank").read("SELECT * FROM account", within_s=WITHIN_S) == [("alice", 10)]
            assert (tmp_path / "b" / "databases" / "bank.sqlite.set-aside").exists()

    asyncio.run(main())


def test_a_command_that_one_server_does_not_know_is_refused_by_all_and_an_old_program_stops(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as shop:
            for name in "ab":
                await shop.close(name)
                await shop.open(name, NewerAccount)
            alice = shop.servers["a"].object(NewerAccount, "alice")
            await alice.deposit(10, within_s=WITHIN_S)
            with pytest.raises(Rejected, match="not known to the program of c"):
                await alice.double(within_s=WITHIN_S)
            await shop.close("c")
            await shop.open("c", NewerAccount)
            with_command = shop.servers["a"].machine
            while with_command.why_unknown(alice.kind, "double"):  # until c has announced it
                await shop.servers["a"].applied_beyond(with_command.state.position)
            assert await alice.double(within_s=WITHIN_S) == 20
            await shop.close("c")
            old = await shop.open("c", Account)  # set back, although a command is in the order that it lacks
            with pytest.raises(InputError, match="no command double: it is older than the others"):
                await old.object(Account, "alice").read(within_s=WITHIN_S)
            assert await alice.deposit(1, within_s=WITHIN_S) == 21
            await shop.close("c")
            again = await shop.open("c", NewerAccount)
            assert (await again.object(NewerAccount, "alice").read(within_s=WITHIN_S)).balance == 21

    asyncio.run(main())
