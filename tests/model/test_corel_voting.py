"""Dynamic voting explored to the end, small: numbers of reachable states are pinned."""

from __future__ import annotations

import msgspec
import pytest

from isotone.corel import quorum
from isotone.corel.quorum import DynamicVoting, History, Majority, Primary, Quorum, TieBreaker
from tests.model.corel_voting_model import VotingModel


@pytest.mark.parametrize(
    ("names", "rule", "number_max", "states"),
    [
        ("abc", Majority(tuple("abc")), 2, 3_059),
        ("abc", DynamicVoting(1), 3, 53_782),
        ("abc", DynamicVoting(2), 2, 2_675),
        ("abcd", TieBreaker(tuple("abcd"), "b"), 1, 815),
    ],
    ids=["majority of 3", "dynamic of 3", "dynamic of 3, at least 2", "tie-breaker of 4"],
)
def test_primaries_are_one_chain(names: str, rule: Quorum, number_max: int, states: int) -> None:
    assert VotingModel(names, rule, number_max).explore() == (states, "")


def test_without_pending_primaries_the_chain_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why [COReL 7.2.2] keeps Pending_Committed."""
    monkeypatch.setattr(History, "committed", lambda history, primary: history)
    _, wrong = VotingModel("abc", DynamicVoting(1), 3).explore()
    assert "primary" in wrong


def test_half_without_a_tie_breaker_breaks_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why floor(n/2) of [COReL 7.2] is no majority."""

    def half(previous: tuple[str, ...], members: frozenset[str]) -> bool:
        return 2 * sum(each in members for each in previous) >= len(previous)

    monkeypatch.setattr(quorum, "is_sub_quorum", half)
    _, wrong = VotingModel("ab", DynamicVoting(1), 2).explore()
    assert wrong


def test_a_pending_primary_that_was_passed_by_is_dropped() -> None:
    one, two, three = Primary(1, ("a", "b")), Primary(2, ("b", "c")), Primary(3, ("b",))
    history = History(Primary(0, ("a", "b", "c")), (one, two))
    assert history.established(one) == History(one, (two,))
    assert quorum.merged([history, History(three)]) == History(three)
    assert quorum.merged([history, History(one)]) == History(one, (two,))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(history), type=History) == history
