"""One server of a replication group: its life, its session, and the composition of its parts.

Implements: [COReL 5], [COReL 3.2]. Deviations: D-view, D-growth; see docs/protocols/corel.md.
"""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.bundles import Bundle
from isotone.core.contract import (
    Action,
    Event,
    Persisted,
    PersistFailed,
    SetTimer,
    Started,
    Stop,
    Stopping,
    StoredLog,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import NO_DAEMON, DaemonId
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.decoding import decoded, named_view
from isotone.corel.events import (
    AppendsWanted,
    AppendWanted,
    DiskRoom,
    InstallSnapshot,
    ReconfigurationWanted,
    SnapshotOffered,
    Standing,
)
from isotone.corel.growth import Growth
from isotone.corel.identities import learner_life
from isotone.corel.journal import LOG, Journal
from isotone.corel.learning import PACE, PULL, Learner
from isotone.corel.ledger import Ledger
from isotone.corel.lending import Lending
from isotone.corel.message import Origin
from isotone.corel.ordering import Greens
from isotone.corel.outbox import Outbox
from isotone.corel.proposals import PROPOSE, Proposals
from isotone.corel.regular import SETTLE, RegularFlow
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
from isotone.corel.teaching import Teacher
from isotone.corel.versions import differing, version_of
from isotone.corel.views import Views
from isotone.corel.wire import CATCHING_CODEC, CODEC, Fetch

RECONNECT = "reconnect"
DISK_FULL = "disk full"


class Replica:
    """A server. Nothing of it survives but its log."""

    def __init__(self, settings: ReplicaSettings, daemon: DaemonId, identity: bytes) -> None:
        """``identity``: of the log, if it begins now; whoever begins one, ever, has another."""
        self.settings = settings.check()
        self._identity = identity
        self.ledger = Ledger.founded(settings.servers, settings.quorum)
        self.ledger.ready = settings.server in settings.servers
        self.journal = Journal(self.ledger, settings.checkpoint_records)
        self.session = Session(daemon, settings.server, settings.group)
        self.greens = Greens(dict.fromkeys(sorted(settings.servers), 0))
        self.outbox = Outbox(Origin(settings.server, 0), settings.message_bytes_max)
        self.lending = Lending(self.ledger, self.session)
        self.flow = RegularFlow(settings, self.journal, self.session, self.outbox, self.greens, self.lending)
        self.learner = Learner(settings, self.journal, self.session)
        self.proposals = Proposals(self.flow)
        self.views = Views(self.flow, self.learner, self.proposals)
        self.growth = Growth(self.ledger, self.flow, self.views.identity_of)
        self._teacher = Teacher(self.ledger, self.session, self.lending)
        self._stopping = False  # it said good-bye; what still comes in counts for nothing

    @property
    def standing(self) -> Standing:
        """Where it stands in the handling of a view."""
        return self.views.standing

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        if self._stopping and not isinstance(event, Persisted | PersistFailed):
            return []
        match event:
            case b4.Indicated(receivers=receivers, indication=indication):
                self._adopt(receivers[0], indication)
                return self._on_indication(indication) if self.session.client in receivers else []
            case Persisted(ticket=ticket):
                return [*self.journal.on_persisted(ticket), *self.flow.go_on()]
            case AppendWanted(request=request, record=record):
                return self.flow.on_appends(((request, record),))
            case AppendsWanted(appends=appends):
                return self.flow.on_appends(appends)
            case TimerFired(key=key):
                return self._on_timer(key)
            case Started(storage=storage):
                return self._on_start(storage.logs.get(LOG, StoredLog(1, ())))
            case PersistFailed(reason=reason):
                return [Stop(_disk_failed(reason))]
            case Stopping():
                return self._on_stopping()
        return self._on_wish(event)

    def _on_wish(self, event: Event) -> list[Action]:
        match event:
            case SnapshotOffered():
                return self.flow.on_snapshot(event)
            case ReconfigurationWanted():
                return self.growth.on_wanted(event)
            case DiskRoom(is_low=is_low):
                self.flow.low = is_low
                reason = "the disk is nearly full: new messages are refused" if is_low else "the disk has room again"
                return self.views.enter(self.standing, reason)
        raise AssertionError(f"a replica does not expect {event!r}")

    def awaited(self) -> tuple[str, ...]:
        """The servers whose word is still missing in an exchange or an establishment."""
        round, establishing = self.views.round, self.views.establishing
        if establishing is not None:
            told = establishing.committed if self.standing is Standing.COMMIT else establishing.attempted
            return tuple(server for server in self.session.servers if server not in told)
        if round is None or round.is_complete:
            return ()
        return tuple(server for server in self.session.servers if server not in round.states)

    # --- life ------------------------------------------------------------------------------------------------------

    def _on_start(self, log: StoredLog) -> list[Action]:
        try:
            self.ledger.restore(log)
        except LocalProtocolError as error:
            return [Stop(str(error))]
        self.journal.begin(log)
        lived = r.Lived(self.ledger.life + 1) if self.ledger.identity else self._first_life()
        self.journal.write(lived, telling.started(self.settings.server, self.ledger, lived.identity))
        self.outbox.origin = Origin(self.settings.server, self.ledger.life)
        self.greens.stand_behind(self.ledger.fence)
        self.greens.take(self.settings.server, self.ledger.queue.green)
        snapshot, found = self.ledger.snapshot, []
        if snapshot is not None:
            found = [InstallSnapshot(snapshot.head.position, snapshot.state)]
        return [*self.flow.write_all(), *found, self.session.connect()]

    def _first_life(self) -> r.Lived:
        """Of a log that is known by this identity from now on."""
        is_founder = self.settings.server in self.settings.servers
        life = self.ledger.life + 1 if is_founder or self.ledger.life else learner_life(self._identity)
        return r.Lived(life, self._identity)

    def _on_stopping(self) -> list[Action]:
        self._stopping = True
        actions = self.flow.write_all()
        if self.session.client is not None:
            actions.append(self.session.ask(b4.Disconnect()))
        return [*actions, *self.views.leave()]

    def _on_timer(self, key: object) -> list[Action]:
        if key == SETTLE:
            return [*self.flow.settle(), *self._part()]
        if key == PROPOSE:
            return self.proposals.on_timer()
        if key in {PULL, PACE}:
            return self.learner.on_timer(str(key))
        assert key == RECONNECT, f"no timer {key!r}"
        return [self.session.connect()] if self.session.client is None else []

    def _part(self) -> list[Action]:
        """Say good-bye, once it is removed, all who stay know it, and all that it had is in the order."""
        queue, outbox = self.ledger.queue, self.outbox
        known = self.flow.is_retired and self.flow.white >= queue.changed_at
        if not known or self.session.client is None or queue.green < queue.end or outbox.pending or outbox.waiting:
            return []
        farewell = [*self.flow.write_all(), self.session.ask(b4.Disconnect())]
        actions = [*farewell, *self.views.leave()]
        self.session.end()
        return [*actions, *self.views.enter(Standing.REMOVED, "a reconfiguration took it out")]

    # --- the session -----------------------------------------------------------------------------------------------

    def _adopt(self, client: object, indication: b4.Indication) -> None:
        """Over a session the daemon says who we are."""
        session = self.session
        provisional = session.client is not None and session.client.daemon == NO_DAEMON
        if provisional and isinstance(indication, b4.Connected):
            session.client = client  # type: ignore[assignment]  # receivers are clients

    def _on_indication(self, indication: b4.Indication) -> list[Action]:
        match indication:
            case b4.Message(bundle=bundle):
                return self._on_bundle(bundle)
            case b4.View(view=view) if view.group == self.settings.group:
                return self.views.on_view(view)
            case b4.Transitional(group=group) if group == self.settings.group:
                return self.views.on_signal()
            case b4.Connected():
                return [self.session.ask(b4.Join(self.settings.group))]
            case b4.Disconnected(reason=reason):
                return self._on_loss(reason)
            case b4.Refused(reason=reason):
                return [self.session.ask(b4.Disconnect()), *self._on_loss(f"refused: {reason}")]
        return []

    def _on_loss(self, reason: str) -> list[Action]:
        """The session is over; another one begins soon. What was sent and not heard is sent again then."""
        actions = [*self.views.leave(), *self.flow.write_all()]
        self.session.end()
        soon = SetTimer(RECONNECT, self.settings.reconnect_us)
        return [*actions, *self.views.enter(Standing.DETACHED, reason), soon]

    def _on_bundle(self, bundle: Bundle) -> list[Action]:
        """From a member of the view; a session may pack what was sent one by one, and one of it may be wrong.

        Then the rest counts all the same, for all who hear it: unless they are done with its sender.
        """
        take = self._on_message if self.settings.group in bundle.groups else self._on_private
        actions: list[Action] = []
        errors: list[RemoteProtocolError] = []
        for body in bundle.bodies():
            server = self.session.server_of(bundle.sender)
            if not server:
                break  # of another view, or as if it were not there, or two sessions of one server are in this one
            try:
                actions += take(server, bytes(body))
            except RemoteProtocolError as error:
                errors.append(error)
        if errors and not actions:
            raise errors[0]  # else something has happened already, and must be done
        return actions

    def _on_message(self, server: str, body: bytes) -> list[Action]:
        version = version_of(body)
        if version not in self.session.speaks:
            return self.views.on_foreign(server, version)
        try:
            message = decoded(CODEC, server, body)
        except RemoteProtocolError as error:
            in_this_view = named_view(body) in {"", self.session.view}
            return self.views.on_nonsense(server, error) if in_this_view else []
        if message.view != self.session.view:  # type: ignore[attr-defined]  # all have it
            return []
        actions = self.views.on_message(server, message)
        return [*actions, *self._part()] if self.ledger.queue.configuration.retired else actions

    def _on_private(self, server: str, body: bytes) -> list[Action]:
        """From one that catches up, or one that takes part and helps."""
        if version_of(body) not in self.session.speaks:
            raise RemoteProtocolError(differing(server, version_of(body), self.session.speaks))
        message = decoded(CATCHING_CODEC, server, body)
        if isinstance(message, Fetch):
            return self._teacher.on_fetch(self.session.client_of(server), message)
        if server not in self.session.servers:
            return []
        actions, caught_up = self.learner.on_message(server, message)
        return [*actions, *self.views.on_caught_up()] if caught_up else actions


def _disk_failed(reason: str) -> str:
    if reason.startswith(DISK_FULL):
        return f"the disk is full ({reason}): nothing is lost; make room and start again"
    return f"the disk failed: {reason}; what it holds is read again at the next start"
