"""What users would write: a class with commands that commute and one that does not, and procedures of a bank."""

from __future__ import annotations

import msgspec

from isotone.replicated.class_state import command
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.transaction import Transaction

SIZE = 1_000_003
OPENING = (("alice", 20), ("bob", 20), ("carol", 20))

BANK = Procedures("bank")


class Tally(msgspec.Struct):
    """A number on a circle."""

    value: int = 0

    @command(commutes=True)
    def add(self, amount: int) -> int:
        """Additions commute."""
        self.value = (self.value + amount) % SIZE
        return self.value

    @command
    def double(self) -> int:
        """Does not commute with them."""
        self.value = self.value * 2 % SIZE
        return self.value


@BANK.procedure
def transfer(db: Transaction, giver: str, taker: str, amount: int) -> int:
    """What the giver has left. It takes first and looks then, so that a refusal has something to undo."""
    db.execute("CREATE TABLE IF NOT EXISTS account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
    for owner, balance in OPENING:
        db.execute("INSERT INTO account VALUES (?, ?) ON CONFLICT DO NOTHING", owner, balance)
    db.execute("UPDATE account SET balance = balance + ? WHERE owner = ?", amount, taker)
    ((left,),) = db.execute("UPDATE account SET balance = balance - ? WHERE owner = ? RETURNING balance", amount, giver)
    if left < 0:
        raise ValueError("not enough")
    return int(left)
