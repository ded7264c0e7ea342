"""Order proposals: total order without a primary component, once every server has agreed to one order of some messages.

The source proposes, votes travel with states and by themselves, and whoever knows that all accepted marks the messages
green. A primary component that is established meanwhile asks its members first: if all accept, it orders as proposed.

Implements: [COReL 7.1]. Deviations: D-proposal, see docs/protocols/corel-proposals.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.core.contract import Action, Record, SetTimer
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.message import Origin
from isotone.corel.proposal import (
    PROPOSED_MAX,
    YELLOW_MAX,
    Level,
    Proposal,
    Vote,
    is_asked,
    merged_proposal,
    stands,
    vote_on,
)
from isotone.corel.regular import RegularFlow
from isotone.corel.wire import Proposing
from isotone.trace import corel as trace

PROPOSE = "propose"
PROPOSE_US = 20_000


@dataclass
class Proposals:
    """Of one server."""

    flow: RegularFlow
    _armed: bool = False

    def __post_init__(self) -> None:
        self.settings, self.session, self.journal = self.flow.settings, self.flow.session, self.flow.journal
        self.ledger = self.journal.ledger

    @property
    def is_source(self) -> bool:
        """The first server by name is the one that proposes."""
        return min(self.ledger.queue.configuration.servers) == self.settings.server

    @property
    def is_free(self) -> bool:
        """Whether messages flow here, and no primary component orders them."""
        return self.flow.sending and not self.flow.is_primary

    @property
    def _level(self) -> Level | None:
        """For which it vouches; none if it learned of later green messages, and not of what may be yellow with them."""
        ledger = self.ledger
        own = ledger.committed, ledger.applied
        return own if ledger.vouches and own == ledger.level else None

    # --- proposing -------------------------------------------------------------------------------------------------

    def propose_soon(self) -> list[Action]:
        """Arm the timer, if there is something to propose."""
        if self._armed or not self._may_propose() or not self._names():
            return []
        self._armed = True
        return [SetTimer(PROPOSE, PROPOSE_US)]

    def on_timer(self) -> list[Action]:
        """Propose the order in which everything that is not green stands here."""
        self._armed = False
        if not self._may_propose():
            return []
        ledger, queue, names = self.ledger, self.ledger.queue, self._names()
        if not names:
            return []
        proposal = Proposal(
            number=max(ledger.applied, ledger.proposal.number if ledger.proposal else 0) + 1,
            configuration=queue.configuration.number,
            committed=ledger.committed,
            applied=ledger.applied,
            after=queue.green,
            yellow=queue.yellow - queue.green,
            names=names,
        )
        return self._vote(proposal, self._judge(proposal))

    def _may_propose(self) -> bool:
        return self.settings.proposals and self.is_free and self.is_source and self._is_decided()

    def _is_decided(self) -> bool:
        """The next one is begun only when the source knows what became of the last."""
        last, ledger = self.ledger.proposal, self.ledger
        if last is None or last.rejected or last.committed < ledger.committed:
            return True
        return last.number <= ledger.applied or last.configuration < ledger.queue.configuration.number

    def _names(self) -> tuple[tuple[Origin, int], ...]:
        """Up to the first reconfiguration: what follows it is for other servers to decide. All that is yellow, or none:

        it may be green where nobody is asked, and whoever applies has red what is not proposed.
        """
        names = []
        queue = self.ledger.queue
        yellow = queue.yellow - queue.green
        for message in queue.between(queue.green, min(queue.end, queue.green + max(PROPOSED_MAX, yellow))):
            if message.change is not None:
                break
            names.append(message.name)
        return tuple(names) if yellow <= min(len(names), YELLOW_MAX) else ()

    # --- voting ----------------------------------------------------------------------------------------------------

    def learn(self, told: Proposal | None) -> list[Action]:
        """What somebody says of a proposal: write down what is new."""
        ledger, known = self.ledger, self.ledger.proposal
        merged = merged_proposal(known, told)
        if merged is None or merged == known:
            return []
        actions: list[Action] = []
        if known is not None and merged.number > known.number and merged.applied == known.number > ledger.applied:
            actions = self._apply(known)  # that there is a later one says what became of it
        self.journal.write(r.Proposed(merged))
        return actions

    def consider(self, *, attempting: bool = False) -> list[Action]:
        """Vote if that was not done and can be done; apply what all accepted. Where messages flow, or in a recovery.

        Who attempts a primary component votes before that, or rejects for good [COReL 7.1.4]: others may commit to it,
        and order without its word; if it accepted later, all would have accepted what they did not order.
        """
        proposal, server = self.ledger.proposal, self.settings.server
        if proposal is None:
            return []
        if not self._is_asked(proposal) or server in (*proposal.accepted, *proposal.rejected):
            return self._apply_if_accepted()
        vote = self._judge(proposal)
        return self._vote(proposal, Vote.REJECT if attempting and vote is Vote.LATER else vote)

    def _is_asked(self, proposal: Proposal) -> bool:
        return is_asked(self.settings.server, proposal, self.ledger.queue.configuration)

    def _judge(self, proposal: Proposal) -> Vote:
        level = self._level
        if level is None or not self.settings.proposals:
            return Vote.LATER
        return vote_on(proposal, self.ledger.queue, level)

    def _vote(self, proposal: Proposal, vote: Vote) -> list[Action]:
        if vote is Vote.LATER:
            return []
        server = self.settings.server
        accepts = vote is Vote.ACCEPT
        voted = proposal.with_votes((server,), ()) if accepts else proposal.with_votes((), (server,))
        entry = trace.Voted(server, proposal.number, accepts)
        self.journal.write(r.Proposed(voted), Record(entry))
        actions = self.flow.write_all()
        if self.is_free:
            actions.append(self.session.send(Proposing(self.session.view, voted)))
        return [*actions, *self._apply_if_accepted()]

    def on_proposing(self, told: Proposal) -> list[Action]:
        """A member of the view says its vote, and all that it knows of others."""
        if not self.is_free:
            return []
        return [*self.learn(told), *self.consider(), *self.flow.write_all(), *self.propose_soon()]

    # --- what becomes of it ----------------------------------------------------------------------------------------

    def _apply_if_accepted(self) -> list[Action]:
        proposal, queue = self.ledger.proposal, self.ledger.queue
        if proposal is None or not self.is_free:
            return []
        servers = queue.configuration.servers
        return self._apply(proposal) if proposal.is_accepted(servers) else []

    def _apply(self, proposal: Proposal) -> list[Action]:
        """All accepted: green, in the proposed order [COReL 7.1.3, 2]."""
        ledger, queue, server = self.ledger, self.ledger.queue, self.settings.server
        if not self._stands(proposal):
            return []  # it is known in another way already, or not everything is here yet
        before, records_before = queue.green, queue.green_records
        self.journal.write(r.Applied(proposal))
        told = telling.greened(server, ledger, before, records_before, proposal=proposal.number)
        return [*self.flow.write_all(), telling.arranged(server, ledger), *told, *self.flow.settle_soon()]

    def _stands(self, proposal: Proposal) -> bool:
        level = self._level
        return level is not None and stands(proposal, self.ledger.queue, level)

    def agrees(self) -> bool:
        """Whether a primary orders as the last proposal says, as far as it depends on this server [COReL 7.1.4].

        It accepted, and never goes back on it; or it is not asked, and does not stand in the way of those who are.
        """
        proposal = self.ledger.proposal
        if proposal is None or not self._stands(proposal):
            return False
        return self.settings.server in proposal.accepted or not self._is_asked(proposal)
