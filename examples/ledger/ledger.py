"""A replicated bank whose transfers are archived for Spark: ``python examples/ledger/ledger.py DIRECTORY``.

One server orders by itself; with ``peers=`` the same program runs on three. See README.md beside this file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import isotone
from isotone.core.errors import MachineError
from isotone.host.replica_log import ReplicaLog
from isotone.replicated.errors import Rejected

ACCOUNTS, OPENING = 20, 100
TRANSFERS, AT_ONCE = 5_000, 100
ARCHIVED_WITHIN_S = 120.0
ledger = isotone.Procedures("ledger")


@ledger.procedure
def open_accounts(db: Any, count: int, opening: int) -> None:
    """Make the table, with the same balance in each account."""
    db.execute("CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))")
    for number in range(count):
        db.execute("INSERT INTO account VALUES (?, ?)", f"owner {number}", opening)


@ledger.procedure
def transfer(db: Any, giver: str, taker: str, amount: int) -> None:
    """Refused as a whole when the giver has less."""
    db.execute("UPDATE account SET balance = balance - ? WHERE owner = ?", amount, giver)
    db.execute("UPDATE account SET balance = balance + ? WHERE owner = ?", amount, taker)


async def run(directory: Path, transfers: int = TRANSFERS) -> tuple[int, int]:
    """Order so many transfers, and wait until some are archived: how many were refused, and the archived position."""
    archive = str(directory / "archive")
    options: dict[str, Any] = {"state": directory / "a", "address": "127.0.0.1:0"}
    async with isotone.replica("ledger", name="a", databases=[ledger], archive=archive, **options) as server:
        await server.ready()
        accounts = server.database("ledger")
        await accounts.call("open_accounts", ACCOUNTS, OPENING)

        async def one(number: int) -> int:
            giver = number * 7 % ACCOUNTS
            taker = (giver + 1 + number // ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS
            try:
                await accounts.call("transfer", f"owner {giver}", f"owner {taker}", number % 61)
            except Rejected:
                return 1
            return 0

        refused = 0
        for first in range(0, transfers, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, transfers))
            refused += sum(await asyncio.gather(*map(one, numbers)))
        return refused, await _archived(server.replica_log)


async def _archived(log: ReplicaLog) -> int:
    """The last position that is archived, when there is one: a file is written when it is full."""
    try:
        async with asyncio.timeout(ARCHIVED_WITHIN_S):
            while not log.archived:
                await asyncio.sleep(0.2)
    except TimeoutError:
        why = log.archive_problem or "there are too few records for a file"
        raise MachineError(f"nothing was archived within {ARCHIVED_WITHIN_S:g} seconds: {why}") from None
    return log.archived


if __name__ == "__main__":
    refused, archived = asyncio.run(run(Path(sys.argv[1])))
    print(f"{TRANSFERS} transfers, {refused} refused; archived up to position {archived}")
