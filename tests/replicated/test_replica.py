"""`isotone.replica`, its clients, its blocking form and the commands, over real nodes on loopback."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import isotone
from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.ordered_log import Refused
from isotone.host import replica_blocking
from isotone.host.replica_objects import LocalReplica
from isotone.replicated.database.transaction import Transaction
from isotone.replicated.errors import ReadNotSettled, Rejected, Unsettled
from isotone.replicated.provisional import Provisional
from tests.ports import free_ports

DEADLINE_S = 60.0
WITHIN_S = 30.0


class Account(msgspec.Struct):
    """A class of one's own."""

    balance: int = 0

    @isotone.command
    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    @isotone.command
    def withdraw(self, amount: int) -> int:
        if amount > self.balance:
            raise ValueError(f"only {self.balance} left")
        self.balance -= amount
        return self.balance


@asynccontextmanager
async def replicas(directory: Path, names: str = "abc", **options: Any) -> AsyncIterator[dict[str, LocalReplica]]:
    places = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
    async with AsyncExitStack() as stack, asyncio.timeout(DEADLINE_S):
        opened = {}
        for name in names:
            opened[name] = await stack.enter_async_context(
                isotone.replica(
                    "shop",
                    name=name,
                    state=directory / name,
                    address=places[name],
                    clients="127.0.0.1:0",
                    peers={each: place for each, place in places.items() if each != name},
                    **options,
                )
            )
        yield opened


def test_objects_are_the_same_everywhere_and_for_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as shop:
            revision = await shop["a"].dict("stock").set("apples", 3, within_s=WITHIN_S)
            assert await shop["b"].dict("stock").get("apples") == 3
            assert await shop["c"].dict("stock").get("apples", at_least=revision) == 3
            addresses = [each.clients_address for each in shop.values()]
            async with isotone.connect_replica(addresses) as client:
                assert await client.dict("stock").items() == {"apples": 3}
                assert await client.counter("hits").add(2) == 2
                held = await client.lock("door").acquire()
                assert held is not None and held.is_held
                assert await shop["a"].lock("door").acquire(wait=False) is None
            again = await shop["a"].lock("door").acquire()  # the client said good-bye
            assert again is not None and again.fence > held.fence

    asyncio.run(main())


def test_in_a_minority_writes_are_maybe_and_reads_are_local_if_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as shop:
            await shop["a"].dict("stock").set("apples", 3, within_s=WITHIN_S)
            await shop["b"].replica_log.stop()
            await shop["c"].replica_log.stop()
            await shop["a"].replica_log.until(lambda: not shop["a"].replica_log.orders)
            with pytest.raises(Unsettled, match="No quorum"):
                await shop["a"].dict("stock").set("apples", 4)
            with pytest.raises(ReadNotSettled, match="No quorum"):
                await shop["a"].dict("stock").get("apples")
            assert await shop["a"].dict("stock").get("apples", stale_ok=True) == 3

    asyncio.run(main())


def test_in_a_minority_writes_are_refused_where_the_caller_chose_that(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a", minority="refuse") as shop:
            with pytest.raises(Refused, match="not sent"):
                await shop["a"].dict("stock").set("apples", 4)

    asyncio.run(main())


def test_a_class_of_ones_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, classes=[Account]) as shop:
            account = shop["a"].object(Account, "alice")
            assert await account.deposit(10, within_s=WITHIN_S) == 10
            with pytest.raises(Rejected, match="only 10 left"):
                await account.withdraw(11)
            assert await account.withdraw(4) == 6
            assert (await shop["b"].object(Account, "alice").read()).balance == 6

    asyncio.run(main())


def ledger() -> isotone.Procedures:
    made = isotone.Procedures("ledger")

    @made.procedure
    def create(db: Transaction) -> None:
        db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))")

    @made.procedure
    def deposit(db: Transaction, owner: str, amount: int, now: float) -> int:
        assert now > 0
        db.execute("INSERT INTO account VALUES (?, 0) ON CONFLICT DO NOTHING", owner)
        told = db.execute("UPDATE account SET balance = balance + ? WHERE owner = ? RETURNING balance", amount, owner)
        return int(told[0][0])

    return made


