"""A bank on replicated SQLite: run `python bank.py a`, `b` and `c` in three terminals, and type `alice bob 3` or Enter.

Kill any one of them: the other two go on, and the third has every transfer when it comes back.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import isotone
from isotone.replicated.errors import Rejected

bank = isotone.Procedures("bank")


@bank.procedure
def create(db: Any) -> None:
    """The accounts, if they are not there."""
    db.execute(
        "CREATE TABLE IF NOT EXISTS account "
        "(owner TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0)) WITHOUT ROWID"
    )
    db.execute("INSERT INTO account VALUES ('alice', 100), ('bob', 100), ('carol', 100) ON CONFLICT DO NOTHING")


@bank.procedure
def transfer(db: Any, giver: str, taker: str, amount: int) -> int:
    """Move money; what the giver has left. Whoever would have less than nothing keeps all: nothing changes."""
    if amount <= 0:
        raise ValueError("an amount is above zero")
    for owner, change in ((giver, -amount), (taker, amount)):
        db.execute("UPDATE account SET balance = balance + ? WHERE owner = ?", change, owner)
        if not db.changed:
            raise ValueError(f"{owner} has no account")
    return int(db.execute("SELECT balance FROM account WHERE owner = ?", giver)[0][0])


async def main(name: str, first_port: int) -> None:
    """One server, and a prompt."""
    ports = {each: first_port + place for place, each in enumerate("abc")}
    peers = {each: f"127.0.0.1:{port}" for each, port in ports.items() if each != name}
    async with isotone.replica(
        "bank", name=name, state=f"bank-{name}", address=f"127.0.0.1:{ports[name]}", peers=peers, databases=[bank]
    ) as shop:
        accounts = shop.database(bank)
        print(f"{name} is up", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                await accounts.call("create")
                if words := line.split():
                    giver, taker, amount = words
                    print(f"{giver} has {await accounts.call('transfer', giver, taker, int(amount))} left", flush=True)
                else:
                    rows = await accounts.read("SELECT owner, balance FROM account ORDER BY owner")
                    print(*rows, f"together {sum(balance for _, balance in rows)}", flush=True)
            except (ValueError, Rejected, isotone.Maybe) as error:
                print(error, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4803))
