"""Who took itself for the holder of what, when, and under which fence.

Implements: [COReL 8.1], lock acquisition. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from isotone.spec.check.account import Account
from isotone.spec.verdicts import EventId


class Holding(msgspec.Struct, frozen=True):
    """From ``begin`` to ``end`` on the common clock."""

    operation: str
    kind_of: str
    name: str
    fence: int
    shared: bool
    permits: int
    begin: int
    end: int
    how: str
    events: tuple[EventId, ...]


def judge_holdings(holdings: Iterable[Holding], account: Account) -> None:
    """Fences, exclusion and leadership; an item that was finished is not handed out again."""
    by_name: dict[str, list[Holding]] = {}
    for each in holdings:
        by_name.setdefault(each.name, []).append(each)
    for name, held in by_name.items():
        held.sort(key=lambda each: (each.begin, each.fence))
        for place, later in enumerate(held):
            for earlier in held[:place]:
                _judge_pair(name, earlier, later, account)
            _judge_permits(name, later, held, account)


def _judge_pair(name: str, earlier: Holding, later: Holding, account: Account) -> None:
    events = (*earlier.events, *later.events)
    account.exercised.add("FENCE")
    if earlier.fence == later.fence:
        account.accuse("FENCE", events, f"{earlier.operation} and {later.operation} hold {name} with one fence.")
        if later.kind_of == "leader":
            account.accuse("LEADER", events, f"{earlier.operation} and {later.operation} lead {name} with one fence.")
    is_exclusive = not (earlier.shared and later.shared)  # readers may hear of their grants in any order
    if is_exclusive and earlier.end <= later.begin and earlier.fence > later.fence:
        account.accuse(
            "FENCE", events, f"{later.operation} holds {name} after {earlier.operation}, with a lower fence."
        )
    if is_exclusive:
        id = "LEADER" if later.kind_of == "leader" else "HELD"
        account.exercised.add(id)
        if later.begin < earlier.end and earlier.begin < later.end:
            account.accuse(id, events, f"{earlier.operation} and {later.operation} hold {name} at one time.")
    if later.kind_of == "item" and earlier.how == "done":
        account.exercised.add("QUEUE")
        if earlier.end <= later.begin:
            account.accuse("QUEUE", events, f"{name} was finished, and handed out again to {later.operation}.")


def _judge_permits(name: str, holding: Holding, held: list[Holding], account: Account) -> None:
    """At its beginning no more than are permitted."""
    if not holding.shared:
        return
    together = [each for each in held if each.begin <= holding.begin < each.end and each.shared]
    if len(together) > holding.permits:
        events = [event for each in together for event in each.events]
        account.accuse("HELD", events, f"{name} has {len(together)} holders and {holding.permits} permits.")
