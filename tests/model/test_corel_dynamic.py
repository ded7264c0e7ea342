"""Dynamic voting while servers are removed, explored to the end: numbers of reachable states are pinned."""

from __future__ import annotations

import pytest

from isotone.corel.configuration import Configuration
from isotone.corel.quorum import DynamicVoting, History, Primary
from tests.model.corel_dynamic_model import DynamicModel, Members


@pytest.mark.parametrize(("number_max", "removals", "states"), [(1, 1, 1_392), (2, 2, 52_055)])
def test_primaries_are_one_chain_and_somebody_can_go_on(number_max: int, removals: int, states: int) -> None:
    model = DynamicModel("abc", DynamicVoting(1), number_max=number_max, removals=removals)
    assert model.explore() == (states, "")


def test_if_a_primary_of_removed_servers_alone_is_asked_all_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal of a is known, and a has gone on alone without it: who stays is no part of that primary."""
    monkeypatch.setattr(Configuration, "would_hold", Configuration.holds)
    _, wrong = DynamicModel("abc", DynamicVoting(1), number_max=2, removals=1).explore()
    assert "abc stand still for ever" in wrong


def test_if_the_coming_configuration_alone_is_asked_the_chain_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the green one asks too: it is the one that meets a primary of which nobody stays."""

    def may_order(model: DynamicModel, members: Members, history: History, green: int, end: int) -> bool:
        servers = frozenset(model.names[each] for each in members)
        return model.configurations[end].would_hold(servers, history)

    monkeypatch.setattr(DynamicModel, "_may_order", may_order)
    _, wrong = DynamicModel("abc", DynamicVoting(1), number_max=2, removals=1).explore()
    assert "primary" in wrong


@pytest.mark.parametrize(("number_max", "removals", "states"), [(2, 0, 3_858), (2, 1, 11_356)])
def test_restored_servers_are_one_chain(number_max: int, removals: int, states: int) -> None:
    """They have met, and never were a primary together."""
    before = History(Primary(0, ("a", "b", "c")))
    model = DynamicModel("abc", DynamicVoting(1), number_max=number_max, removals=removals, before=before)
    assert model.explore() == (states, "")


def test_if_nobody_answers_for_the_old_names_there_are_two_primaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old names behind a restore, if a green configuration does not ask for a primary of which nobody stays."""

    def may_order(model: DynamicModel, members: Members, history: History, green: int, end: int) -> bool:
        servers = frozenset(model.names[each] for each in members)
        return all(each.would_hold(servers, history) for each in model.configurations[green : end + 1])

    monkeypatch.setattr(DynamicModel, "_may_order", may_order)
    before = History(Primary(0, ("x", "y", "z")))
    _, wrong = DynamicModel("abc", DynamicVoting(1), number_max=2, removals=0, before=before).explore()
    assert "are both primary" in wrong
