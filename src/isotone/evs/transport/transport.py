"""One daemon in one stable daemon view: ring, links, overlay and ordering composed on this page.

```
 Submitted ─▶ Stamper ◀─ visits ─ Ring ─ frames ─▶ Delivery ─▶ DeliverUnits
                 │ born             ▲ injected         ▲
                 └────────▶ Gateway ┴── Trunk (Hop, Tcp) ── frames
```
Units go to the delivery rules as they come. The gateway of a site hands what came from other sites to its ring, and
on to the children of the source's tree, without waiting for anything. When a link fails, everything here ends.

Implements: [Spread 3.3, 4, 5]; the reliable network of [Spread 2.2.7]. Deviations: those of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    Record,
    SetTimer,
    Started,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import DeclareFailed, Frame, FramesArrived, LinkRoomy
from isotone.evs.links.ring import Ring, split_before_token
from isotone.evs.links.ring.events import SiteLineRose, TokenWanted
from isotone.evs.links.tcp import Hello
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.stamper import NAMES_MAX, Draft, Stamper
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import Interest, InterestChanged
from isotone.evs.overlay.routes import Routes
from isotone.evs.transport.callers import Streams
from isotone.evs.transport.crossing import Crossing
from isotone.evs.transport.events import DeliverUnits, InterestStated, Submitted
from isotone.evs.transport.gateway import Gateway
from isotone.evs.transport.incoming import Incoming, sort_frames
from isotone.evs.transport.injection import Injection
from isotone.evs.transport.patience import PATIENCE_TIMER, Patience
from isotone.evs.transport.pressure import LinkRoom
from isotone.evs.transport.record import NetworkRecord
from isotone.evs.transport.settings import RESENT_BYTES_MAX, UNIT_BYTES_MAX, TransportSettings, everybody
from isotone.evs.transport.trunk import Trunk
from isotone.evs.transport.view import TransportView

UPDATE_TIMER: TimerKey = ("transport", "update")


class Transport:
    """The automaton; ``me`` is this daemon's name in the view."""

    def __init__(
        self,
        *,
        me: str,
        view: TransportView,
        settings: TransportSettings | None = None,
        lamport: int = 0,
        first_stream: int = 1,
        under_membership: bool = False,
    ) -> None:
        """Everything is stamped above ``lamport``; streams are numbered from ``first_stream``.

        ``under_membership``: the view is proposed and not installed, and what is stamped here is recorded.
        """
        self.settings = settings = settings or TransportSettings()
        self.failed: str | None = None
        self.malformed = 0  # frames that no correct daemon of the view sends
        site = view.site_of(me)
        self._site, self._sites, self._daemons = view.site_index(site.name), len(view.topology.sites), len(view.members)
        index = view.index_of(me)
        members = [view.index_of(daemon) for daemon in site.daemons]
        self._lone = len(members) == 1
        self.delivery = Delivery(Lines.of(self._sites))
        self.stamper = Stamper(
            site=self._site,
            daemon=index,
            delivery=self.delivery,
            window_bytes=max(1, settings.site_window_bytes // len(members)),
            kept_bytes_max=settings.kept_bytes_max(sites=self._sites, daemons=self._daemons) // 2,
            names_max=NAMES_MAX,
            lamport=lamport,
        )
        self.ring = Ring(
            ring=view.ring_number(site),
            site=site.name,
            members=members,
            me=index,
            addresses={view.index_of(daemon): view.addresses[daemon] for daemon in site.daemons},
            origin=self.stamper,
            settings=settings.ring,
        )
        self.injection = Injection(self.ring)
        self._connect_sites(me, view, first_stream)
        self._record = NetworkRecord(
            view,
            me,
            enabled=settings.record_network,
            pruning=settings.peek is not everybody,
            under_membership=under_membership,
            units=settings.record_units,
        )
        self._patience = Patience(self.delivery.lines, settings.stall_us)
        self._top = 0  # the highest time of any reliable unit known here
        self._update_at: int | None = None  # when the update timer is due
        self._delivered, self._out = list[Unit](), list[Action]()

    def _connect_sites(self, me: str, view: TransportView, first_stream: int) -> None:
        """The way to other sites, if this daemon is its site's gateway, and which content takes it."""
        site, settings = view.site_of(me), self.settings
        leads, routes = me == site.gateway and self._sites > 1, Routes(view.topology)  # of a lone site nothing leaves
        self.gateway = Gateway(me, view, routes, settings, first_stream) if leads else None
        self._interest = self.gateway.interest if self.gateway is not None else Interest.unknown(routes)
        if self._sites > 1:
            self.stamper.crossed = Crossing(site.name, self._interest, settings.peek).crossed
        self._first_stream = first_stream
        self._trunks = {trunk.site: trunk for trunk in self.gateway.trunks} if self.gateway else {}
        self._near = {view.addresses[daemon] for daemon in site.daemons}
        self._far = {view.addresses[view.topology.sites[trunk.site].gateway]: trunk for trunk in self._trunks.values()}
        self._timers = {trunk.link.timer: trunk for trunk in self._trunks.values()}
        self._streams = Streams(list(self._trunks.values()), first_stream)

    @property
    def room(self) -> int:
        """Bytes of drafts that may be submitted now; below 0 when more waits. It returns as units are stamped."""
        return self.settings.waiting_bytes_max - self.stamper.waiting_bytes

    def handle(self, event: Event) -> list[Action]:
        """Take one event, then let everything that it set in motion come to rest."""
        if self.failed is not None:
            return []
        match event:
            case DatagramsReceived():
                self._on_datagrams(event)
            case Submitted(drafts=drafts):
                self._on_submitted(drafts)
            case TimerFired(key=key):
                self._on_timer(event, key)
            case StreamOpened() | StreamReceived() | StreamWritable() | StreamClosed():
                self._on_stream(event)
            case Started():
                self._on_started(event)
            case InterestChanged() | InterestStated():
                self._on_interest(event)
            case Stopping():
                pass  # a transport has nothing to say at the end
            case _:
                raise AssertionError(f"a transport knows no {type(event).__name__}")
        self._conclude(event.at)
        return self._take_out()

    def takes(self, drafts: Sequence[Draft]) -> bool:
        """Take drafts while the token was asked for and did not come: nothing else moves. False: as an event."""
        if self.failed is not None or not self.ring.is_awaited:
            return False
        self._on_submitted(drafts)
        return True

    # --- for the membership ----------------------------------------------------------------------------------------

    @property
    def next_stream(self) -> int:
        """The first number that no stream of this transport has."""
        return self._first_stream + len(self._trunks)

    def knows(self, source: Address) -> bool:
        """Whether packets from this address can be for this view."""
        return source in self._near or source in self._far

    def answers(self, hello: Hello) -> bool:
        """Whether a stream that begins with this greeting is for a link of this view."""
        return any(trunk.answers(hello) for trunk in self._trunks.values())

    def freeze(self) -> None:
        """The view ends here: nothing is sent, taken or delivered any more."""
        self.failed = self.failed or "frozen"

    # --- events to their links -------------------------------------------------------------------------------------

    def _on_started(self, event: Started) -> None:
        self._out += self._record.started()
        self._from_ring(self.ring.handle(event), event.at)
        for trunk in self._trunks.values():
            self._from_trunk(trunk, trunk.handle(event), event.at)

    def _on_submitted(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            if len(draft.body) > (RESENT_BYTES_MAX if draft.kind is UnitKind.MEMBERSHIP else UNIT_BYTES_MAX):
                raise LocalProtocolError(f"a draft of more than {UNIT_BYTES_MAX} bytes: split it into fragments")
        waiting = self.stamper.waiting_bytes + sum([len(draft.body) for draft in drafts])
        if waiting > self.settings.waiting_bytes_bound:
            raise LocalProtocolError(f"{waiting} bytes would wait to be stamped: look at the room first")
        self.stamper.submit(drafts)

    def _on_interest(self, event: InterestChanged | InterestStated) -> None:
        """The gateway decides where content goes; the others know what will cross the links of their site."""
        if self.gateway is not None:
            if isinstance(event, InterestChanged):
                self.gateway.interest_changed(event, self.delivery.last_agreed)
            else:
                self.gateway.interest_stated(event.site, event.groups)
        elif self._sites > 1:
            if isinstance(event, InterestChanged):
                self._interest.change(event)
            else:
                self._interest.state(event.site, event.groups)

    def _on_datagrams(self, event: DatagramsReceived) -> None:
        """A source in our own site speaks the ring's language, a gateway of another site that of its link."""
        if event.source in self._near:
            for each in split_before_token(event):
                self._from_ring(self.ring.handle(each), event.at)
        elif (trunk := self._far.get(event.source)) is not None:
            self._from_trunk(trunk, trunk.handle(event), event.at)
        else:
            raise RemoteProtocolError(f"datagrams from {event.source}, which is nobody's address in this view")

    def _on_timer(self, event: TimerFired, key: TimerKey) -> None:
        if key == UPDATE_TIMER:
            self._update_at = None  # `_conclude` looks what is due
        elif key == PATIENCE_TIMER:
            if (reason := self._patience.fired(event.at)) is not None:
                self._fail("lines", reason)
            self._out += self._patience.rearm(event.at)
        elif (trunk := self._timers.get(key)) is not None:
            self._from_trunk(trunk, trunk.handle(event), event.at)
        else:
            self._from_ring(self.ring.handle(event), event.at)

    def _on_stream(self, event: StreamOpened | StreamReceived | StreamWritable | StreamClosed) -> None:
        trunk, events, actions = self._streams.route(event)
        self._out += actions
        for each in events:
            assert trunk is not None
            self._from_trunk(trunk, trunk.handle(each), event.at)

    # --- what links say --------------------------------------------------------------------------------------------

    def _from_ring(self, actions: Sequence[Action], at: int) -> None:
        for action in actions:
            match action:
                case FramesArrived(frames=frames):
                    self._take_near(frames, at)
                case SiteLineRose(line=line):
                    self.delivery.lines.report(self._site, line, sequence=self.stamper.promise[0])
                case LinkRoomy():
                    pass  # `_conclude` looks for room
                case DeclareFailed(reason=reason):
                    self._fail("ring", reason)
                case _:
                    self._out.append(action)

    def _from_trunk(self, trunk: Trunk, actions: Sequence[Action], at: int) -> None:
        for action in actions:
            match action:
                case FramesArrived(frames=frames):
                    self._take_far(trunk, frames, at)
                case LinkRoomy():
                    pass
                case DeclareFailed(reason=reason):
                    self._fail(trunk.name, reason)
                case _:
                    self._out.append(action)

    def _fail(self, link: str, reason: str) -> None:
        if self.failed is None:
            self.failed = f"{link}: {reason}"
            self._out += self._record.failed(link, reason)

    # --- units and lines -------------------------------------------------------------------------------------------

    def _take_near(self, frames: Sequence[Frame], at: int) -> None:
        """From the ring: units of our own site go out into the world if we are the gateway."""
        incoming = self._sorted(frames)
        if self.gateway is not None:
            if not incoming.sources() <= {self._site}:
                self.malformed += incoming.drop_foreign(self._site)  # only the gateway brings in what is foreign
            self.gateway.forward(incoming.units, at, self.delivery.lines.heard)
        for pressure in incoming.pressure:
            self.injection.pressed(*pressure)
        self._take(incoming, at)

    def _take_far(self, trunk: Trunk, frames: Sequence[Frame], at: int) -> None:
        """From another site: on to the children of the source's tree, and into our own ring."""
        gateway = self.gateway
        assert gateway is not None
        incoming = self._sorted(frames)
        for site in sorted(incoming.sources()):
            if not gateway.is_parent(trunk, site):
                raise RemoteProtocolError(f"site {site} does not send over {trunk.name}")
        gateway.forward(incoming.units, at, self.delivery.lines.heard)
        for content in incoming.contents:
            gateway.forward_content(content)
        incoming.keep_contents_for(self._site)
        for update in incoming.updates:
            gateway.forward_update(update)
        for cleared in incoming.cleared:
            gateway.forward_update(cleared)
        for held in incoming.held:
            gateway.take_held(trunk, held, at)
        if not self._lone:
            self.injection.bring(incoming)
        self._take(incoming, at)

    def _sorted(self, frames: Sequence[Frame]) -> Incoming:
        incoming = sort_frames(frames, sites=self._sites, daemons=self._daemons)
        self.malformed += incoming.malformed
        return incoming

    def _take(self, incoming: Incoming, at: int) -> None:
        received = self.delivery.has_received
        units = [arrival.unit for arrival in incoming.units]
        new = [unit for unit in units if not unit.sequence or not received(unit)]
        if len(new) < len(units):  # metadata behind its content; or a peer that sends twice, which links do not
            self.malformed += sum(
                unit.kind is not UnitKind.PRUNED and received(unit) for unit in units if unit.sequence
            )
        self._note(new, at)
        self._delivered += self.delivery.take(new)
        for content in incoming.contents:
            if not received(content.unit):  # it came before its metadata
                self._note([content.unit], at)
            self._delivered += self.delivery.fill(content.unit)
        incoming.tell(self.delivery.lines, self._site)  # `_conclude` walks on

    def _take_born(self, units: Sequence[Unit], at: int) -> None:
        self._note(units, at)
        self._out += self._record.sent(units)
        if self.gateway is not None:
            self.gateway.forward_born(units, at, self.delivery.lines.heard)
        self._delivered += self.delivery.take(list(units))

    def _note(self, units: Sequence[Unit], at: int) -> None:
        """Units that are new here, each once: one tree per source, one parent per site, one ring per site."""
        self.stamper.seen(units)
        if self.gateway is not None:
            self.gateway.note_joins(units, at)
        for unit in units:
            if unit.service is not Service.UNRELIABLE:
                self._top = max(self._top, unit.lamport)
        if self.settings.record_network:
            self._out += self._record.received([unit for unit in units if unit.daemon != self.stamper.daemon])

    # --- after every event -----------------------------------------------------------------------------------------

    def _conclude(self, at: int) -> None:
        """Until nothing moves: have the token come, take what was stamped, walk, tell the others."""
        lines = self.delivery.lines
        room = self._link_room(at)
        progress = self._progress(room)
        moving = True
        while moving and self.failed is None:
            before = progress
            self.stamper.stable_through(lines.stable)
            self.stamper.full, self.stamper.room, self.stamper.bulk_room = room.full, room.room, room.bulk_room
            if self._wants_token():
                self._from_ring(self.ring.handle(TokenWanted(at)), at)
            born = self.stamper.take_born()
            if born:
                self._take_born(born, at)
            lines.sites[self._site].promise(*self.stamper.promise)
            self._delivered += self.delivery.lines_moved()
            self._send(at)
            room = self._link_room(at)
            progress = self._progress(room)
            moving = bool(born) or before != progress
        if self.failed is None:
            self._arm(at)

    def _link_room(self, at: int) -> LinkRoom:
        return self.injection.link_room if self.gateway is None else self.gateway.link_room(at)

    def _progress(self, room: LinkRoom) -> tuple[object, ...]:
        """What, when it changed, may let more happen at once."""
        stamper, stable = self.stamper, self.delivery.lines.stable
        return self.ring.site_line, stable, stamper.promise, stamper.has_born, room.full, room.bulk_room > 0

    def _wants_token(self) -> bool:
        """To stamp, to promise, or (a ring of one has no rotation that would do it) to raise the site's line."""
        if self.gateway is not None and self.gateway.lacks_promise():
            self.stamper.want_line()
        lags = self._lone and self.ring.site_line < min(self._top, self.stamper.agreed_line())
        return lags or self.stamper.is_waiting()

    def _send(self, at: int) -> None:
        gateway = self.gateway
        if gateway is not None:
            gateway.publish(at, promise=self.stamper.promise, line=self.ring.site_line, lines=self.delivery.lines)
            for trunk, actions in gateway.pump(at):
                self._from_trunk(trunk, actions, at)
            if not self._lone:
                self.injection.press(gateway.link_room(at))
        if not self._lone and self.injection.waiting_bytes:
            self._from_ring(self.injection.pump(at), at)

    def _arm(self, at: int) -> None:
        if self.gateway is not None:
            wait = self.gateway.update_wait_us(at, self.delivery.lines.heard)
            due_at = None if wait is None else at + wait
            if due_at != self._update_at:
                self._update_at = due_at
                self._out.append(CancelTimer(UPDATE_TIMER) if wait is None else SetTimer(UPDATE_TIMER, wait))
        self._out += self._patience.look(at, top=self._top)

    def _take_out(self) -> list[Action]:
        out, self._out = self._out, []
        if self._delivered:
            out.append(DeliverUnits(self._delivered))
            self._delivered = []
        if self.failed is not None:
            out = [action for action in out if isinstance(action, Record | DeliverUnits)]  # nothing leaves any more
            out.append(DeclareFailed(self.failed))
        return out