def test_a_database(tmp_path: Path) -> None:
    async def main() -> None:
        procedures = ledger()
        async with replicas(tmp_path, databases=[procedures]) as shop:
            bank = shop["a"].database("ledger")
            await bank.call("create", within_s=WITHIN_S)
            assert await bank.call("deposit", "alice", 10, within_s=WITHIN_S) == 10
            with pytest.raises(Rejected, match="CHECK constraint failed"):
                await bank.call("deposit", "alice", -11, within_s=WITHIN_S)
            for each in shop.values():
                assert await each.database("ledger").read("SELECT * FROM account") == [("alice", 10)]
            with pytest.raises(LocalProtocolError, match="DELETE is not allowed in a read"):
                await bank.read("DELETE FROM account")
            with pytest.raises(LocalProtocolError, match="no procedure 'steal'"):
                await bank.call("steal")
            with pytest.raises(LocalProtocolError, match=r"ledger\.deposit: missing a required argument"):
                await bank.call("deposit")
            with pytest.raises(LocalProtocolError, match="cannot be encoded"):
                await bank.call("deposit", object(), 3)
            async with isotone.connect_replica(shop["a"].clients_address, databases=[procedures]) as client:
                assert await client.database(procedures).call("deposit", "bob", 5, within_s=WITHIN_S) == 5
                assert await client.database("ledger").read("SELECT sum(balance) FROM account") == [(15,)]
                async for change in client.database("ledger").changes(after=0):
                    assert change.procedure == "create" and change.forms["account"].columns == ("owner", "balance")
                    break
            async with isotone.connect_replica(shop["a"].clients_address) as client:
                with pytest.raises(LocalProtocolError, match="databases="):
                    client.database("ledger")
            assert await shop["b"].offer_snapshot()
        async with replicas(tmp_path, databases=[procedures]) as shop:
            for each in shop.values():
                assert await each.database("ledger").read(
                    "SELECT * FROM account ORDER BY owner", within_s=WITHIN_S
                ) == [("alice", 10), ("bob", 5)]

    asyncio.run(main())


def test_bad_values_and_a_full_disk_are_told_and_change_nothing(tmp_path: Path) -> None:
    (port,) = free_ports(1)

    async def main() -> None:
        async with isotone.replica("shop", name="a", state=tmp_path, address=f"127.0.0.1:{port}") as shop:
            stock = shop.dict("stock")
            await stock.set("k" * 1024, 1, within_s=WITHIN_S)
            position = shop.machine.state.position
            for key, value, told in (
                ("k" * 1025, 1, "a key of 1025 bytes"),
                (7, 1, "a key is a str"),
                ("x", object(), "cannot be encoded"),
                ("x", b"x" * 1024 * 1024, "at most 1048576"),
            ):
                with pytest.raises(LocalProtocolError, match=told):
                    await stock.set(key, value)  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="1 to 255 bytes"):
                shop.dict("n" * 256)
            with pytest.raises(LocalProtocolError, match="cannot be encoded"):
                await shop.dict("numbers", int).set("x", "three")
            assert shop.machine.state.position == position
            shop.replica_log.tell_room(is_low=True)
            with pytest.raises(Refused, match="disk"):
                await stock.set("apples", 3, within_s=WITHIN_S)
            shop.replica_log.tell_room(is_low=False)
            await stock.set("apples", 3, within_s=WITHIN_S)
            assert await stock.items("a") == {"apples": 3}

    asyncio.run(main())


def test_standing_and_configuration_are_streams(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as shop:
            log = shop["a"].replica_log
            await shop["a"].ready()
            standings = aiter(log.standings())
            while not (seen := await anext(standings)).primary or len(seen.servers) < 3:
                pass
            await shop["c"].replica_log.stop()
            while len((seen := await anext(standings)).servers) == 3 or not seen.primary:
                pass
            await log.until(lambda: log.orders)
            configurations = aiter(log.configurations())
            assert (await anext(configurations)).servers == ("a", "b", "c")
            await log.reconfigure(remove="c", within_s=WITHIN_S)
            assert (await anext(configurations)).servers == ("a", "b")
            await log.stop()
            assert [each async for each in configurations] == []

    asyncio.run(main())


def test_verify_names_a_server_that_differs_and_a_table_changed_behind_our_back(tmp_path: Path) -> None:
    async def verify(*addresses: str) -> tuple[int, str]:
        options = [word for address in addresses for word in ("--address", address)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "isotone.cli", "replica", "verify", *options), stdout=subprocess.PIPE
        )
        told, _ = await process.communicate()
        return process.returncode or 0, told.decode()

    async def main() -> None:
        async with replicas(tmp_path, databases=[ledger()]) as shop:
            bank = shop["a"].database("ledger")
            await bank.call("create", within_s=WITHIN_S)
            await bank.call("deposit", "alice", 10, within_s=WITHIN_S)
            addresses = [each.clients_address for each in shop.values()]
            code, told = await verify(*addresses)
            assert code == 0 and "3 servers have equal objects" in told
            shop["b"].machine.state.fences += 1
            with sqlite3.connect(tmp_path / "c" / "databases" / "ledger.sqlite") as other:
                other.execute("UPDATE account SET balance = 1000")
            other.close()
            code, told = await verify(*addresses)
            assert code == 1 and "differ in sessions and leases" in told and "changed behind our back" in told
            assert (await verify(*addresses, "127.0.0.1:1"))[0] == 1

    asyncio.run(main())


