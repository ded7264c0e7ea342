"""One daemon: membership, groups and the sessions of its clients, composed on this page, for simulator and daemon.

```
 streams of clients ─▶ Sessions ─ Ask ─▶ (shell) ─ Requested ─▶ Groups ─ Submit ─▶ Membership ─▶ datagrams, streams,
 streams of clients ◀─ Sessions ◀─ Indicated ─ (shell) ◀─ Indicate ─ Groups ◀─ views, signals, units ─ Membership   …
```
Every action of one layer becomes an event of the next, first come, first served, until nothing is left to pass on: so
what a layer says stays in its order, whatever the others make of it meanwhile.

Boundary B4 is the exception: what sessions ask and what groups indicate goes out and comes in again by the shell, as
with clients that live in the daemon's own process. So the shell records all clients alike, and no record depends on the
word of the stack that it judges. (As an automaton beside the stack the sessions would hear of the room late.)

Clients and daemons call at one address. The first bytes of a stream tell them apart; until then it is a newcomer of the
sessions, which bound the number and the time of those who do not say who they are.

Implements: [Spread 3.2], the daemon. Deviations: those of the layers.
"""

from __future__ import annotations

from collections import deque

import msgspec

from isotone.core.boundary import Ask, Indicated, Requested
from isotone.core.contract import (
    Action,
    Address,
    Event,
    Started,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
)
from isotone.core.ids import ClientId, DaemonId, DaemonViewId
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal, DeliverUnits
from isotone.evs.groups import ChangeInterest, Groups, GroupsSettings, StateInterest, Submit, peek
from isotone.evs.membership import Membership, MembershipSettings
from isotone.evs.ordering.stamper import Draft
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.sessions.greeting import CLIENT_MAGIC, is_greeting
from isotone.evs.sessions.notices import ClientsDismissed, GroupsHeld, RoomChanged
from isotone.evs.sessions.server import SWEEP, ServerSessions
from isotone.evs.sessions.table import DUE
from isotone.evs.transport.events import InterestStated, Submitted

StreamEvent = StreamOpened | StreamReceived | StreamWritable | StreamClosed
PASSED = frozenset({DeliverUnits, Submit, DeliverSignal, DeliverDaemonView, StateInterest, ChangeInterest, Ask})
"""Actions that lead to something in another layer; only looked up."""


class StackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the layers of one daemon; the sessions bring theirs."""

    membership: MembershipSettings = MembershipSettings()
    groups: GroupsSettings = GroupsSettings()
    pruning: bool = True
    """Content goes only to sites with members of its groups; units are then not recorded at B3."""


class Stack:
    """The automaton of one daemon's incarnation; without ``sessions`` all its clients are in its own process."""

    periodic_timers = (*Membership.periodic_timers, *ServerSessions.periodic_timers)

    def __init__(
        self,
        *,
        me: DaemonId,
        identity: bytes,
        site: str,
        address: Address,
        settings: StackSettings,
        sessions: ServerSessions | None = None,
    ) -> None:
        self.me = me
        self.pruning = settings.pruning
        self.membership = Membership(me=me, identity=identity, site=site, address=address, settings=_prepared(settings))
        self.groups = Groups(me, settings.groups)
        self.sessions = sessions
        if sessions is not None:
            sessions.ask_for_waiting(self.has_waiting)
        self._callers: dict[int, tuple[StreamOpened, bytes]] = {}  # streams that have not identified themselves
        self._daemons: set[int] = set()  # streams that daemons opened; only looked up
        self._under_way: dict[ClientId, int] = {}  # requests of sessions that the shell carries to the groups
        self._gathered: list[Draft] = []  # of requests that came while others are under way; empty when none is
        self._told: int | None = None  # the room that the sessions count on, None when they have used of it
        self._slow_beside: tuple[ClientId, ...] = ()  # readers that are played beside the sessions here
        self._held_beside: tuple[str, ...] = ()  # what they want held
        self._held_elsewhere = self.groups.holds.groups  # what readers at other daemons want held; the sessions know
        self._readers_elsewhere = self.groups.holds.readers  # these readers

    @property
    def has_local_members(self) -> bool:
        """Whether a client of this daemon is in any group."""
        return bool(self.groups.roster.clients_at(self.me))

    @property
    def room(self) -> int:
        """Bytes that clients may send now; below 0 when more waits than should."""
        return self.membership.room - self.groups.waiting_bytes

    def has_waiting(self, client: ClientId) -> bool:
        """Whether something that this client sent waits for its stamp; while no daemon view works that is not known."""
        return client in self._under_way or self.groups.waiting_bytes > 0 or self.membership.has_waiting(client.name)

    def handle(self, event: Event) -> list[Action]:
        """Take one event, and pass on what each layer says until it is for the outside."""
        sessions = self.sessions
        if sessions is not None and isinstance(event, StreamWritable) and event.stream < 0:
            if event.stream not in self._daemons:
                return sessions.handle(event)  # one for every write: it leads to the next write and to nothing else
        out: list[Action] = []
        self._pass_on(self._taken(event), event.at, out)
        if self._gathered and not self._under_way:  # the last of these requests led to no draft
            self._pass_on(self._submitted(event.at), event.at, out)
        if sessions is not None:
            if self.groups.holds.is_used or self._slow_beside or sessions.is_blocking:
                self._hold(sessions, event.at, out)
            if not isinstance(event, Indicated):  # what is told to clients takes no room
                self._pass_on(self._room_told(sessions, event.at), event.at, out)
        return out

    def _pass_on(self, actions: list[Action], at: int, out: list[Action]) -> None:
        if PASSED.isdisjoint(map(type, actions)):
            out += actions
            return
        pending = deque(actions)
        while pending:
            action = pending.popleft()
            passed = self._passed(action, at)
            if passed is None:
                out.append(action)
            else:
                pending.extend(passed)

    # --- events to the layer that they are for ---------------------------------------------------------------------

    def _taken(self, event: Event) -> list[Action]:
        if isinstance(event, Requested):
            self._arrived(event.client)
            return self.groups.handle(event)
        if self.sessions is None:
            return self.membership.handle(event)
        match event:
            case Indicated():
                return self.sessions.handle(event)
            case ClientsDismissed(at=at):
                return self.sessions.handle(Stopping(at))
            case GroupsHeld(at=at):
                self._held_beside, self._slow_beside = event.groups, event.readers
                return self._held_told(self.sessions, at)
            case StreamOpened() | StreamReceived() | StreamWritable() | StreamClosed() if event.stream < 0:
                return self._on_accepted(event, self.sessions)
            case TimerFired(key=key) if key in (SWEEP, DUE):
                return self.sessions.handle(event)
            case Started() | Stopping():
                return [*self.sessions.handle(event), *self.membership.handle(event)]
        return self.membership.handle(event)

    def _on_accepted(self, event: StreamEvent, sessions: ServerSessions) -> list[Action]:
        """Of a stream that somebody opened to us."""
        stream = event.stream
        if isinstance(event, StreamOpened):
            self._callers[stream] = (event, b"")
        elif isinstance(event, StreamReceived) and stream in self._callers:
            opened, begun = self._callers.pop(stream)
            begun += bytes(event.data)
            if len(begun) < len(CLIENT_MAGIC):
                self._callers[stream] = (opened, begun)
                return []
            event = StreamReceived(event.at, stream, begun)
            if not is_greeting(begun):
                self._daemons.add(stream)
                forgotten = sessions.handle(StreamClosed(event.at, stream, "of a daemon"))
                return [*forgotten, *self.membership.handle(opened), *self.membership.handle(event)]
        elif isinstance(event, StreamClosed):
            self._callers.pop(stream, None)
        if stream not in self._daemons:
            return sessions.handle(event)
        if isinstance(event, StreamClosed):
            self._daemons.discard(stream)
        return self.membership.handle(event)

    # --- from layer to layer ---------------------------------------------------------------------------------------

    def _passed(self, action: Action, at: int) -> list[Action] | None:
        """What an action for another layer leads to there; None for what is for the outside."""
        if type(action) not in PASSED:
            return None
        match action:
            case DeliverUnits():
                return self.groups.on_units(action, at)
            case Submit(drafts=drafts):
                self._gathered += drafts
                return [] if self._under_way else self._submitted(at)
            case DeliverSignal():
                return self.groups.on_signal(action, at)
            case DeliverDaemonView():
                return self.groups.on_daemon_view(action, at)
            case StateInterest(view=view, site=site, groups=groups):
                return self.membership.handle(InterestStated(at, site, groups)) if self._prunes_in(view) else []
            case ChangeInterest(view=view, site=site, group=group, interested=interested):
                changed = InterestChanged(at, site, group, interested=interested)
                return self.membership.handle(changed) if self._prunes_in(view) else []
            case Ask(client=client):
                self._under_way[client] = self._under_way.get(client, 0) + 1
                self._told = None
        return None

    def _prunes_in(self, view: DaemonViewId) -> bool:
        """Whether interest of this daemon view counts. One handling may end a view and install the next, and what the
        groups then say about the old one would make the new one prune what its members are owed."""
        network = self.membership.node.network
        return self.pruning and network is not None and network.view.id == view

    def _submitted(self, at: int) -> list[Action]:
        """Drafts of requests that came together go together: one visit of a resting token stamps all of them.

        For bundles that a client wrote four at a time that is a third less work at its daemon.
        """
        drafts, self._gathered = self._gathered, []
        return [] if self.membership.takes(drafts) else self.membership.handle(Submitted(at, drafts))

    def _arrived(self, client: ClientId) -> None:
        """A request came by the shell; of an embedded client none is counted."""
        left = self._under_way.pop(client, 0) - 1
        if left > 0:
            self._under_way[client] = left

    def _hold(self, sessions: ServerSessions, at: int, out: list[Action]) -> None:
        """Slow readers here hold senders everywhere, and those elsewhere hold senders here."""
        holds, beside = self.groups.holds, self._slow_beside
        if sessions.is_blocking or beside or holds.is_stating:
            self._pass_on([*holds.state((*sessions.blocking, *beside))], at, out)
        if holds.groups is not self._held_elsewhere or holds.readers != self._readers_elsewhere:
            self._pass_on(self._held_told(sessions, at), at, out)

    def _held_told(self, sessions: ServerSessions, at: int) -> list[Action]:
        self._held_elsewhere, self._readers_elsewhere = self.groups.holds.groups, self.groups.holds.readers
        groups = tuple(sorted(self._held_elsewhere.union(self._held_beside)))
        return sessions.handle(GroupsHeld(at, groups, (*self._readers_elsewhere, *self._slow_beside)))

    def _room_told(self, sessions: ServerSessions, at: int) -> list[Action]:
        """Tell of the room when it changed; what is under way to the groups would be counted twice, so not then."""
        if self._under_way or (room := self.room) == self._told:
            return []
        self._told = room
        return sessions.handle(RoomChanged(at, room)) if sessions.has_held else sessions.note_room(room)


def _prepared(settings: StackSettings) -> MembershipSettings:
    """The membership as this stack needs it."""
    if not settings.pruning:
        return settings.membership
    transport = msgspec.structs.replace(settings.membership.transport, peek=peek)
    return msgspec.structs.replace(settings.membership, transport=transport, record_units=False)
