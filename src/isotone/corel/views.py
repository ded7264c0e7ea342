"""The handler of views: states, recovery, and the establishing of a primary component.

Implements: [COReL 5.6], [COReL Figure 1]. Deviations: D-always, D-round, D-signal after the transitional signal of a
view nothing becomes green until the next primary component is established; see docs/protocols/corel.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isotone.core.contract import Action, Record, Stop
from isotone.core.errors import RemoteProtocolError
from isotone.core.views import GroupView
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.establishing import Establishing
from isotone.corel.events import DeliverRed, Standing, StandingChanged
from isotone.corel.exchange import Plan, plan_of
from isotone.corel.growth import may_order
from isotone.corel.identities import founding, known_identities
from isotone.corel.learning import Learner
from isotone.corel.promises import known_servers, state_of
from isotone.corel.proposals import Proposals
from isotone.corel.quorum import Primary
from isotone.corel.recovery import Recovery
from isotone.corel.regular import RegularFlow
from isotone.corel.rounds import Outcome, Round
from isotone.corel.versions import differing
from isotone.corel.wire import Acknowledged, Attempt, Commit, Priority, Proposing, Regular, Retransmitted, State
from isotone.trace import corel as trace

FENCED = "an operator forced a primary component without this server: remove its data and add it under a new name"
BEFORE_THE_FENCE = (
    "this server is one of those that go on behind fence {fence}, and its log is not from there: "
    "restore it from the same copy with --fence {fence}; or, after a recovery, recover again with the same survivors"
)
STRANGER = (
    "this is not the log that the others know under this name: its disk was lost, or it was given another directory. "
    "It never counts: remove this server, and add one with a new name; without a primary component, recover first"
)
SET_BACK = (
    "its log has less than it promised: its disk lost what was acknowledged, or is an older copy. "
    "It does not count: remove this server, and add one with a new name; without a primary component, recover first"
)
NOT_BEGUN = "a log begins when all its servers have met once"


@dataclass
class Views:
    """Where a server stands in its view."""

    flow: RegularFlow
    learner: Learner
    proposals: Proposals
    standing: Standing = Standing.DETACHED
    round: Round | None = None  # none where states are exchanged no more; whoever has one follows it, however it stands
    plan: Plan | None = None
    recovery: Recovery | None = None
    establishing: Establishing | None = None

    def __post_init__(self) -> None:
        self.settings, self.journal, self.session = self.flow.settings, self.flow.journal, self.flow.session
        self.ledger, self.greens = self.journal.ledger, self.flow.greens

    def enter(self, standing: Standing, reason: str) -> list[Action]:
        """Stand there now, and say so."""
        self.standing = standing
        strange = [f"{each} is here without its log, and does not count" for each in self.other_strangers()]
        strange += [f"{each} has less than it promised, and does not count" for each in self.others_set_back()]
        reasons = "; ".join([reason, *self.session.differences(), *strange])
        return [StandingChanged(standing, self.flow.is_primary, self.session.servers, reasons)]

    def other_strangers(self) -> list[str]:
        """Who else is here without the log that its name stands for."""
        return [each for each in (self.round.strangers if self.round else ()) if each != self.settings.server]

    def others_set_back(self) -> list[str]:
        """Who else is here with less than it promised."""
        return [each for each in (self.round.set_back if self.round else ()) if each != self.settings.server]

    def leave(self) -> list[Action]:
        """No view any more: what was begun in it is broken off, and none of its effects undone [COReL 5.6]."""
        self.flow.end()
        told = self._break_off()
        self.round = self.plan = self.establishing = None
        return [*told, *self.learner.end()]

    def _break_off(self) -> list[Action]:
        """What a recovery took that was under way stays, and is told."""
        recovery, self.recovery = self.recovery, None
        return [telling.arranged(self.settings.server, self.ledger)] if recovery is not None else []

    def on_signal(self) -> list[Action]:
        """The view is in transition."""
        actions = [*self.flow.write_all(), *self._break_off(), *self.learner.end()]
        self.flow.signal()
        self.round = self.establishing = None
        return [*actions, *self.enter(Standing.WAITING, "the view is in transition")]

    # --- states ----------------------------------------------------------------------------------------------------

    def on_view(self, view: GroupView) -> list[Action]:
        """Step 1 of the recovery: everybody says what it has."""
        actions = [*self.leave(), *self.flow.write_all()]
        self.session.enter_view(view, known_servers(self.ledger))
        if self.session.doubled:
            doubled = ", ".join(self.session.doubled)
            return [*actions, *self.enter(Standing.WAITING, f"an old session is still there: {doubled}")]
        self.round = Round(self.session.present)
        return [*actions, *self.enter(Standing.EXCHANGE, "a new view"), self.say_state()]

    def _again(self, newcomer: str) -> list[Action]:
        """Step 1 in the same view, since somebody more can take part now: all wait for it this time."""
        assert self.round is not None
        invited = self.round.invited | {newcomer}
        actions = [*self.leave(), *self.flow.write_all()]
        return [*actions, *self._next_round(invited, "another server can take part")]

    def _next_round(self, invited: frozenset[str], reason: str) -> list[Action]:
        self.session.enter_round()
        self.round = Round(self.session.present, invited)
        return [*self.enter(Standing.EXCHANGE, reason), self.say_state()]

    def say_state(self) -> Action:
        """What this server has."""
        self.greens.stand_behind(self.ledger.fence)
        state = state_of(self.settings.server, self.ledger, self.greens.places, self.session.view)
        return self.session.send(state)

    def identity_of(self, server: str) -> bytes:
        """The log of one that takes part in the view."""
        assert self.plan is not None
        return self.plan.states[server].identity

    def on_message(self, server: str, message: object) -> list[Action]:
        """A message of this view and round."""
        match message:
            case Regular():
                return [*self.flow.on_regular(server, message), *self.proposals.propose_soon()]
            case Acknowledged():
                return self.flow.on_acknowledged(server, message) if self.flow.sending else []
            case State() if self.round is not None:
                return self._on_state(server, message)
            case Priority() if self.standing is Standing.PRIORITY:
                return self._recover(lambda recovery: recovery.on_priority(server, message))
            case Retransmitted() if self.standing is Standing.RETRANSMIT:
                return self._recover(lambda recovery: recovery.on_retransmitted(server, message))
            case Attempt() if self.standing is Standing.ATTEMPT:
                return self._on_attempt(server, message)
            case Proposing(proposal=proposal):
                return self.proposals.on_proposing(proposal)
            case Commit(number=number) if self.standing is Standing.COMMIT:
                return self._on_commit(server, number)
        if self.standing in {Standing.WAITING, Standing.LEARNING, Standing.FENCED, Standing.STRANGER}:
            return []
        raise RemoteProtocolError(f"{server} sent {type(message).__name__} while {self.standing.value}")

    def _on_state(self, server: str, state: State) -> list[Action]:
        """Step 2: wait for all, then everybody makes the same plan."""
        assert self.round is not None
        outcome = self.round.take(server, state)
        if outcome is Outcome.AGAIN:
            return self._again(server)
        if outcome is Outcome.WAIT:
            return self._stand_aside() if self.round.is_complete and server == self.settings.server else []
        return self._on_complete()

    def on_foreign(self, server: str, version: int) -> list[Action]:
        """It speaks another version. Who speaks ours hears that at the same place, and goes on without it as we do."""
        if self.round is None:
            return []
        if server in self.round.states:
            raise RemoteProtocolError(differing(server, version, self.session.speaks))
        self.session.dismiss(server, version)
        return self._go_without(server)

    def _go_without(self, server: str) -> list[Action]:
        """It said no state, and is not waited for."""
        assert self.round is not None
        outcome = self.round.dismiss(server)
        told = self.enter(self.standing, f"without {server}")
        return [*told, *self._on_complete()] if outcome is Outcome.COMPLETE else told

    def on_nonsense(self, server: str, error: RemoteProtocolError) -> list[Action]:
        """Nobody understands it. All hear that at the same place, and go on as if it were not there: they do not wait
        for its state, and if it has said it, they begin anew. It hears that too, and is without them.
        """
        if self.round is None:
            raise error
        if server == self.settings.server:
            actions = [*self.leave(), *self.flow.write_all()]
            self.session.ignore(server, str(error))
            return [*actions, *self.enter(Standing.WAITING, "the others go on without it until the next view")]
        if server not in self.round.states:
            self.session.ignore(server, str(error))
            return self._go_without(server)
        invited = self.round.invited - {server}
        actions = [*self.leave(), *self.flow.write_all()]
        self.session.ignore(server, str(error))
        return [*actions, *self._next_round(invited, f"without {server}")]

    def _on_complete(self) -> list[Action]:
        """All states are there."""
        assert self.round is not None
        self._take_greens(self.round)
        parts = self.session.servers = self.round.parts
        if self.settings.server not in parts:
            return self._stand_aside()
        states = {part: self.round.states[part] for part in parts}
        self.plan = plan_of(states)
        self.recovery = Recovery(self.settings.server, self.session.view, self.plan, self.ledger)
        return self._recover(Recovery.begin)

    def _take_greens(self, round: Round) -> None:
        """What servers of the same log say of each other."""
        fence = self.ledger.fence
        self.greens.stand_behind(fence)
        left_out = {*round.strangers, *round.set_back, *round.apart}
        told = [each for each in round.states.values() if each.fence == fence and each.server not in left_out]
        configurations = [each.configuration for each in told if each.configuration is not None]
        logs = {known for each in configurations for known in each.identities}
        for each in told:
            own = ((each.server, each.green),) if (each.server, each.identity) in logs else ()
            for about, place in (*own, *(known for known in each.greens if known[0] != each.server)):
                self.greens.take(about, place)

    def _stand_aside(self) -> list[Action]:
        """The others go on; this server catches up, if it can."""
        assert self.round is not None
        if self.settings.server not in self.round.states:
            return self.enter(Standing.LEARNING, "the others went ahead")  # they begin again when they have its state
        if self.settings.server in self.round.strangers:
            return self.enter(Standing.STRANGER, STRANGER)
        if reason := self.round.apart.get(self.settings.server):
            return self.enter(Standing.WAITING, reason)
        if self.settings.server in self.round.set_back:
            return [*self._note_set_back(), *self.enter(Standing.WAITING, SET_BACK)]
        if (self.ledger.ready or self.ledger.queue.green) and self.ledger.fence < self.round.fence:
            return self.enter(Standing.FENCED, self.why_fenced())
        is_late = self.settings.server in self.round.late
        reason = "the others do not wait until it has what it lacks" if is_late else "it must catch up first"
        ahead = self.round.helpers(self.settings.server) if is_late else ()
        return [*self.enter(Standing.LEARNING, reason), *self.learner.begin(ahead=ahead)]

    def _note_set_back(self) -> list[Action]:
        """Others may not be able to tell, where it comes next."""
        if self.ledger.set_back:
            return []
        self.journal.write(r.SetBack())
        return self.flow.write_all()

    def why_fenced(self) -> str:
        """What to do with a server that does not know of the last fence."""
        if self.round is None or self.settings.server not in self.round.servers:
            return FENCED
        return BEFORE_THE_FENCE.format(fence=self.round.fence)

    def on_caught_up(self) -> list[Action]:
        """It can take part now: its state makes all begin another round. Whose log is which it knows from theirs."""
        assert self.round is not None
        configuration = self.ledger.queue.configuration
        if not configuration.identities and self.ledger.fence == self.round.fence:
            parts = [self.round.states[part] for part in self.round.parts]
            if identities := known_identities(configuration, parts):
                self.journal.write(r.Founded(identities))
        return [*self.learner.end(), *self.flow.write_all(), self.say_state()]

    # --- recovery --------------------------------------------------------------------------------------------------

    def _recover(self, step: Callable[[Recovery], None]) -> list[Action]:
        """Steps 3 to 7: let the recovery take a step, write what it changed, send what it wants sent."""
        recovery, queue, server = self.recovery, self.ledger.queue, self.settings.server
        assert recovery is not None
        before, records_before, was_arranged = queue.green, queue.green_records, recovery.is_arranged
        step(recovery)
        told: list[Action] = [DeliverRed(tuple(recovery.new))] if recovery.new else []
        if recovery.is_arranged and (recovery.done or not was_arranged):
            told.append(telling.arranged(server, self.ledger))
            told += telling.greened(server, self.ledger, before, records_before, proposal=recovery.plan.by_proposal)
        for record in recovery.writes:
            self.journal.gather(record)
        sends = [self.session.send(message) for message in recovery.sends]
        recovery.writes, recovery.sends, recovery.new = [], [], []
        actions = [*self.flow.write_all(), *told, *sends]
        if recovery.done:
            return [*actions, *self._on_recovered()]
        standing = Standing.RETRANSMIT if recovery.is_arranged else Standing.PRIORITY
        return actions if standing is self.standing else [*actions, *self.enter(standing, "recovering")]

    def _on_recovered(self) -> list[Action]:
        """All members have the same queue [COReL Claim 10]: establish a primary component, or go on without."""
        plan, queue, server = self.plan, self.ledger.queue, self.settings.server
        assert plan is not None
        self.recovery = None
        if self.flow.has_lived_before:
            return [*self._note_set_back(), Stop(f"others have messages of this life that it never sent: {SET_BACK}")]
        members = self.session.servers
        begun: list[Action] = []
        if not queue.configuration.identities:
            identities = founding(queue.configuration, plan.states)
            if not identities:
                return self.enter(Standing.WAITING, NOT_BEGUN)
            self.journal.write(r.Founded(identities))
            begun = self.flow.write_all()
        proposed = [*begun, *self._learn_proposals(plan)]
        if not may_order(queue, frozenset(members), plan.history):
            actions = [*proposed, *self.flow.begin(members, primary=False)]
            actions += [*self.proposals.consider(), *self.proposals.propose_soon()]
            return [*actions, *self.enter(Standing.REGULAR, f"no quorum: {queue.configuration.describe()}")]
        primary = Primary(plan.attempt, members)
        self.establishing = Establishing(primary)
        self.journal.write(r.Attempted(primary.number), Record(trace.PrimaryAttempted(server, primary.number, members)))
        proposed += self.proposals.consider(attempting=True)
        attempt = self.session.send(Attempt(self.session.view, primary.number, self.proposals.agrees()))
        return [*proposed, *self.flow.write_all(), attempt, *self.enter(Standing.ATTEMPT, "a quorum")]

    def _learn_proposals(self, plan: Plan) -> list[Action]:
        """All members know the same of the last proposal, and have the same queue: those who did not vote, vote now."""
        return [action for state in plan.states.values() for action in self.proposals.learn(state.proposal)]

    # --- establishing ----------------------------------------------------------------------------------------------

    def _on_attempt(self, server: str, attempt: Attempt) -> list[Action]:
        establishing, number = self.establishing, attempt.number
        assert establishing is not None
        if not establishing.on_attempt(server, number, accepts=attempt.accepts):
            return []
        members = establishing.primary.servers
        proposal = self.ledger.proposal if establishing.all_accept else None
        before, told = self.ledger.committed, []
        self.journal.write(r.Committed(establishing.primary, proposal))
        if proposal is not None:
            told.append(telling.arranged(self.settings.server, self.ledger, committed=before))
        told.append(Record(trace.PrimaryCommitted(self.settings.server, number, members)))
        commit = self.session.send(Commit(self.session.view, number))
        return [*self.flow.write_all(), *told, commit, *self.enter(Standing.COMMIT, "all attempted")]

    def _on_commit(self, server: str, number: int) -> list[Action]:
        establishing, queue = self.establishing, self.ledger.queue
        assert establishing is not None
        if not establishing.on_commit(server, number):
            return []
        before, records_before = queue.green, queue.green_records
        self.journal.write(r.Established(establishing.primary))
        members = establishing.primary.servers
        told: list[Action] = [Record(trace.PrimaryEstablished(self.settings.server, number, members))]
        told += telling.greened(self.settings.server, self.ledger, before, records_before)
        self.establishing = None
        actions = [*told, *self.flow.begin(members, primary=True)]
        return [*actions, *self.enter(Standing.REGULAR, "the primary component is established")]
