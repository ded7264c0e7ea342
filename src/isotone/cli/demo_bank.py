"""The bank of the demo: accounts in a replicated database, a server beside each daemon, a teller in each site.

What was ordered is kept as a file, since Spark comes later, when all servers have ended: `archived` makes an archive of
it, with the row changes, as servers keep one of a log that is longer.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from isotone.cli.demo_screen import Desk, Screen
from isotone.cli.local_cluster import LocalDaemon
from isotone.core.errors import MachineError
from isotone.core.ordered_log import LogEntry
from isotone.daemon.ports import LOOPBACK
from isotone.host.log_client import RemoteLog
from isotone.host.replica_objects import connect_replica
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.transaction import Transaction
from isotone.replicated.errors import Rejected, Unsettled

if TYPE_CHECKING:
    from isotone.replicated.database.handle import ReplicatedDatabase

OWNERS = ("anna", "ben", "chloe")
OPENING = 100
TOGETHER = OPENING * len(OWNERS)
TABLE = "account"
ARCHIVE, KEPT = "archive", "bank.msgpack"
DONE, REFUSED, MAYBE = "done", "refused", "maybe"
TRIES = 3
LEASE_S = 120.0  # nobody is taken for dead while a busy machine tells the story
Balances = dict[str, int]

bank = Procedures("bank")


@bank.procedure
def open_accounts(db: Transaction) -> None:
    """Make the table of accounts, with the same balance in each."""
    db.execute(f"CREATE TABLE {TABLE} (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))")
    for owner in OWNERS:
        db.execute(f"INSERT INTO {TABLE} VALUES (?, ?)", owner, OPENING)


@bank.procedure
def transfer(db: Transaction, giver: str, taker: str, amount: int) -> None:
    """Refused as a whole when the giver has less."""
    db.execute(f"UPDATE {TABLE} SET balance = balance - ? WHERE owner = ?", amount, giver)
    db.execute(f"UPDATE {TABLE} SET balance = balance + ? WHERE owner = ?", amount, taker)


class BankServer(LocalDaemon):
    """A daemon with a server of the bank's log in its process; ``bug``: one of those that the demo plants in it."""

    bug = ""

    @property
    def command(self) -> list[str]:
        """The command line that starts this server."""
        words = [str(self.settings), self.place.name, *filter(None, [self.bug])]
        return [sys.executable, "-m", "isotone.cli.demo_server", *words]


def servers_text(ports: Mapping[str, int]) -> str:
    """The servers, for the settings file."""
    lines = ["[replica]", 'group = "bank"', ""]
    for name, port in ports.items():
        lines += ["[[replica.server]]", f'name = "{name}"', f"port = {port}", ""]
    return "\n".join(lines)


