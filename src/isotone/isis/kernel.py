"""The kernel of an ISIS site: an automaton that is a client at B4, for all processes of the site.

It sends FIFO messages to the private groups of other kernels and nothing else; the view of the kernels' group only
says where they are, and is evidence that one failed. All of an incarnation ends when it is declared dead: then the
site recovers as another one, and its processes must begin anew.

Implements: [ISIS 4.1], [ISIS 4.2], Figure 2. Deviations: see the modules that it is made of.
"""

from __future__ import annotations

import msgspec

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import (
    Action,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Put,
    Record,
    SetTimer,
    Started,
    Stop,
    Stopping,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.isis import wire as w
from isotone.isis.events import (
    BroadcastDone,
    BroadcastWanted,
    FlushDone,
    FlushWanted,
    JoinWanted,
    Primitive,
    SiteDied,
)
from isotone.isis.life import Asked, Life
from isotone.isis.names import name_of
from isotone.isis.settings import RECONNECT_US, IsisSettings, check_sites
from isotone.isis.site_views import Saved, SiteViews
from isotone.trace.isis import SiteKilled, SiteStarted

CELL = "site-views"
TICK, COLLECT, RECONNECT, DEFER = "tick", "collect", "reconnect", "defer"
_SAVED = msgspec.msgpack.Decoder(Saved)


class Kernel:
    """One site, through all its incarnations in one process."""

    periodic_timers = (TICK, COLLECT)

    def __init__(self, daemon: DaemonId, settings: IsisSettings) -> None:
        check_sites(settings)
        self.settings = settings
        self.views = SiteViews(settings)
        self.life: Life | None = None  # while this incarnation is in the site view
        self._daemon = daemon
        self._client: ClientId | None = None
        self._opened = 0
        self._sent = 0
        self._connected = False
        self._where: dict[str, str] = {}  # the private groups of other kernels, by site
        self._wanted: dict[tuple[str, str], JoinWanted] = {}  # joins before the site is operational
        self._ticket = 0
        self._deferred = False  # the timer of deferred CBCASTs runs
        self._transmits = False  # it ran out just now

    @property
    def me(self) -> str:
        """The present incarnation."""
        return self.views.me

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        actions: list[Action] = []
        match event:
            case Started(storage=storage):
                return self._start(storage.cells.get(CELL, b""))
            case Stopping():
                return [b4.Ask(self._client, b4.Disconnect())] if self._client is not None else []
            case Persisted():
                return []
            case PersistFailed(reason=reason):
                return [Stop(f"cannot save the site view: {reason}")]
            case b4.Indicated(receivers=receivers, indication=indication):
                if self._client is None or receivers[0].name != self._client.name:
                    return []
                actions += self._on_indication(receivers[0], indication, event.at)
            case TimerFired(key=key):
                actions += self._on_timer(str(key), event.at)
            case _:
                self._on_asked(event, actions)
        return actions + self._conclude(event.at)

    def _start(self, data: bytes) -> list[Action]:
        if data:
            self.views.load(_SAVED.decode(data))
        self.views.recover()
        return [*self._save(), self._begun(), self._connect(), *self._timers()]

    def _begun(self) -> Action:
        return Record(SiteStarted(self.me, self.settings.sites))

    def _timers(self) -> list[Action]:
        return [SetTimer(TICK, self.settings.tick_us), SetTimer(COLLECT, self.settings.collect_us)]

    def _save(self) -> list[Action]:
        if not self.views.dirty:
            return []
        self.views.dirty = False
        self._ticket += 1
        return [Persist(self._ticket, (Put(CELL, msgspec.msgpack.encode(self.views.state())),))]

    def _on_timer(self, key: str, at: int) -> list[Action]:
        match key:
            case "tick":
                self.views.tick(at)
                return [SetTimer(TICK, self.settings.tick_us)]
            case "collect":
                if self.life is not None and self.views.may_read_lock(at):
                    self.life.collect()
                return [SetTimer(COLLECT, self.settings.collect_us)]
            case "defer":
                self._deferred, self._transmits = False, True
                return []
            case "reconnect":
                return [self._connect()] if self._client is None else []
        raise AssertionError(f"no timer is called {key!r}")

    def _on_asked(self, event: Event, actions: list[Action]) -> None:
        assert isinstance(event, Asked), f"the kernel does not know {event!r}"
        if isinstance(event, BroadcastWanted):
            if len(event.body) > w.BODY_BYTES_MAX:
                raise LocalProtocolError(f"a message has at most {w.BODY_BYTES_MAX} bytes, this one {len(event.body)}")
            if event.causal and (event.label or event.primitive is not Primitive.ABCAST):
                raise LocalProtocolError("causal is an option of ABCASTs without a label")
        if self.life is not None:
            self.life.site.at = event.at
            self.life.ask(event)
        elif isinstance(event, JoinWanted):
            self._wanted[event.group, event.process] = event
        elif isinstance(event, BroadcastWanted) and event.token:
            actions.append(BroadcastDone(event.token, problem="the site is not operational"))
        elif isinstance(event, FlushWanted):
            actions.append(FlushDone(event.token))

    # --- B4 --------------------------------------------------------------------------------------------------------

    def _connect(self) -> Action:
        self._opened += 1
        self._sent, self._connected = 0, False
        self._client = ClientId(self._daemon, self.settings.site, self._opened)
        return b4.Ask(self._client, b4.Connect())

    def _on_indication(self, receiver: ClientId, indication: b4.Indication, at: int) -> list[Action]:
        assert self._client is not None
        match indication:
            case b4.Connected():
                self._client, self._connected = receiver, True
                return [b4.Ask(receiver, b4.Join(self.settings.group))]
            case b4.View(view=view):
                self._where = {
                    member.name: member.private_group
                    for member in view.members
                    if member.name in self.settings.everywhere and member.name != self.settings.site
                }
                self.views.on_absence(set(self._where), at)
            case b4.Message(bundle=bundle):
                for body in bundle.bodies():
                    frame = w.CODEC.decode(body)
                    assert isinstance(frame, w.Frame)
                    self._on_frame(frame, at)
            case b4.Disconnected() if receiver == self._client:
                self._client, self._connected, self._where = None, False, {}
                return [SetTimer(RECONNECT, RECONNECT_US)]
        return []

    def _on_frame(self, frame: w.Frame, at: int) -> None:
        """The input filter [ISIS 4.1]."""
        views, source = self.views, frame.source
        if name_of(source) not in self.settings.everywhere or name_of(source) == self.settings.site:
            raise RemoteProtocolError(f"a frame from {source}, which is not among the sites")
        if name_of(source) not in self.settings.sites:
            self._on_frame_from_abroad(frame)
            return
        for_me = self.settings.site in (frame.target, name_of(frame.target))
        if isinstance(frame.body, w.Dead):
            if frame.target == self.me:
                views.on_dead(frame.body)
            return
        if views.is_declared_dead(source):
            views.said.append((source, w.Dead(views.view.number)))
            return
        if self.life is not None and frame.target == self.me and not views.is_dead(source):
            self.life.site.channels.receive(frame)
        if for_me and frame.sequence == 0 and frame.body is not None:
            self._on_view_body(source, frame.body, at)

    def _on_frame_from_abroad(self, frame: w.Frame) -> None:
        """Of another cluster, which sees to its own failures: what it knows of site views, or a channel message."""
        if isinstance(frame.body, w.Neighbours):
            self._learn(frame.body.views)
        if self.life is not None and frame.target == self.me:
            self.life.site.channels.receive(frame)

    def _learn(self, views: tuple[w.SiteView, ...]) -> None:
        """What somebody knows of other clusters."""
        if len(views) != len(self.settings.clusters):
            raise RemoteProtocolError(f"{len(views)} clusters instead of {len(self.settings.clusters)}")
        for place, view in enumerate(views):
            if place != self.settings.cluster and view.number > self.views.neighbours.get(place, w.NO_VIEW).number:
                self.views.neighbours[place] = view
                if self.life is not None:
                    self.life.learn(place, view)

    def _on_view_body(self, source: str, body: object, at: int) -> None:
        views = self.views
        match body:
            case w.Hello():
                views.on_hello(source, body, at)
                if body.neighbours:
                    self._learn(body.neighbours)
            case w.Interrogate():
                views.on_interrogate(source, body)
            case w.Promise():
                views.on_promise(source, body, at)
            case w.Proposal():
                views.on_proposal(source, body)
            case w.Acknowledged():
                views.on_acknowledged(source, body)
            case w.NegativelyAcknowledged():
                views.on_negative(source, body, at)
            case w.Commit(committed=committed):
                views.learn(committed)
            case w.LockAsked():
                views.on_lock_asked(source, body, at)
            case w.LockGranted():
                views.on_lock_granted(source, body, at)
            case _:
                raise RemoteProtocolError(f"{type(body).__name__} without a sequence")

    # --- what follows ----------------------------------------------------------------------------------------------

    def _conclude(self, at: int) -> list[Action]:
        """New site views, the protocols, the disk, and then what is sent."""
        actions: list[Action] = []
        while self.views.installed and not self.views.doomed:
            self._enter(self.views.installed.pop(0), at)
        if self.views.doomed:
            actions += self._die()
        timers: list[Action] = []
        if self.life is not None:
            life = self.life
            life.settle(transmit=self._transmits or not self.settings.defer_us)
            if self.settings.defer_us and life.cbcasts.due and not self._deferred:
                self._deferred = True
                timers.append(SetTimer(DEFER, self.settings.defer_us))
            self.views.read_locks = life.read_locks
            actions += life.take()
        self._transmits = False
        frames = [self._view_frame(target, body) for target, body in self.views.said]
        self.views.said = []
        if self.life is not None:
            frames += self.life.site.channels.pump()
        return [*self._save(), *actions, *timers, *self._send(frames)]

    def _enter(self, view: w.SiteView, at: int) -> None:
        if self.life is None or self.life.site.me != self.me:
            self.life = Life(self.settings, self.me)
            for place, neighbour in self.views.neighbours.items():
                self.life.learn(place, neighbour)
        self.life.site.at = at
        self.life.enter_view(view)
        wanted, self._wanted = self._wanted, {}
        for join in wanted.values():
            self.life.ask(join)
        self.life.settle(transmit=not self.settings.defer_us)

    def _die(self) -> list[Action]:
        reason, dead, was_live = self.views.doomed, self.me, self.life is not None
        actions = self.life.take() if self.life is not None else []
        self.life = None
        self.views.installed.clear()
        self.views.recover()
        actions.append(Record(SiteKilled(dead, reason)))
        if was_live:
            actions.append(SiteDied(dead, reason))
        return [*actions, self._begun()]

    def _view_frame(self, target: str, body: w.ViewBody) -> w.Frame:
        received = 0
        if isinstance(body, w.Hello | w.Neighbours) and self.life is not None:
            for peer, channel in self.life.site.channels.peers.items():
                if name_of(peer) == target:
                    target, received = peer, channel.received
        return w.Frame(self.me, target, 0, received, self._numbers(), body)

    def _numbers(self) -> tuple[int, ...]:
        return self.life.site.views if self.life is not None else ()

    def _send(self, frames: list[w.Frame]) -> list[Action]:
        actions: list[Action] = []
        if not self._connected or self._client is None:
            return actions
        for frame in frames:
            name = name_of(frame.target) if "." in frame.target else frame.target
            if (group := self._where.get(name)) is not None:
                self._sent += 1
                bundle = bundle_of(self._client, self._sent, Service.FIFO, (group,), (w.CODEC.encode(frame),))
                actions.append(b4.Ask(self._client, b4.Send(bundle)))
        return actions
