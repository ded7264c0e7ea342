"""GATHER: representatives find each other, and the smallest of them forms the next daemon view.

With a daemon view that still works this is a search and nothing more: the view goes on, and is given up only when a
larger one forms. A gathering waits until the picture is at rest: who is reached, who reaches whom, and whether a
smaller representative is about to take us along. All these waits have an end.

Implements: [Spread 6.1.8, Figures 6.6, 6.9 to 6.11]. Deviations: D-active a daemon view works on while its
representative gathers; D-clique as in `reach`; D-smaller a representative pulls daemons only out of the views of larger
ones, so that the views come to rest; D-picture the timeout depends on what is seen, so that joins are batched; D-early
nobody is waited for when all of the daemon view that ended are here, or are known not to be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.versions import highest_common
from isotone.evs.membership.messages import Join, NewMemb, PlannedLink, view_name
from isotone.evs.membership.node import Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.reach import maximal_set, plan_topology
from isotone.evs.membership.settings import InterimViews
from isotone.evs.membership.states import Reason, State
from isotone.evs.overlay.topology import LinkProtocol, Topology

if TYPE_CHECKING:
    from isotone.evs.membership.operating import Operating
    from isotone.evs.membership.segment import Segment
    from isotone.evs.membership.transfer import Transfer


class Gather:
    """A representative that looks for others."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.segment: Segment
        self.operating: Operating
        self.transfer: Transfer
        self._began_at = 0
        self._changed_at = 0
        self._picture: tuple[tuple[DaemonId, ...], tuple[str, ...]] = ((), ())
        self._heard: dict[str, tuple[int, frozenset[str]]] = {}  # representative to when it gathered, and for whom

    @property
    def is_active(self) -> bool:
        """Whether the daemon view still works."""
        return self.node.network is not None

    def enter(self, reason: Reason) -> None:
        """Begin to gather."""
        node = self.node
        node.enter(State.GATHER, reason)
        self._began_at = self._changed_at = node.at
        self._heard = {}
        node.neighbours.measure()
        self._picture = self._look()
        self._send_joins()
        node.repeat_within(node.settings.join_us)
        node.end_within(self._window_us())

    def _window_us(self) -> int:
        return self.node.settings.gather_us + 2 * self.node.neighbours.round_trip_us()

    # --- who could come --------------------------------------------------------------------------------------------

    def proposal(self) -> tuple[DaemonId, ...]:
        """Whom a daemon view would have that formed now."""
        node = self.node
        came = set(node.members if self.is_active else node.past.members)
        eligible = self._eligible()
        order = [
            node.me,
            *(each for each in eligible if each in came),
            *(each for each in eligible if each not in came),
        ]
        cuts = {each.name: node.cut_of(each.name) for each in order}
        return maximal_set(
            order,
            is_cut=lambda one, other: other in cuts[one] or one in cuts[other],
            versions=node.peers.range_of,
            site_of=node.site_of,
            gateways=node.settings.gateways,
        )

    def _eligible(self) -> list[DaemonId]:
        """Everybody who is reached, larger, and would follow, by id; smaller ones form their own."""
        node = self.node
        found = []
        for name in node.reached:
            peer = node.peers.by_name[name]
            if peer.daemon is not None and peer.daemon > node.me and self._would_follow(peer):
                found.append(peer.daemon)
        return sorted(found)

    def _would_follow(self, peer: Peer) -> bool:
        attached = peer.attached
        if attached is None or attached.coordinator == self.node.me:
            return True
        assert peer.card is not None
        if not peer.card.installed and self.node.settings.interim_views is InterimViews.DELIVER:
            return False
        return attached.coordinator > self.node.me

    def _look(self) -> tuple[tuple[DaemonId, ...], tuple[str, ...]]:
        """Whom we would take, and who would follow but is cut off from one of them."""
        taken = self.proposal()
        return taken, tuple(each.name for each in self._eligible() if each not in taken)

    # --- sending ---------------------------------------------------------------------------------------------------

    def _send_joins(self) -> None:
        node = self.node
        members = node.members if self.is_active else self.segment.members()
        join = Join(
            node.card(),
            tuple(node.contact_of(each.name) for each in members if self._is_known(each)),
            tuple(each.name for each in self._picture[0]),
            not self.is_active,
        )
        node.send_all(self._targets(), join)

    def _is_known(self, daemon: DaemonId) -> bool:
        peer = self.node.peers.by_name.get(daemon.name)
        return daemon == self.node.me or (peer is not None and peer.daemon == daemon)

    def _targets(self) -> list[str]:
        """The site, if it waits for us; elsewhere whoever speaks for the daemons that are reached."""
        node = self.node
        inside = {member.name for member in node.members}
        targets: dict[str, None] = {}
        alone: dict[str, str] = {}  # site to its smallest daemon without a daemon view
        for name in node.reached:
            peer = node.peers.by_name[name]
            if name in inside:
                continue
            if peer.attached is None:
                if peer.site == node.site:
                    targets[name] = None
                else:
                    alone.setdefault(peer.site, name)
            else:
                head = peer.attached.coordinator.name
                if head != node.me.name:
                    targets[head if node.reaches(head) else name] = None
        return [*targets, *(name for name in alone.values() if name not in targets)]

    # --- events ----------------------------------------------------------------------------------------------------

    def on_repeat(self) -> None:
        """JOIN once more."""
        self._note_picture()
        self._send_joins()
        self.node.repeat_within(self.node.settings.join_us)

    def on_join(self, peer: Peer, join: Join) -> None:
        """Another representative gathers."""
        self._heard[peer.name] = (self.node.at, frozenset(join.proposed))

    def review(self) -> None:
        """A daemon view that works may break meanwhile."""
        if self.is_active and (broken := self.node.broken_by()) is not None:
            self.segment.enter_seg(*broken)
        elif self._is_complete():
            self.on_end()

    def _is_complete(self) -> bool:
        """Whether all of the daemon view that ended are accounted for, and nobody else is reached: D-early."""
        node = self.node
        if self.is_active or node.at < node.not_before or not node.accounts_for(node.past.members):
            return False
        return {node.me.name, *node.reached} == {each.name for each in self.proposal()}

    def on_end(self) -> None:
        """Wait on, form, or give up."""
        self._note_picture()
        wait = self._wait_us()
        if wait:
            self.node.end_within(wait)
            return
        taken = self._picture[0]
        if not self.is_active or set(taken) > set(self.node.members):
            self._form(taken)
        else:
            waits = any(peer.daemon not in self.node.members for peer in self.node.smaller_representatives())
            self.operating.enter_again(Reason.LEFT_TO_SMALLER if waits else Reason.NOTHING_FOUND)

    def _note_picture(self) -> None:
        picture = self._look()
        if picture != self._picture:
            self._picture, self._changed_at = picture, self.node.at
        if picture[1]:
            self.node.neighbours.introduce_all()

    def _wait_us(self) -> int:
        """How long to wait on; 0: no longer."""
        node, window = self.node, self._window_us()
        at, age = node.at, node.at - self._began_at
        if at < node.not_before:
            return node.not_before - at
        if self._is_complete():
            return 0
        limit = node.settings.gather_max_us + window
        if age >= 2 * limit:
            return 0
        if age < limit:
            if at - self._changed_at < window // 2:
                return self._changed_at + window // 2 - at
            if self._picture[1]:
                return node.settings.join_us
        return node.settings.join_us if self._yields(age, window) else 0

    def _yields(self, age: int, window: int) -> bool:
        """Whether a smaller representative has to be given time to take us along."""
        node = self.node
        for peer in node.smaller_representatives():
            if peer.daemon in node.members:
                continue
            heard = self._heard.get(peer.name)
            if heard is None:
                if age < 2 * window:
                    return True
            elif node.me.name in heard[1] and node.at - heard[0] < window:
                return True
        return False

    # --- forming ---------------------------------------------------------------------------------------------------

    def _form(self, taken: tuple[DaemonId, ...]) -> None:
        node = self.node
        node.neighbours.measure()
        node.forget_broken()
        id = DaemonViewId(max(node.epoch, node.accepted.epoch) + 1, node.me)
        names = [each.name for each in taken]
        sites, cuts = {name: node.site_of(name) for name in names}, {name: node.cut_of(name) for name in names}
        topology = plan_topology(
            sites,
            node.settings.links,
            distance=node.neighbours.distance,
            is_cut=lambda one, other: other in cuts[one] or one in cuts[other],
            gateways=node.settings.gateways,
            avoided=node.broken_links(names),
        )
        version = highest_common(node.peers.range_of(name) for name in names)
        assert version is not None
        message = NewMemb(
            node.card(),
            view_name(id),
            tuple(node.contact_of(name) for name in names),
            tuple(site.gateway for site in topology.sites),
            _planned_links(topology),
            version,
        )
        self.transfer.begin(message, Reason.FORMED)


def _planned_links(topology: Topology) -> tuple[PlannedLink, ...]:
    places = {site.name: place for place, site in enumerate(topology.sites)}
    return tuple(
        PlannedLink(
            places[link.a],
            places[link.b],
            link.weight,
            link.protocol is LinkProtocol.TCP,
            link.limits.bits_per_second,
            link.limits.burst_bytes,
        )
        for link in topology.links
    )