class Teller:
    """Who orders transfers, with a copy of all accounts; it asks the servers of its site alone."""

    def __init__(self, name: str, site: str, ports: Sequence[int], screen: Screen) -> None:
        self.name, self._screen = name, screen
        self._addresses = [f"{LOOPBACK}:{port}" for port in ports]
        self._desk = Desk(name, site)
        self._stack = AsyncExitStack()
        self._ordered = 0
        self._open: list[Callable[[], Awaitable[Any]]] = []
        self._accounts: ReplicatedDatabase
        screen.open_desk(self._desk)

    async def enter(self) -> None:
        """Connect, and show the accounts as they change."""
        connected = connect_replica(self._addresses, name=self.name, databases=[bank], lease_s=LEASE_S)
        self._accounts = (await self._stack.enter_async_context(connected)).database(bank)
        watching = asyncio.create_task(self._watch())
        self._stack.callback(watching.cancel)

    async def open_accounts(self) -> None:
        """Order the opening of the accounts; one teller does it once."""
        await self._accounts.call("open_accounts")

    async def order(self, count: int) -> None:
        """So many transfers at once, and say what became of them."""
        numbers = range(self._ordered, self._ordered + count)
        self._ordered += count
        found = Counter(await asyncio.gather(*map(self._order, numbers)))
        told = ", ".join(f"{found[each]} {each}" for each in (DONE, REFUSED, MAYBE) if found[each])
        self._screen.tell_bank(self._desk, f"{count} transfers: {told}")

    async def _order(self, number: int) -> str:
        giver = (number + len(self.name)) % len(OWNERS)
        taker = (giver + 1 + number // len(OWNERS) % 2) % len(OWNERS)
        for tries_left in reversed(range(TRIES)):
            try:
                await self._accounts.call("transfer", OWNERS[giver], OWNERS[taker], 1 + number * 7 % 40)
            except Rejected:
                return REFUSED
            except Unsettled as unsettled:
                if not self._open:
                    self._screen.tell_bank(self._desk, str(unsettled))
                self._open.append(unsettled.outcome)
                return MAYBE
            except MachineError:  # no server took it: one was killed, and the next one does not answer yet
                if not tries_left:
                    raise
            else:
                break
        return DONE

    async def settle(self) -> None:
        """Wait for what became of each *maybe*."""
        if not self._open:
            return
        answers = await asyncio.gather(*(outcome() for outcome in self._open), return_exceptions=True)
        found = Counter(REFUSED if isinstance(answer, Rejected) else DONE for answer in answers)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Rejected):
                raise answer
        told = ", ".join(f"{found[each]} {each}" for each in (DONE, REFUSED) if found[each])
        self._screen.tell_bank(self._desk, f"of {len(answers)} maybe: {told}")
        self._open.clear()

    async def balances(self) -> Balances:
        """Behind all that is ordered now."""
        rows = await self._accounts.read(f"SELECT owner, balance FROM {TABLE} ORDER BY owner")
        return dict(rows)

    async def leave(self) -> None:
        """Close, whatever became of it."""
        await self._stack.aclose()

    async def _watch(self) -> None:
        async for change in self._accounts.changes(after=0):
            rows = await self._accounts.read(f"SELECT owner, balance FROM {TABLE} ORDER BY owner", stale_ok=True)
            self._desk.position, self._desk.balances = change.position, dict(rows)
            self._screen.refresh()


async def same_balances(tellers: Sequence[Teller], screen: Screen) -> Balances:
    """What all of them read; they read the same."""
    found = await asyncio.gather(*(teller.balances() for teller in tellers))
    if any(each != found[0] for each in found):
        told = "; ".join(f"{teller.name}: {each}" for teller, each in zip(tellers, found, strict=True))
        raise MachineError(f"the tellers read different balances: {told}")
    names = ", ".join(teller.name for teller in tellers)
    screen.say(f"the accounts, as {names} read them: {described(found[0])}")
    return found[0]


def described(balances: Balances) -> str:
    """In words, with the total."""
    accounts = ", ".join(f"{owner} {balance}" for owner, balance in balances.items())
    return f"{accounts}; together {sum(balances.values())}"


# --- what is left for Spark -------------------------------------------------------------------------------------------


class KeptLog(msgspec.Struct, frozen=True):
    """The whole log, and what the accounts were at its end."""

    balances: Balances
    entries: list[LogEntry]


async def keep_log(directory: Path, ports: Mapping[str, int], balances: Balances) -> int:
    """Read the log from each of the servers, and write it down; how many records there are."""
    found: list[LogEntry] = []
    for name, port in ports.items():
        async with RemoteLog(f"{LOOPBACK}:{port}") as log:
            if found:
                await log.wait_for(found[-1].position)
            entries = await log.read(1, await log.end())
        if entries[: len(found)] != found:
            raise MachineError(f"server {name} has another order than those before it")
        found = entries
    kept = msgspec.msgpack.encode(KeptLog(balances, found))
    await asyncio.to_thread((directory / KEPT).write_bytes, kept)
    return len(found)


def archived(directory: Path) -> Balances:
    """Make the archive of what was kept, with the row changes; the accounts at its end."""
    from isotone.replicated.archive.store import Archive
    from isotone.replicated.database.change_log import FOLDER, ChangeLog
    from isotone.replicated.database.state import Databases
    from isotone.replicated.machine import Machine

    kept = msgspec.msgpack.decode((directory / KEPT).read_bytes(), type=KeptLog)
    machine = Machine(databases=Databases([bank]))
    for entry in kept.entries:
        machine.apply(entry.position, entry.record)
    changes = asyncio.run(ChangeLog(machine).read(1, len(kept.entries)))
    machine.databases.close()
    place = directory / ARCHIVE
    shutil.rmtree(place, ignore_errors=True)
    Archive(place).write(kept.entries)
    Archive(place / FOLDER).write(changes)
    return kept.balances
