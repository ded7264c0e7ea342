"""The gateway of a site: forwards along the trees of all sources, and publishes the site's own lines.

Units leave as soon as they come, whatever is missing before them; each source has its own tree, in which every site has
one parent, so nothing comes twice. Content of units of the site itself goes only where somebody needs it.

Implements: [Spread 3.3, 3.4.2, 4.3 (non-blocking)]. Deviations: those of `isotone.evs.ordering.pruning`.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action
from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import frame_of
from isotone.evs.links.hop import Hop
from isotone.evs.links.tcp import Hello, TcpLink
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.pruning import (
    CONTENT_FRAME,
    SITES_MAX,
    Cleared,
    Pruner,
    directed_kind,
    encode_cleared,
    encode_masked,
    mask_of,
)
from isotone.evs.ordering.stamper import PLACE, UNLIMITED, frame_kind
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit, UnitKind, encode_unit
from isotone.evs.ordering.updates import Publisher, Update, delta_us, encode_update
from isotone.evs.overlay.interest import Interest, InterestChanged
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import Link, LinkProtocol
from isotone.evs.transport.bulk_pace import BulkPace
from isotone.evs.transport.held_bulk import Held, HeldBulk, encode_held
from isotone.evs.transport.incoming import Arrival
from isotone.evs.transport.pressure import LinkRoom, link_bit
from isotone.evs.transport.settings import TransportSettings, everybody
from isotone.evs.transport.trunk import Trunk
from isotone.evs.transport.view import TransportView


class Gateway:
    """All trunks of one site."""

    def __init__(
        self, me: str, view: TransportView, routes: Routes, settings: TransportSettings, first_stream: int = 1
    ) -> None:
        site = view.site_of(me)
        names = [each.name for each in view.topology.sites]
        self.site = names.index(site.name)
        links = routes.links_used(site.name)
        delta = settings.delta_us or delta_us(sites=len(names), rate_bytes_per_second=view.slowest_rate())
        self.trunks = [
            make_trunk(me, link, view, settings, stream=number, metadata_hold_us=2 * delta)
            for number, link in enumerate(links, start=first_stream)
        ]
        by_name = {names[trunk.site]: trunk for trunk in self.trunks}
        self._children = [tuple(by_name[child] for child in routes.children(source, site.name)) for source in names]
        self._parents = [by_name.get(routes.parent(source, site.name) or "") for source in names]
        self._below = [
            {child: mask_of([names.index(each) for each in routes.below(source, child)]) for child in names}
            for source in names
        ]
        self._names = names
        self._everybody = (1 << len(names)) - 1
        self.interest = Interest.unknown(routes)
        self._peek = settings.peek if len(names) <= SITES_MAX else everybody
        self.pruner = Pruner(self.site)
        self._joined: dict[tuple[str, str], Position] = {}  # by site and group: the last join that was received
        self._cleared_at: int | None = None
        self.publisher = Publisher(self.site, delta)
        self._newest: dict[tuple[type, int], tuple[int, int]] = {}  # by kind and site, of what was forwarded: its lines
        self._riding = False  # units of the site leave in this moment
        self.held_bulk = HeldBulk()
        self.bulk_pace = BulkPace()

    def is_parent(self, trunk: Trunk, source: int) -> bool:
        """Whether what this source sends comes over this trunk."""
        return self._parents[source] is trunk

    def link_room(self, at: int) -> LinkRoom:
        """What the site may stamp now so that it leaves at once."""
        own = self._children[self.site]
        if not own:  # nothing leaves the site
            return LinkRoom()
        full, room = 0, UNLIMITED
        for trunk in own:
            if not trunk.is_open(self.site):
                full |= link_bit(trunk.site)
            else:
                room = min(room, trunk.quantum)
            if trunk.is_swamped:
                full |= PLACE
        if self.bulk_pace.wait_us(at) or not all(trunk.is_open_for_bulk(self.site) for trunk in own):
            return LinkRoom(full, room, 0)
        if self.held_bulk.is_held(self.site):
            return LinkRoom(full, room, 0)
        return LinkRoom(full, room, min(trunk.bulk_quantum for trunk in own))

    # --- units -----------------------------------------------------------------------------------------------------

    def forward(self, arrivals: Sequence[Arrival], at: int, heard: int) -> None:
        """Units that came go on to the children in the tree of their source; ``heard``: all up to this time was."""
        for arrival in arrivals:
            unit = arrival.unit
            if unit.site == self.site:
                arrival = self._pruned(arrival, heard)
            if unit.service is Service.UNRELIABLE:
                self._forward_unreliable(arrival)
                continue
            self._forward_reliable(arrival)
            if unit.site == self.site:
                self._riding = True
                self.publisher.left(unit, pruned=arrival.mask is not None)
                if unit.kind is UnitKind.FRAGMENT:
                    self.bulk_pace.spent(arrival.frame.size, at)
            else:
                self.publisher.saw(unit, pruned=arrival.mask is not None)

    def forward_born(self, units: Sequence[Unit], at: int, heard: int) -> None:
        """Units that this daemon itself stamped."""
        self.forward([Arrival(unit, frame_of(frame_kind(unit), *encode_unit(unit))) for unit in units], at, heard)

    def _forward_unreliable(self, arrival: Arrival) -> None:
        for trunk in self._children[arrival.unit.site]:
            if arrival.mask is None or arrival.mask & self._sites_below(arrival.unit.site, trunk):
                trunk.queue_unreliable(arrival.unit.site, arrival.frame)

    def _forward_reliable(self, arrival: Arrival) -> None:
        source = arrival.unit.site
        passing = arrival.unit.kind is UnitKind.PRUNED  # it waited for company where it was pruned
        for trunk in self._children[source]:
            if passing or (arrival.mask is not None and not arrival.mask & self._sites_below(source, trunk)):
                trunk.queue_metadata(arrival.unit, passing=passing)
            else:
                trunk.queue(source, arrival.frame)

    def _sites_below(self, source: int, trunk: Trunk) -> int:
        return self._below[source][self._names[trunk.site]]

    # --- pruning ---------------------------------------------------------------------------------------------------

    def _pruned(self, arrival: Arrival, heard: int) -> Arrival:
        """A unit of our own site: for whom is its content? For those who need it, and for all on the way to them.

        One below AGREED is for the members that all joins before it made: these must have been heard here.
        """
        groups = self._peek(arrival.unit).groups
        if groups is None or max(arrival.unit.behind, arrival.unit.agreed_before)[0] > heard:
            return arrival
        holders = self.interest.sites_with_content(self._names[self.site], groups)
        mask = mask_of([self._names.index(site) for site in holders])
        if mask == self._everybody:
            return arrival
        self.pruner.pruned(arrival.unit, groups, mask)
        return Arrival(arrival.unit, encode_masked(directed_kind(arrival.unit), mask, arrival.unit), mask)

    def note_joins(self, units: Sequence[Unit], at: int) -> None:
        """Units were received: a join among them counts at once, long before it is delivered."""
        for unit in units:
            for group in self._peek(unit).joins:
                name = self._names[unit.site]
                self._joined[name, group] = max(unit.position, self._joined.get((name, group), BEFORE_ALL))
                self.interest_changed(InterestChanged(at, name, group, interested=True), BEFORE_ALL)

    def interest_stated(self, site: str, groups: Sequence[str]) -> None:
        """All groups of a site, as far as they are delivered; joins that were received since count too."""
        joined = [group for name, group in self._joined if name == site]
        self.interest.state(site, tuple(sorted({*groups, *joined})))

    def interest_changed(self, event: InterestChanged, delivered: Position) -> None:
        """A site got its first member of a group, or lost its last; ``delivered``: the last position delivered here.

        A member that left may have joined again, which counts though it is not delivered yet.
        """
        if not event.interested:
            if self._joined.get((event.site, event.group), BEFORE_ALL) > delivered:
                return
            self._joined.pop((event.site, event.group), None)
        if not self.interest.change(event) or not event.interested:
            return
        site = self._names.index(event.site)
        for unit in self.pruner.joined(site, event.group):
            mask = 1 << site
            self.forward_content(Arrival(unit, encode_masked(CONTENT_FRAME, mask, unit), mask))

    def forward_content(self, arrival: Arrival) -> None:
        """Content that is owed after all goes to those sites only."""
        assert arrival.mask is not None
        for trunk in self._children[arrival.unit.site]:
            if arrival.mask & self._sites_below(arrival.unit.site, trunk):
                trunk.queue(arrival.unit.site, arrival.frame)

    # --- lines -----------------------------------------------------------------------------------------------------

    def forward_update(self, update: Update | Cleared) -> None:
        """A line update or a clearance goes on as units do, unless it was overtaken by a newer one, which says more.

        Of those that wait at a trunk only the last one queued is kept: it must be the newest.
        """
        line = update.line if isinstance(update, Update) else 0
        key = (type(update), update.site)
        newest = self._newest.get(key, (0, 0))
        if update.lamport < newest[0] or line < newest[1]:
            return
        self._newest[key] = (update.lamport, line)
        for trunk in self._children[update.site]:
            if isinstance(update, Update):
                trunk.queue_update(update.site, encode_update(update))
            else:
                trunk.queue_cleared(update.site, encode_cleared(update))

    def publish(self, at: int, *, promise: tuple[int, int], line: int, lines: Lines) -> None:
        """Tell the other sites how far this one is, if it is time."""
        self.publisher.promise, self.publisher.line = promise, line
        riding, self._riding = self._riding, False
        update = self.publisher.due(at, riding=riding) if self._children[self.site] else None
        if update is not None:
            self.forward_update(update)
        self.pruner.stable_through(lines.stable)
        wait = self._clear_wait_us(at, lines.heard)
        if wait is not None and wait <= (self.publisher.delta_us // 2 if update is not None else 0):
            self._cleared_at = at
            self.forward_update(self.pruner.clear(lines.heard))

    def _clear_wait_us(self, at: int, heard: int) -> int | None:
        if not self.pruner.is_due(heard):
            return None
        return 0 if self._cleared_at is None else max(0, self._cleared_at + self.publisher.delta_us - at)

    def update_wait_us(self, at: int, heard: int) -> int | None:
        """When to look again whether an update, a clearance or metadata is due."""
        waits = [self.publisher.wait_us(at), self._clear_wait_us(at, heard)] if self._children[self.site] else []
        waits.append(self.bulk_pace.wait_us(at) or None)
        waits += [trunk.metadata_wait_us(at) for trunk in self.trunks]
        return min((wait for wait in waits if wait is not None), default=None)

    def lacks_promise(self) -> bool:
        """Whether the token is needed for an update."""
        return bool(self._children[self.site]) and self.publisher.lacks_promise

    def pump(self, at: int) -> list[tuple[Trunk, list[Action]]]:
        """Hand every trunk what it has room for; what each link wants done."""
        pumped = [(trunk, actions) for trunk in self.trunks if (actions := trunk.pump(at))]
        return pumped + [(trunk, actions) for trunk in self._hold() if (actions := trunk.pump(at))]

    # --- bulk on the way -------------------------------------------------------------------------------------------

    def take_held(self, trunk: Trunk, held: Held, at: int) -> None:
        """A gateway further on in the tree of a source has fragments of it waiting, or has none any more."""
        if trunk not in self._children[held.site]:
            raise RemoteProtocolError(f"nothing of site {held.site} goes over {trunk.name}")
        if self.held_bulk.heard(trunk.site, held) and held.is_held and held.site == self.site:
            self.bulk_pace.held(at)

    def _hold(self) -> list[Trunk]:
        """Tell the gateways before this one what changed; the trunks on which there is something to say."""
        told: list[Trunk] = []
        for source, parent in enumerate(self._parents):
            if parent is None:
                continue
            waits, said = self.held_bulk.is_held(source), self.held_bulk.said(source)
            for trunk in self._children[source]:
                waits = waits or trunk.bulk_bytes(source) > (0 if said else trunk.bulk_quantum)
            if waits != said:
                parent.queue_update(source, encode_held(self.held_bulk.change(source, is_held=waits)))
                told.append(parent)
        return told


def make_trunk(
    me: str, link: Link, view: TransportView, settings: TransportSettings, *, stream: int, metadata_hold_us: int
) -> Trunk:
    """The link automaton towards the other gateway; ``stream`` is its byte stream, if it is one."""
    site = link.other(view.site_of(me).name)
    peer = view.topology.site(site).gateway
    address, number = view.addresses[peer], view.link_number(link)
    automaton: Hop | TcpLink
    if link.protocol is LinkProtocol.TCP:
        automaton = TcpLink(me=me, peer=peer, address=address, link=number, stream=stream, settings=settings.tcp)
    else:
        automaton = Hop(peer=peer, address=address, link=number, settings=settings.hop_for(link.limits))
    return Trunk(
        name=link.name,
        site=view.site_index(site),
        link=automaton,
        caller=Hello(peer, number),
        metadata_hold_us=metadata_hold_us,
    )
