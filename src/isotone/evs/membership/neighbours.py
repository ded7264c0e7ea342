"""What a daemon knows of the world between others: how far sites are apart, who should be introduced to whom.

Implements: DESIGN 3, measured link weights and addresses as hints. Deviations from [Spread 6.1]: D-introduce daemons
that one daemon reaches and that do not reach each other are told where the other one is, because both may have moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotone.evs.membership.messages import DAEMONS_MAX, Distance, Refer
from isotone.evs.membership.reach import Pair, pair

if TYPE_CHECKING:
    from isotone.evs.membership.node import Node

INTRODUCE_EVERY_US = 500_000
INTRODUCTIONS_MAX = 16


class Neighbours:
    """One daemon's."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._distances: dict[str, int] = {}  # site to round trip
        self._introduced_at: dict[Pair, int] = {}

    # --- distances -------------------------------------------------------------------------------------------------

    def told(self) -> tuple[Distance, ...]:
        """As they stand on the card."""
        return tuple(Distance(site, us) for site, us in sorted(self._distances.items()))

    def measure(self) -> None:
        """The distances to other sites, coarse, so that they seldom change."""
        nearest: dict[str, int] = {}
        for name in self.node.watch.reached:
            peer = self.node.peers.by_name[name]
            if peer.site != self.node.site:
                trip = self.node.watch.detector.report(name, self.node.at).smoothed_us
                nearest[peer.site] = min(trip, nearest.get(peer.site, trip))
        coarse = {site: _coarse(us) for site, us in nearest.items()}
        if coarse != self._distances:
            self._distances = coarse
            self.node.card_changed()

    def distance(self, one: str, other: str) -> int | None:
        """The round trip between two sites, as any of their daemons measured it."""
        found = []
        for near, far in ((one, other), (other, one)):
            if near == self.node.site and far in self._distances:
                found.append(self._distances[far])
            cards = [
                peer.card for peer in self.node.peers.by_name.values() if peer.card is not None and peer.site == near
            ]
            found += [each.round_trip_us for card in cards for each in card.distances if each.site == far]
        return min(found, default=None)

    def round_trip_us(self) -> int:
        """The longest usual round trip to anybody who is reached."""
        return max(self._distances.values(), default=0)

    # --- others ----------------------------------------------------------------------------------------------------

    def introduce_all(self) -> None:
        """Two daemons that we reach and that do not reach each other may only not know where the other one is."""
        left = INTRODUCTIONS_MAX
        reached = self.node.watch.reached
        for one in reached:
            card = self.node.peers.by_name[one].card
            for other in card.cut if card is not None else ():
                if left and self.node.watch.reaches(other) and self._introduce(one, other):
                    left -= 1

    def _introduce(self, one: str, other: str) -> bool:
        """Tell both; not too often."""
        if self.node.at - self._introduced_at.get(pair(one, other), -INTRODUCE_EVERY_US) < INTRODUCE_EVERY_US:
            return False
        if len(self._introduced_at) > DAEMONS_MAX:
            self._introduced_at.clear()
        self._introduced_at[pair(one, other)] = self.node.at
        for here, there in ((one, other), (other, one)):
            self.node.send_all([here], Refer(self.node.card(), self.node.contact_of(there)))
        return True

    def forget_old(self) -> None:
        """Daemons that nobody named and that were not heard for long."""
        long_ago = self.node.at - self.node.settings.forget_us
        inside = {member.name for member in self.node.members}
        for peer in list(self.node.peers.by_name.values()):
            if not peer.configured and peer.heard_at < long_ago and peer.name not in inside:
                self.node.peers.remove(peer.name)
                self.node.watch.remove(peer.name, self.node.at)


def _coarse(us: int) -> int:
    """Rounded up to two binary digits."""
    shift = max(0, us.bit_length() - 2)
    return -(-us >> shift) << shift
