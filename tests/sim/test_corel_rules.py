"""Who may order: the simulator's reckoning from disks, against that of the servers and against cases by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from isotone.core.choice import Choice
from isotone.corel.configuration import changed, decode_rule
from isotone.corel.growth import may_order as servers_may_order
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message, Origin
from isotone.corel.quorum import DynamicVoting, History, Majority, Primary, Rule, merged
from isotone.corel.records import Founded, Received
from isotone.sim.corel_rules import KINDS, draw_quorum, may_order

ABCDE = ("a", "b", "c", "d", "e")
ABC = ABCDE[:3]


def ledger(rule: Rule, servers: tuple[str, ...] = ABCDE, history: History | None = None) -> Ledger:
    """Of a log that has begun."""
    found = Ledger.founded(servers, rule)
    found.apply(Founded(tuple((server, server.encode()) for server in servers)))
    found.history = history or found.history
    return found


def drawn_history(choice: Choice, primaries: list[Primary]) -> History:
    """What a server may know of these: one as the last, and some of the later ones as pending."""
    last = choice.below(len(primaries))
    return History(primaries[last], tuple(each for each in primaries[last + 1 :] if choice.chance(0.5)))


def test_it_agrees_with_the_servers_about_every_set_under_every_rule() -> None:
    choice = Choice("rules")
    kinds = set()
    for _ in range(60):
        rule = draw_quorum(choice, ABCDE)
        kinds.add(type(rule))
        sets = [tuple(sorted(choice.sample(ABCDE, choice.between(1, 5)))) for _ in range(4)]
        primaries = [Primary(number, servers) for number, servers in enumerate(sets, 1)]
        told = {server: drawn_history(choice, primaries) for server in ABCDE}
        for size in range(1, 6):
            for here in combinations(ABCDE, size):
                known = {server: ledger(rule, history=told[server]) for server in here}
                theirs = servers_may_order(
                    known[here[0]].queue, frozenset(here), merged([told[server] for server in here])
                )
                assert may_order(known) == theirs, (rule, here, told)
    assert len(kinds) == len(KINDS)


@pytest.mark.parametrize(
    ("rule", "here", "expected"),
    [
        (Majority(ABCDE), "abc", True),
        (Majority(ABCDE), "ab", False),
        (DynamicVoting(1), "ab", True),  # of the last primary, which was a, b and c
        (DynamicVoting(3), "ab", False),
        (DynamicVoting(1), "ade", False),
    ],
)
def test_by_hand(rule: Rule, here: str, expected: bool) -> None:
    assert may_order({each: ledger(rule, history=History(Primary(1, ABC))) for each in here}) is expected


def test_whoever_must_catch_up_does_not_count_and_a_log_must_have_begun() -> None:
    known = {each: ledger(Majority(ABC), ABC) for each in "ab"}
    assert may_order(known)
    known["b"].ready = False
    assert not may_order(known)
    assert not may_order({each: Ledger.founded(ABC, Majority(ABC)) for each in ABC})
    assert not may_order({})


def test_a_reconfiguration_that_one_of_them_has_counts_too() -> None:
    known = {each: ledger(Majority(ABC), ABC) for each in "ab"}
    change = changed(known["a"].queue.configuration, add="d", identity=b"d")
    assert isinstance(decode_rule(change.rule), Majority)
    message = Message(Origin("a", 1), 1, 1, (), change=change)
    known["b"].apply(Received((message,), False))
    assert not may_order(known), "two of four"
    known["d"] = ledger(Majority(ABC), ABC)
    assert may_order(known)
