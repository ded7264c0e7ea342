"""The gateway of a site: forwards along the trees of all sources, and publishes the site's own lines.

Units leave as soon as they come, whatever is missing before them; each source has its own tree, in which every site has
one parent, so nothing comes twice. Implements: [Spread 3.3, 4.3 (non-blocking)]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action
from isotone.core.services import Service
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.links.hop import Hop
from isotone.evs.links.tcp import Hello, TcpLink
from isotone.evs.ordering.stamper import UNLIMITED, frame_kind
from isotone.evs.ordering.units import Unit, encode_unit
from isotone.evs.ordering.updates import Publisher, Update, delta_us, encode_update
from isotone.evs.overlay.routes import Routes
from isotone.evs.overlay.topology import Link as OverlayLink
from isotone.evs.overlay.topology import LinkProtocol
from isotone.evs.transport.settings import TransportSettings
from isotone.evs.transport.trunk import Trunk
from isotone.evs.transport.view import TransportView

Arrival = tuple[Unit, Frame]


class Gateway:
    """All trunks of one site."""

    def __init__(self, me: str, view: TransportView, routes: Routes, settings: TransportSettings) -> None:
        site = view.site_of(me)
        names = [each.name for each in view.topology.sites]
        self.site = names.index(site.name)
        links = routes.links_used(site.name)
        self.trunks = [make_trunk(me, link, number, view, settings) for number, link in enumerate(links, start=1)]
        by_name = {names[trunk.site]: trunk for trunk in self.trunks}
        self._children = [tuple(by_name[child] for child in routes.children(source, site.name)) for source in names]
        self._parents = [by_name.get(routes.parent(source, site.name) or "") for source in names]
        delta = settings.delta_us or delta_us(sites=len(names), rate_bytes_per_second=view.slowest_rate())
        self.publisher = Publisher(self.site, delta)
        self._riding = False  # units of the site leave in this moment

    def is_parent(self, trunk: Trunk, source: int) -> bool:
        """Whether what this source sends comes over this trunk."""
        return self._parents[source] is trunk

    def stamping_room(self) -> tuple[int, int]:
        """What the site may stamp now so that it leaves at once: units, and fragments of large messages."""
        own = self._children[self.site]
        quantum = min((trunk.quantum for trunk in own), default=UNLIMITED)
        room = quantum if all(trunk.is_open(self.site) for trunk in own) else 0
        bulk = quantum if all(trunk.is_open_for_bulk(self.site) for trunk in own) else 0
        return room, bulk

    def forward(self, arrivals: Sequence[Arrival]) -> None:
        """Units that came, or were stamped here, go on to the children in the tree of their source."""
        for unit, frame in arrivals:
            for trunk in self._children[unit.site]:
                if unit.service is Service.UNRELIABLE:
                    trunk.queue_unreliable(unit.site, frame)
                else:
                    trunk.queue(unit.site, frame)
            if unit.service is Service.UNRELIABLE:
                continue
            if unit.site == self.site:
                self._riding = True
                self.publisher.left(unit)
            else:
                self.publisher.saw(unit)

    def forward_born(self, units: Sequence[Unit]) -> None:
        """Units that this daemon itself stamped."""
        self.forward([(unit, frame_of(frame_kind(unit), *encode_unit(unit))) for unit in units])

    def forward_update(self, update: Update) -> None:
        """A line update goes on as units do."""
        frame = encode_update(update)
        for trunk in self._children[update.site]:
            trunk.queue_update(update.site, frame)

    def publish(self, at: int, *, promise: tuple[int, int], line: int) -> None:
        """Tell the other sites how far this one is, if it is time."""
        self.publisher.promise, self.publisher.line = promise, line
        riding, self._riding = self._riding, False
        if self._children[self.site] and (update := self.publisher.due(at, riding=riding)) is not None:
            self.forward_update(update)

    def update_wait_us(self, at: int) -> int | None:
        """When to look again whether an update is due."""
        return self.publisher.wait_us(at) if self._children[self.site] else None

    def lacks_promise(self) -> bool:
        """Whether the token is needed for an update."""
        return bool(self._children[self.site]) and self.publisher.lacks_promise

    def pump(self, at: int) -> list[tuple[Trunk, list[Action]]]:
        """Hand every trunk what it has room for; what each link wants done."""
        return [(trunk, actions) for trunk in self.trunks if (actions := trunk.pump(at))]


def make_trunk(me: str, link: OverlayLink, number: int, view: TransportView, settings: TransportSettings) -> Trunk:
    """The link automaton towards the other gateway; ``number`` names its byte stream, if it is one."""
    site = link.other(view.site_of(me).name)
    peer = view.topology.site(site).gateway
    address, link_number = view.addresses[peer], view.link_number(link)
    automaton: Hop | TcpLink
    if link.protocol is LinkProtocol.TCP:
        automaton = TcpLink(me=me, peer=peer, address=address, link=link_number, stream=number, settings=settings.tcp)
    else:
        automaton = Hop(peer=peer, address=address, link=link_number, settings=settings.hop_for(link.limits))
    return Trunk(name=link.name, site=view.site_index(site), link=automaton, caller=Hello(peer, link_number))
