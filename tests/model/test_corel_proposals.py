"""Order proposals explored to the end, small: numbers of reachable states are pinned."""

from __future__ import annotations

import pytest

from isotone.corel import proposal
from isotone.corel.proposal import Proposal, Vote
from isotone.corel.queue import MessageQueue
from tests.model import corel_proposal_model
from tests.model.corel_proposal_model import ProposalModel


@pytest.mark.parametrize(
    ("number_max", "proposals_max", "states"),
    [(1, 1, 2_691), (2, 1, 11_640), (1, 2, 6_223)],
    ids=["one primary", "two primaries", "two proposals"],
)
def test_there_is_one_green_order(number_max: int, proposals_max: int, states: int) -> None:
    assert ProposalModel(number_max, proposals_max).explore() == (states, "")


def test_a_primary_that_does_not_ask_for_votes_orders_otherwise() -> None:
    """Why [COReL 7.1.4] has each member vote before its attempt."""
    _, wrong = ProposalModel(2, 1, asks=False).explore()
    assert "was green elsewhere" in wrong


def test_a_source_that_does_not_wait_for_the_outcome_annuls_what_was_applied() -> None:
    """Why [COReL 7.1.1] has the source wait."""
    _, wrong = ProposalModel(1, 2, waits=False).explore()
    assert "was green elsewhere" in wrong


def test_who_knows_of_a_later_primary_must_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why [COReL 7.1.1] lets only those accept who know of no later primary."""
    sound = proposal.vote_on

    def gullible(made: Proposal, queue: MessageQueue, committed: int) -> Vote:
        return sound(made, queue, min(committed, made.committed))

    corel_proposal_model.vote.cache_clear()
    monkeypatch.setattr(proposal, "vote_on", gullible)
    try:
        _, wrong = ProposalModel(2, 1).explore()
    except AssertionError as error:
        wrong = str(error)
    corel_proposal_model.vote.cache_clear()
    assert wrong
