"""Quorum rules: who may be a primary component, and which rules are refused."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.corel.quorum import (
    AllOf,
    AnyOf,
    DynamicVoting,
    History,
    Majority,
    Monarch,
    Primary,
    Quorum,
    TieBreaker,
    Weighted,
    check_quorum,
)

FOUR = ("a", "b", "c", "d")
NOTHING = History(Primary(0, FOUR))


def quorums(rule: Quorum, history: History = NOTHING) -> set[str]:
    """The smallest sets that are quorums."""
    sets = chain.from_iterable(combinations(FOUR, size) for size in range(5))
    found = [frozenset(each) for each in sets if rule.holds(frozenset(each), history)]
    return {"".join(sorted(each)) for each in found if not any(other < each for other in found)}


def test_static_rules() -> None:
    assert quorums(Majority(FOUR)) == {"abc", "abd", "acd", "bcd"}
    assert quorums(Weighted({"a": 3, "b": 1, "c": 1})) == {"a"}
    assert quorums(Weighted({"a": 2, "b": 1, "c": 1})) == {"ab", "ac"}
    assert quorums(TieBreaker(FOUR, "d")) == {"abc", "ad", "bd", "cd"}
    assert quorums(Monarch("b")) == {"b"}
    assert quorums(AllOf((Majority(FOUR), Monarch("b")))) == {"abc", "abd", "bcd"}
    assert quorums(AnyOf((Majority(FOUR), TieBreaker(FOUR, "a")))) == {"ab", "ac", "ad", "bcd"}


def test_half_is_no_majority() -> None:
    assert not Majority(FOUR).holds(frozenset("ab"), NOTHING)


def test_dynamic_voting_follows_the_last_primary() -> None:
    rule = DynamicVoting(1)
    assert quorums(rule) == {"ab", "ac", "ad", "bcd"}
    assert quorums(rule, History(Primary(3, ("b", "c", "d")))) == {"bc", "bd", "cd"}
    assert quorums(rule, History(Primary(4, ("c", "d")))) == {"c"}


def test_dynamic_voting_asks_every_pending_primary() -> None:
    history = History(Primary(3, ("b", "c", "d")), (Primary(4, ("c", "d")),))
    assert quorums(DynamicVoting(1), history) == {"bc", "cd"}


def test_dynamic_voting_has_a_minimum() -> None:
    assert quorums(DynamicVoting(3), History(Primary(4, ("c", "d")))) == {"abc", "acd", "bcd"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (AnyOf((Majority(FOUR), Monarch("a"))), "both a and b, c, d"),
        (AnyOf((Monarch("a"), Monarch("b"))), "both a and b, c, d"),
        (AnyOf((TieBreaker(FOUR, "a"), TieBreaker(FOUR, "b"))), "would be quorums"),
        (AnyOf((Majority(FOUR), AllOf((DynamicVoting(1), Monarch("a"))))), "never one of several"),
        (AllOf((Majority(("x", "y")), Majority(FOUR))), "not even all servers"),
        (Weighted({"a": -1, "b": 3}), "below 0"),
    ],
)
def test_a_rule_with_disjoint_quorums_or_none_is_refused(rule: Quorum, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        check_quorum(rule, FOUR)


@pytest.mark.parametrize(
    "rule",
    [
        Majority(FOUR),
        TieBreaker(FOUR, "c"),
        Monarch("d"),
        Weighted({"a": 1, "b": 1, "c": 1, "d": 0}),
        DynamicVoting(2),
        AllOf((Majority(FOUR), DynamicVoting(1))),
        AllOf((Monarch("a"), Monarch("b"))),
    ],
)
def test_sound_rules_pass(rule: Quorum) -> None:
    check_quorum(rule, FOUR)
    assert rule.describe()


def test_what_dynamic_voting_says_is_what_it_asks() -> None:
    """Half with the first server is enough, of the last primary and of each one pending."""
    rule = DynamicVoting(2)
    said = "more than half, or half with its first server, of the last primary and of each one pending since"
    assert rule.describe() == f"{said}, and at least 2 servers" and DynamicVoting(1).describe() == said
    history = History(Primary(3, FOUR), (Primary(4, ("c", "d")),))
    assert rule.holds(frozenset("ac"), history), "half with a of the last, half with c of the pending one"
    assert not rule.holds(frozenset("ad"), history) and not rule.holds(frozenset("bc"), history)
    assert not rule.holds(frozenset("c"), History(Primary(4, ("c", "d")))), "one server is less than two"
