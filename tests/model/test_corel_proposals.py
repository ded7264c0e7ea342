"""Order proposals explored to the end, small: numbers of reachable states are pinned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isotone.corel import proposal
from isotone.corel.proposal import Level, Proposal, Vote
from isotone.corel.queue import MessageQueue
from tests.model import corel_proposal_model
from tests.model.corel_proposal_model import ProposalModel, ahead, lagging


@pytest.fixture(autouse=True)
def nothing_said_yet() -> Iterator[None]:
    """What other rules made servers say counts for nothing here."""
    yield
    for said in (corel_proposal_model.vote, corel_proposal_model.stands):
        said.cache_clear()


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


def test_what_a_later_primary_overtook_must_not_be_ordered_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why [COReL 7.1.1] lets only those accept who know of no later primary."""
    accepted, stood = proposal.vote_on, proposal.stands

    def vote_on(made: Proposal, queue: MessageQueue, level: Level) -> Vote:
        return accepted(made, queue, min(level, made.level))

    def stands(made: Proposal, queue: MessageQueue, level: Level) -> bool:
        return stood(made, queue, min(level, made.level))

    monkeypatch.setattr(proposal, "vote_on", vote_on)
    monkeypatch.setattr(proposal, "stands", stands)
    try:
        _, wrong = ProposalModel(2, 1).explore()
    except AssertionError as error:
        wrong = str(error)
    assert wrong


def test_a_server_may_vote_as_late_as_it_likes() -> None:
    assert ProposalModel(2, 1, lazy=True).explore() == (20_218, "")


def test_who_has_not_voted_when_it_attempts_a_primary_must_reject() -> None:
    """Why [COReL 7.1.4] has each vote before its attempt: what others committed to without its word, it may accept."""
    _, wrong = ProposalModel(1, 1, lazy=True, decides=False).explore()
    assert "was green elsewhere" in wrong


def test_one_that_lags_and_is_not_asked_changes_nothing() -> None:
    """A learner, or a removed server, that has less yellow than the servers: it makes their yellow lines retreat."""
    assert ProposalModel(2, 1, cuts=False).explore(lagging) == (52_652, "")


def test_what_was_accepted_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(made: Proposal, queue: MessageQueue, level: Level) -> bool:
        return proposal.vote_on(made, queue, level) is Vote.ACCEPT

    monkeypatch.setattr(proposal, "stands", again)
    _, wrong = ProposalModel(2, 1, cuts=False).explore(lagging)
    assert "was green elsewhere" in wrong


def test_who_is_no_server_must_not_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vote is one too many: its rejection would stand against what all servers accepted."""
    monkeypatch.setattr(proposal, "is_asked", lambda *_: True)
    _, wrong = ProposalModel(2, 1, cuts=False).explore(lagging)
    assert "was green elsewhere" in wrong


def test_one_that_alone_knows_what_is_green_and_is_not_asked_changes_nothing() -> None:
    assert ProposalModel(2, 1, cuts=False).explore(ahead) == (10_743, "")


def test_all_that_is_yellow_must_be_proposed() -> None:
    """What is not proposed is red at whoever applies, and may be green where nobody is asked."""
    with pytest.raises(AssertionError, match="lacks what is green"):
        ProposalModel(2, 1, cuts=False, covers=False).explore(ahead)
