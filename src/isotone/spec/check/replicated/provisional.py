"""Whether provisional values are what the order and the red commands come to.

The order of the commands is taken from what replicas met where, and applied here once more: a command counts once,
however often it is in the order or red; one that was refused, or of a session that is over, not at all.

Implements: [COReL 2.4], commutative operations. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from isotone.spec.check.account import Account
from isotone.spec.check.replicated.histories import event_of
from isotone.spec.check.replicated.linear import NOTHING
from isotone.trace.events import Row
from isotone.trace.replicated import CommandOrdered, ObjectAnswered, ObjectCalled

TALLY_SIZE = 1_000_003
"""The numbers of a run's tallies lie on a circle of this size."""


def judge_provisional(rows: list[Row], calls: dict[str, Row], answers: dict[str, Row], account: Account) -> None:
    """A provisional number is the one at its position, with the red additions, whatever else is red."""
    order = sorted({row.entry for row in rows if isinstance(row.entry, CommandOrdered)}, key=lambda each: each.place)
    for operation, row in sorted(calls.items()):
        called, answered = row.entry, answers.get(operation)
        assert isinstance(called, ObjectCalled)
        if called.method != "tally_read" or answered is None:
            continue
        assert isinstance(answered.entry, ObjectAnswered)
        if answered.entry.answer != "done":
            continue
        position, told, seen = answered.entry.result.split()
        ordered = [each for each in order if each.name == called.name and each.place <= int(position)]
        first = {each.call: each for each in reversed(ordered)}  # a later copy is answered as the first one was
        green = _value(each.command for each in ordered if first[each.call] is each and each.counts)
        red = _still_red(told, first)
        if red:
            account.exercised.add("RED")
        wanted = (green + _value(command for command in red.values() if _commutes(command))) % TALLY_SIZE
        if int(seen) % TALLY_SIZE != wanted:
            account.accuse(
                "RED",
                (event_of(row), event_of(answered)),
                f"{called.name} is {green} in the order and {told} are red: {seen} was read, not {wanted}.",
            )


def _still_red(told: str, ordered: Container[str]) -> dict[str, str]:
    """By call, what is red, of a session that lives, and not in the order already."""
    found: dict[str, str] = {}
    for each in [] if told == NOTHING else told.split(","):
        call, command, lives = each.split(":")
        if lives == "1" and call not in ordered:
            found[call] = command
    return found


def _value(commands: Iterable[str]) -> int:
    value = 0
    for command in commands:
        what, _, amount = command.partition("+")
        value = (value + int(amount) if what == "add" else 2 * value) % TALLY_SIZE
    return value


def _commutes(command: str) -> bool:
    return command.startswith("add+")
