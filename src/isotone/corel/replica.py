"""One server of a replication group: the handler of views, and the composition of its parts.

Implements: [COReL 5.6], [COReL Figure 1]. Deviations: D-always, D-view, D-signal after the transitional signal of a
view nothing becomes green until the next primary component is established; see docs/protocols/corel.md.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.core import boundary as b4
from isotone.core.contract import (
    Action,
    Event,
    Persisted,
    PersistFailed,
    Record,
    SetTimer,
    Started,
    Stop,
    Stopping,
    StoredLog,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import DaemonId
from isotone.core.views import GroupView
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.establishing import Establishing
from isotone.corel.events import AppendWanted, DeliverRed, Standing, StandingChanged
from isotone.corel.exchange import Plan, plan_of
from isotone.corel.journal import LOG, Journal
from isotone.corel.ledger import Ledger
from isotone.corel.message import Origin
from isotone.corel.ordering import Greens
from isotone.corel.outbox import Outbox
from isotone.corel.quorum import History, Primary
from isotone.corel.recovery import Recovery
from isotone.corel.regular import SETTLE, RegularFlow
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
from isotone.corel.wire import CODEC, Acknowledged, Attempt, Commit, Priority, Regular, Retransmitted, State
from isotone.trace import corel as trace

RECONNECT = "reconnect"


class Replica:
    """A server. Nothing of it survives but its log."""

    def __init__(self, settings: ReplicaSettings, daemon: DaemonId) -> None:
        self.settings = settings.check()
        servers = tuple(sorted(settings.servers))
        self.ledger = Ledger(History(Primary(0, servers)))
        self.journal = Journal(self.ledger, settings.checkpoint_records)
        self.session = Session(daemon, settings.server, settings.group, frozenset(servers))
        self.greens = Greens(dict.fromkeys(servers, 0))
        self.outbox = Outbox(Origin(settings.server, 0), settings.message_bytes_max)
        self.flow = RegularFlow(settings, self.journal, self.session, self.outbox, self.greens)
        self.standing = Standing.DETACHED
        self._states: dict[str, State] = {}
        self._plan: Plan | None = None
        self._recovery: Recovery | None = None
        self._establishing: Establishing | None = None
        self._stopping = False  # it said good-bye; what still comes in counts for nothing

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        if self._stopping and not isinstance(event, Persisted | PersistFailed):
            return []
        match event:
            case b4.Indicated(receivers=receivers, indication=indication):
                return self._on_indication(indication) if self.session.client in receivers else []
            case Persisted(ticket=ticket):
                return [*self.journal.on_persisted(ticket), *self.flow.go_on()]
            case AppendWanted():
                return self.flow.on_append(event)
            case TimerFired(key=key):
                return self._on_timer(key)
            case Started(storage=storage):
                return self._on_start(storage.logs.get(LOG, StoredLog(1, ())))
            case PersistFailed(reason=reason):
                return [Stop(f"the disk failed: {reason}; what it holds is read again at the next start")]
            case Stopping():
                return self._on_stopping()
        raise AssertionError(f"a replica does not expect {event!r}")

    def awaited(self) -> tuple[str, ...]:
        """The servers whose word is still missing in an exchange or an establishment."""
        told: set[str] = set(self._states)
        if self._establishing is not None:
            commits = self.standing is Standing.COMMIT
            told = self._establishing.committed if commits else self._establishing.attempted
        return tuple(server for server in self.session.servers if server not in told)

    # --- life ------------------------------------------------------------------------------------------------------

    def _on_start(self, log: StoredLog) -> list[Action]:
        try:
            self.ledger.restore(log)
        except LocalProtocolError as error:
            return [Stop(str(error))]
        self.journal.begin(log)
        self.journal.write(r.Lived(self.ledger.life + 1), telling.started(self.settings.server, self.ledger))
        self.outbox.origin = Origin(self.settings.server, self.ledger.life)
        self.greens.take(self.settings.server, self.ledger.queue.green)
        return [*self.flow.write_all(), self.session.connect()]

    def _on_stopping(self) -> list[Action]:
        self._stopping = True
        actions = self.flow.write_all()
        if self.session.client is not None:
            actions.append(self.session.ask(b4.Disconnect()))
        self._leave()
        return actions

    def _on_timer(self, key: object) -> list[Action]:
        if key == SETTLE:
            return self.flow.settle()
        assert key == RECONNECT, f"no timer {key!r}"
        return [self.session.connect()] if self.session.client is None else []

    # --- the session -----------------------------------------------------------------------------------------------

    def _on_indication(self, indication: b4.Indication) -> list[Action]:
        match indication:
            case b4.Message(bundle=bundle):
                server = self.session.server_of(bundle.sender)
                bodies = bundle.bodies() if server else []  # a session may pack what was sent one by one
                return [action for body in bodies for action in self._on_message(server, bytes(body))]
            case b4.View(view=view) if view.group == self.settings.group:
                return self._on_view(view)
            case b4.Transitional(group=group) if group == self.settings.group:
                return self._on_signal()
            case b4.Connected():
                return [self.session.ask(b4.Join(self.settings.group))]
            case b4.Disconnected(reason=reason):
                return self._on_loss(reason)
            case b4.Refused(reason=reason):
                return [self.session.ask(b4.Disconnect()), *self._on_loss(f"refused: {reason}")]
        return []

    def _on_loss(self, reason: str) -> list[Action]:
        """The session is over; another one begins soon. What was sent and not heard is sent again then."""
        self._leave()
        actions = self.flow.write_all()
        self.session.end()
        return [*actions, *self._enter(Standing.DETACHED, reason), SetTimer(RECONNECT, self.settings.reconnect_us)]

    def _leave(self) -> None:
        """No view any more: what was begun in it is broken off, and none of its effects undone [COReL 5.6]."""
        self.flow.end()
        self.ledger.clear_laid()
        self._states, self._plan, self._recovery, self._establishing = {}, None, None, None

    def _enter(self, standing: Standing, reason: str) -> list[Action]:
        self.standing = standing
        return [StandingChanged(standing, self.flow.is_primary, self.session.servers, reason)]

    # --- views -----------------------------------------------------------------------------------------------------

    def _on_signal(self) -> list[Action]:
        actions = self.flow.write_all()
        self.flow.signal()
        self._recovery = self._establishing = None
        return [*actions, *self._enter(Standing.WAITING, "the view is in transition")]

    def _on_view(self, view: GroupView) -> list[Action]:
        """Step 1 of the recovery: everybody says what it has."""
        self._leave()
        actions = self.flow.write_all()
        self.session.enter_view(view)
        if self.session.doubled:
            doubled = ", ".join(self.session.doubled)
            return [*actions, *self._enter(Standing.WAITING, f"an old session is still there: {doubled}")]
        return [*actions, *self._enter(Standing.EXCHANGE, "a new view"), self.session.send(self._state())]

    def _state(self) -> State:
        ledger, queue = self.ledger, self.ledger.queue
        return State(
            self.session.view,
            self.settings.server,
            ledger.committed,
            ledger.attempted,
            queue.green,
            queue.yellow,
            queue.open_ranges(),
            ledger.history,
            tuple(sorted(self.greens.places.items())),
        )

    def _on_message(self, server: str, body: bytes) -> list[Action]:
        message = CODEC.decode(body)
        if message.view != self.session.view:  # type: ignore[attr-defined]  # all have it
            return []
        match message:
            case Regular():
                return self.flow.on_regular(server, message)
            case Acknowledged():
                return self.flow.on_acknowledged(server, message) if self.flow.sending else []
            case State() if self.standing is Standing.EXCHANGE:
                return self._on_state(server, message)
            case Priority() if self.standing is Standing.PRIORITY:
                return self._recover(lambda recovery: recovery.on_priority(server, message))
            case Retransmitted() if self.standing is Standing.RETRANSMIT:
                return self._recover(lambda recovery: recovery.on_retransmitted(server, message))
            case Attempt(number=number) if self.standing is Standing.ATTEMPT:
                return self._on_attempt(server, number)
            case Commit(number=number) if self.standing is Standing.COMMIT:
                return self._on_commit(server, number)
        if self.standing is Standing.WAITING:
            return []
        raise RemoteProtocolError(f"{server} sent {type(message).__name__} while {self.standing.value}")

    # --- recovery --------------------------------------------------------------------------------------------------

    def _on_state(self, server: str, state: State) -> list[Action]:
        """Step 2: wait for all, then everybody makes the same plan."""
        if state.server != server or server in self._states:
            raise RemoteProtocolError(f"{server} sent the state of {state.server}")
        self._states[server] = state
        if len(self._states) < len(self.session.servers):
            return []
        for each in self._states.values():
            for about, place in (*each.greens, (each.server, each.green)):
                self.greens.take(about, place)
        self._plan = plan_of(self._states)
        self._recovery = Recovery(self.settings.server, self.session.view, self._plan, self.ledger)
        return self._recover(Recovery.begin)

    def _recover(self, step: Callable[[Recovery], None]) -> list[Action]:
        """Steps 3 to 7: let the recovery take a step, write what it changed, send what it wants sent."""
        recovery, queue = self._recovery, self.ledger.queue
        assert recovery is not None
        before, records_before, was_arranged = queue.green, queue.green_records, recovery.is_arranged
        step(recovery)
        told: list[Action] = [DeliverRed(tuple(recovery.new))] if recovery.new else []
        if recovery.is_arranged and (recovery.done or not was_arranged):
            told.append(telling.arranged(self.settings.server, self.ledger))
            told += telling.greened(self.settings.server, self.ledger, before, records_before)
        for record in recovery.writes:
            self.journal.gather(record)
        sends = [self.session.send(message) for message in recovery.sends]
        recovery.writes, recovery.sends, recovery.new = [], [], []
        actions = [*self.flow.write_all(), *told, *sends]
        if recovery.done:
            return [*actions, *self._on_recovered()]
        standing = Standing.RETRANSMIT if recovery.is_arranged else Standing.PRIORITY
        return actions if standing is self.standing else [*actions, *self._enter(standing, "recovering")]

    def _on_recovered(self) -> list[Action]:
        """All members have the same queue [COReL Claim 10]: establish a primary component, or go on without."""
        plan = self._plan
        assert plan is not None
        self._recovery = None
        members = self.session.servers
        if not self.settings.quorum.holds(frozenset(members), plan.history):
            actions = self.flow.begin(())
            return [*actions, *self._enter(Standing.REGULAR, f"no quorum: {self.settings.quorum.describe()}")]
        primary = Primary(plan.attempt, members)
        self._establishing = Establishing(primary)
        self.journal.write(
            r.Attempted(primary.number),
            Record(trace.PrimaryAttempted(self.settings.server, primary.number, members)),
        )
        attempt = self.session.send(Attempt(self.session.view, primary.number))
        return [*self.flow.write_all(), attempt, *self._enter(Standing.ATTEMPT, "a quorum")]

    # --- establishing ----------------------------------------------------------------------------------------------

    def _on_attempt(self, server: str, number: int) -> list[Action]:
        establishing = self._establishing
        assert establishing is not None
        if not establishing.on_attempt(server, number):
            return []
        members = establishing.primary.servers
        self.journal.write(
            r.Committed(establishing.primary), Record(trace.PrimaryCommitted(self.settings.server, number, members))
        )
        commit = self.session.send(Commit(self.session.view, number))
        return [*self.flow.write_all(), commit, *self._enter(Standing.COMMIT, "all attempted")]

    def _on_commit(self, server: str, number: int) -> list[Action]:
        establishing, queue = self._establishing, self.ledger.queue
        assert establishing is not None
        if not establishing.on_commit(server, number):
            return []
        before, records_before = queue.green, queue.green_records
        self.journal.write(r.Established(establishing.primary))
        members = establishing.primary.servers
        told: list[Action] = [Record(trace.PrimaryEstablished(self.settings.server, number, members))]
        told += telling.greened(self.settings.server, self.ledger, before, records_before)
        self._establishing = None
        actions = [*told, *self.flow.begin(members)]
        return [*actions, *self._enter(Standing.REGULAR, "the primary component is established")]
