"""SEG and REP: after a loss, who else of the site is there, and who represents it.

Implements: [Spread 6.1.6, 6.1.7, Figures 6.5, 6.7, 6.8]. Deviations: D-alive the end of a daemon view is told to all
its members and not only to the site, so that nobody waits for a timeout of his own; D-newmemb a NEWMEMB is followed in
SEG too, because its coordinator would otherwise wait in vain; D-early SEG ends as soon as all of the daemon view that
ended are accounted for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotone.core.ids import DaemonId
from isotone.evs.membership.messages import Alive, Join, Refer
from isotone.evs.membership.node import Node
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.states import Reason, State

if TYPE_CHECKING:
    from isotone.evs.membership.gather import Gather

DECLINED_MAX = 4


class Segment:
    """The two states of a daemon without a daemon view that works and without the task to make one."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.gather: Gather
        self.representative = ""  # in REP
        self._lost: tuple[DaemonId, ...] = ()  # of the daemon view that ended
        self._declined: dict[str, tuple[int, int]] = {}  # who gathered without us: how often, when last

    # --- entries ---------------------------------------------------------------------------------------------------

    def enter_seg(self, reason: Reason, culprit: str = "") -> None:
        """DeclareMembLoss: whatever network there was is over; say so, and look around."""
        node = self.node
        lost = node.others(node.members)
        self._lost = tuple(node.members)
        node.detach()
        node.culprit = culprit
        node.enter(State.SEG, reason)
        self.representative = ""
        node.send_all(dict.fromkeys([*lost, *self._site_names()]), Alive(node.card()))
        node.announce()
        node.repeat_within(node.settings.alive_us)
        node.end_within(node.settings.segment_us)

    def _enter_rep(self, reason: Reason, representative: str) -> None:
        self.representative = representative
        self.node.enter(State.REP, reason)
        self.node.end_within(self.node.settings.represented_us)

    # --- the site --------------------------------------------------------------------------------------------------

    def _site_names(self) -> list[str]:
        node = self.node
        return [name for name in node.watch.reached if node.peers.by_name[name].site == node.site]

    def members(self) -> list[DaemonId]:
        """Who is in the same position in this site, oneself among them, smallest first."""
        node = self.node
        found = [node.me]
        for name in self._site_names():
            peer = node.peers.by_name[name]
            if peer.attached is None and peer.daemon is not None and not self._has_declined(name):
                found.append(peer.daemon)
        return sorted(found)

    def _has_declined(self, name: str) -> bool:
        """Whether a daemon gathers for the site, knows of us and leaves us out, because of somebody else's cut."""
        count, at = self._declined.get(name, (0, 0))
        return count >= DECLINED_MAX and self.node.at - at < self.node.settings.represented_us

    # --- events ----------------------------------------------------------------------------------------------------

    def on_repeat(self) -> None:
        """ALIVE once more."""
        self.node.send_all(self._site_names(), Alive(self.node.card()))
        self.node.announce()
        self.node.repeat_within(self.node.settings.alive_us)

    def on_end(self) -> None:
        """The time of SEG, or the patience of REP, is over."""
        if self.node.state is State.REP:
            self.enter_seg(Reason.REPRESENTATIVE_SILENT, self.representative)
            return
        smallest = self.members()[0]
        if smallest == self.node.me:
            self.gather.enter(Reason.SMALLEST_IN_SITE)
        else:
            self._enter_rep(Reason.SMALLER_IN_SITE, smallest.name)

    def on_join(self, peer: Peer, join: Join) -> None:
        """The representative of the site gathers, or somebody else who has to ask ours."""
        node = self.node
        in_site = peer.site == node.site and join.of_segment and join.card.daemon < node.me
        if not in_site or not node.watch.reaches(peer.name):
            smallest = self.members()[0]
            if smallest != join.card.daemon:
                node.send_all([peer.name], Refer(node.card(), node.contact_of(smallest.name)))
            return
        if node.me.name not in join.proposed:
            self._declined[peer.name] = (self._declined.get(peer.name, (0, 0))[0] + 1, node.at)
            node.send_all([peer.name], Alive(node.card()))
            if node.state is State.REP and peer.name == self.representative and self._has_declined(peer.name):
                self.enter_seg(Reason.REPRESENTATIVE_DECLINES, peer.name)
            return
        self._declined.pop(peer.name, None)
        if node.state is State.SEG:
            self._enter_rep(Reason.JOIN_IN_SITE, peer.name)
        elif peer.name <= self.representative or not node.watch.reaches(self.representative):
            self.representative = peer.name
            node.end_within(node.settings.represented_us)

    def review(self) -> None:
        """Whether the representative is still there; and whether there is anybody left to look for: D-early."""
        if self.node.state is State.SEG and len(self._lost) > 1 and self.node.accounts_for(self._lost):
            self.on_end()
            return
        if self.node.state is State.REP and not self.node.watch.reaches(self.representative):
            self.enter_seg(Reason.REPRESENTATIVE_LOST, self.representative)