def test_commands_that_commute_are_seen_in_a_minority(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as shop:
            hits = shop["a"].counter("hits")
            await hits.add(3, within_s=WITHIN_S)
            assert await hits.provisional() == Provisional(3, 0)
            await shop["b"].replica_log.stop()
            await shop["c"].replica_log.stop()
            await shop["a"].replica_log.until(lambda: not shop["a"].replica_log.orders)
            with pytest.raises(Unsettled):
                await hits.add(4)
            with pytest.raises(Unsettled):
                await hits.set(100)  # does not commute
            assert await hits.provisional() == Provisional(7, 1)
            assert await hits.get(stale_ok=True) == 3
            async with isotone.connect_replica(shop["a"].clients_address) as client:
                with pytest.raises(LocalProtocolError, match="programs that are servers"):
                    await client.counter("hits").provisional()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": "a b"}, "client name"),
        ({"peers": {"a": "127.0.0.1:1"}}, "this server itself"),
        ({"minority": "perhaps"}, "minority is one of"),
        ({"peers": {"b": "nowhere"}}, "is no address"),
        ({"joins": True}, "needs peers"),
    ],
)
def test_wrong_arguments_are_told(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    async def main() -> None:
        async with isotone.replica("shop", **({"name": "a", "state": tmp_path} | wrong)):
            raise AssertionError("it was opened")

    with pytest.raises((InputError, LocalProtocolError), match=told):
        asyncio.run(main())


def test_without_asyncio(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with replica_blocking.replica("shop", name="a", state=tmp_path, address=f"127.0.0.1:{port}") as shop:
        stock = shop.dict("stock")
        revision = stock.set("apples", 3, within_s=WITHIN_S)
        assert stock.get("apples") == 3
        with shop.lock("door").hold() as held:
            assert held.is_held and held.fence == 1
        for change in stock.watch(after=0):
            assert (change.revision, change.key, change.value) == (revision, "apples", 3)
            break
        assert shop.remove(stock) and stock.items() == {}


def test_all_objects_without_asyncio(tmp_path: Path) -> None:
    bank = isotone.Procedures("bank")

    @bank.procedure
    def create(db: Transaction) -> int:
        db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
        db.execute("INSERT INTO account VALUES ('alice', 10)")
        return db.changed

    (port,) = free_ports(1)
    options: dict[str, Any] = {"classes": [Account], "databases": [bank]}
    address = f"127.0.0.1:{port}"
    with replica_blocking.replica("shop", name="a", state=tmp_path, address=address, **options) as shop:
        jobs = shop.queue("jobs")
        number = jobs.put({"order": 17}, within_s=WITHIN_S)
        item = jobs.take()
        assert (item.number, item.value, item.deliveries, jobs.size()) == (number, {"order": 17}, 1, 1)
        assert item.done() and jobs.size() == 0 and jobs.take(wait=False) is None
        with shop.leader("scheduler").lead("here") as term:
            assert term.is_held and shop.leader("scheduler").current() == (term.fence, "here")
        deal = shop.commitment("deal", ["a"])
        assert deal.vote("a", True) is True
        deal.finish("a")
        alice = shop.object(Account, "alice")
        assert alice.deposit(5) == 5 and alice.read().balance == 5
        with pytest.raises(Rejected, match="only 5 left"):
            alice.withdraw(6)
        accounts = shop.database("bank")
        accounts.call("create")
        assert accounts.read("SELECT owner, balance FROM account") == [("alice", 10)]
        (told,) = [each for each in next(iter(accounts.changes(after=0))).changes if hasattr(each, "new")]
        assert told.new == ("alice", 10)


def test_the_commands(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    with replica_blocking.replica("shop", name="a", state=tmp_path, address=listen, clients="127.0.0.1:0") as shop:
        shop.dict("kv").set("pears", 5, within_s=WITHIN_S)

        def isotone_command(*arguments: str) -> tuple[int, str]:
            where = ("--address", shop.clients_address)
            first, rest = arguments[:2], arguments[2:]
            done = subprocess.run(
                [sys.executable, "-m", "isotone.cli", *first, *where, *rest],
                capture_output=True,
                text=True,
                check=False,
            )
            return done.returncode, done.stdout

        assert isotone_command("kv", "get", "pears") == (0, "5\n")
        assert isotone_command("kv", "set", "apples", "three")[0] == 0
        assert isotone_command("kv", "list") == (0, "apples\tthree\npears\t5\n")
        assert isotone_command("kv", "set", "apples", "four", "--expect", "two")[0] == 1
        assert isotone_command("kv", "delete", "apples")[0] == 0
        assert isotone_command("kv", "get", "apples")[0] == 1
        code, changes = isotone_command("kv", "watch", "--after", "0", "--count", "3")
        assert code == 0 and [line.split("\t")[1] for line in changes.splitlines()] == ["set", "set", "delete"]
        code, fence = isotone_command("lock", "nightly", "--", "sh", "-c", "echo $ISOTONE_FENCE; exit 7")
        assert code == 7 and int(fence) >= 1
        with shop.lock("nightly").hold():
            assert isotone_command("lock", "nightly", "--no-wait", "--", "true")[0] == 1
        assert isotone_command("leader", "scheduler", "--", "true")[0] == 0
