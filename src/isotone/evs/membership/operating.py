"""OP: a daemon view is installed and works; its representative looks for others all the while.

Implements: [Spread 6.1.5, Figure 6.3]. Deviations: D-watch as in `watch`; D-smaller as in `gather`; D-look a
representative gathers as soon as somebody is reached who could be added, not every 90 seconds, and less and less often
while it finds nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotone.core.contract import Event, SetTimer
from isotone.detector.evidence import Reason as Evidence
from isotone.evs.membership.messages import Join, Refer
from isotone.evs.membership.network import Outcome
from isotone.evs.membership.node import LOOKUP_TIMER, Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.states import Reason, State
from isotone.evs.transport.events import Submitted

if TYPE_CHECKING:
    from isotone.evs.membership.gather import Gather
    from isotone.evs.membership.segment import Segment

ANNOUNCE_EVERY = 8  # lookups


class Operating:
    """A daemon in an installed daemon view, also while its representative gathers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.segment: Segment
        self.gather: Gather
        self._vain = 0  # gatherings in a row that found nobody
        self._look_at = 0  # the next one without prospect waits so long
        self._lookups = 0

    # --- entries ---------------------------------------------------------------------------------------------------

    def enter(self, reason: Reason) -> None:
        """A daemon view was installed."""
        node = self.node
        assert node.network is not None and node.network.installed
        node.culprit = ""
        node.enter(State.OP, reason)
        self._vain, self._look_at = 0, node.at
        self.submit_waiting()

    def enter_again(self, reason: Reason) -> None:
        """A gathering led to nothing; the daemon view works on."""
        self.node.enter(State.OP, reason)
        settings = self.node.settings
        self._look_at = self.node.at + min(settings.lookup_us << min(self._vain, 16), settings.lookup_max_us)
        self._vain += 1

    # --- the network -----------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """An event of the installed network."""
        assert self.node.network is not None
        self.take(self.node.network.handle(event))

    def take(self, outcome: Outcome) -> None:
        """What came of it."""
        node = self.node
        assert node.network is not None
        node.out += outcome.actions
        node.deliver(outcome.units, node.network.view.members)
        if outcome.failed:
            self.link_failed(outcome.failed)

    def link_failed(self, text: str) -> None:
        """The network is over; whoever was at the other end is looked at closely."""
        node = self.node
        assert node.network is not None
        topology = node.network.view.topology
        name, _, detail = text.partition(": ")
        near = topology.site(node.site)
        suspects = [each for each in near.daemons if each != node.me.name]
        for link in topology.links:
            if link.name == name and node.site in (link.a, link.b):
                far = topology.site(link.other(node.site)).gateway
                suspects = [far]
                node.link_broke(far)
        for each in suspects:
            if (peer := node.peers.by_name.get(each)) is not None:
                node.watch.accuse(peer, Evidence.FAILED_LINK, node.at, detail=detail)
        self.segment.enter_seg(Reason.LINK_FAILED, name)

    def submit_waiting(self) -> None:
        """What waited for a daemon view is stamped in this one."""
        node = self.node
        if node.waiting:
            drafts = list(node.waiting)
            node.waiting.clear()
            node.waiting_bytes = 0
            self.handle(Submitted(node.at, drafts))

    # --- others ----------------------------------------------------------------------------------------------------

    @property
    def is_representative(self) -> bool:
        """Whether this daemon is the smallest of its daemon view."""
        return self.node.members[0] == self.node.me

    def review(self) -> None:
        """Something changed: is everybody of the daemon view still there, and could it be larger?"""
        node = self.node
        broken = node.broken_by()
        if broken is not None:
            self.segment.enter_seg(*broken)
        elif self.is_representative and self._has_prospect():
            self.gather.enter(Reason.REACHED_OTHERS)

    def _has_prospect(self) -> bool:
        node = self.node
        if set(self.gather.proposal()) > set(node.members):
            if node.at >= node.not_before:
                return True
            self.look_within(node.not_before - node.at)
        outside = any(peer.daemon not in node.members for peer in node.smaller_representatives())
        return outside and node.at >= self._look_at

    def on_lookup(self) -> None:
        """Once in a while, whatever was heard."""
        node = self.node
        node.neighbours.measure()
        node.forget_broken()
        self._lookups += 1
        if self._lookups % ANNOUNCE_EVERY == 1:
            node.announce()
        else:
            node.call_seeds()
        node.news = True
        node.neighbours.introduce_all()
        node.relays.tell_all()
        node.neighbours.forget_old()
        self.look_within(node.settings.lookup_us)

    def look_within(self, after_us: int) -> None:
        """Look again after this long."""
        self.node.looks_at = self.node.at + after_us
        self.node.out.append(SetTimer(LOOKUP_TIMER, after_us))

    def on_join(self, peer: Peer, join: Join) -> None:
        """Somebody gathers: the representative gathers too, others say who that is."""
        node = self.node
        if join.card.daemon in node.members:
            return  # its card says that it left: `review` draws the conclusion
        if not self.is_representative:
            head = node.members[0]
            known = node.peers.by_name.get(head.name)
            if known is not None and known.daemon == head:
                node.send_all([peer.name], Refer(node.card(), node.contact_of(head.name)))
            return
        asks_us = join.card.daemon < node.me and node.me.name in join.proposed
        if node.reaches(peer.name) and (asks_us or self._has_prospect()):
            self.gather.enter(Reason.JOIN_RECEIVED)
            self.gather.on_join(peer, join)
