"""Daemons of other sites that are reached through others: who hands words on, and whose cards are passed on.

Inside a site all daemons reach each other; of two sites it is enough that a daemon of the one and a daemon of the
other do. A word takes three steps at most: to a daemon of one's own site, across, and inside the other site. A relay
knows the way by the cards, which name everybody whom their daemons do not reach. What is passed on counts as said by
the daemon of its card, and proves nothing about the way between that daemon and this one.

Implements: [Spread 3.2], sites that are connected by gateways. Deviations: D-relay of docs/protocols/membership.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId
from isotone.evs.membership.messages import Alive, Answer, Card, Datagram, Probe, Relay, decode_inner, encode_inner
from isotone.evs.membership.peers import Peer

if TYPE_CHECKING:
    from isotone.evs.membership.node import Node

STEPS_MAX = 2  # so often a word is handed on, at most
PASSED_MAX = 32  # cards that are passed on to one daemon at a time; the next look passes on the rest


class Relays:
    """What one daemon knows of ways through others, and what it hands on for them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._served: dict[tuple[str, str], None] = {}  # at the last look: who needed whose card from us
        self._last: dict[str, str] = {}  # by daemon: up to whom it was told cards, where there were too many at a time
        self.dropped = 0  # words that came here, and from here no way leads to whom they are for

    # --- who is reached --------------------------------------------------------------------------------------------

    def linked(self) -> set[str]:
        """Everybody of other sites who is reached through others and not directly."""
        node = self.node
        sites: dict[str, list[Peer]] = {}
        for name in node.watch.cut:
            peer = node.peers.by_name[name]
            if peer.site != node.site and self._may_be_there(peer):
                sites.setdefault(peer.site, []).append(peer)
        found: set[str] = set()
        helpers: list[Peer] | None = None
        for site, missing in sites.items():
            across = [peer for peer in self._direct() if peer.site == site]
            if helpers is None:
                helpers = [peer for peer in self._direct() if peer.site == node.site]
            near = [peer for peer in missing if any(_is_pair(helper, peer) for helper in helpers)]
            ways = [*across, *near]  # also who is not suspected yet: a probe of ours may be under way to it
            linked = [*near, *(peer for peer in missing if any(_is_pair(way, peer) for way in ways))]
            found |= {peer.name for peer in linked if _is_cut_off(peer)}  # else views would waver while it may answer
        return found

    def _direct(self) -> list[Peer]:
        return [self.node.peers.by_name[name] for name in self.node.watch.reached]

    def _may_be_there(self, peer: Peer) -> bool:
        """Whether nothing speaks against it but that it does not answer here."""
        held = self.node.watch.penalties.holds(peer.name, self.node.at)
        return peer.card is not None and not (peer.gone or peer.refused or held)

    def _step_to(self, name: str, *, inside: bool = False) -> Peer | None:
        """Whom to hand a word for this daemon; ``inside``: only to its own site."""
        node, peer = self.node, self.node.peers.by_name.get(name)
        if peer is None or peer.site == node.site:
            return None
        direct = self._direct()
        for way in direct:
            if way.site == peer.site and _is_pair(way, peer):
                return way
        if inside:
            return None
        far = [each for each in node.peers.by_name.values() if each.site == peer.site]
        far = [each for each in far if each is peer or _is_pair(each, peer)]
        for way in direct:
            if way.site == node.site and any(_is_pair(way, each) for each in far):
                return way
        return None

    # --- words -----------------------------------------------------------------------------------------------------

    def send(self, names: Iterable[str], message: Datagram) -> None:
        """To those of these daemons who are not reached directly, if there is a way."""
        inner: bytes | None = None
        for name in names:
            peer = self.node.peers.by_name.get(name)
            if peer is None or not _is_cut_off(peer) or (way := self._step_to(name)) is None:
                continue
            inner = inner or encode_inner(message)
            self._hand(way, name, STEPS_MAX, inner)

    def take(self, relay: Relay) -> Datagram | None:
        """A word was handed to us: what it says if it is for us; else hand it on."""
        node = self.node
        if relay.receiver == node.me.name:
            message = decode_inner(relay.inner)
            if isinstance(message, Probe | Answer | Relay):
                raise RemoteProtocolError("a word that nobody hands on")
            return message
        peer = node.peers.by_name.get(relay.receiver)
        way = peer if node.watch.reaches(relay.receiver) else self._step_to(relay.receiver, inside=True)
        if way is None or relay.steps == 0:
            self.dropped += 1
        else:
            self._hand(way, relay.receiver, relay.steps - 1, relay.inner)
        return None

    def _hand(self, way: Peer, receiver: str, steps: int, inner: bytes) -> None:
        self.node.send(way.address, Relay(self.node.card(), receiver, steps, inner))

    # --- cards -----------------------------------------------------------------------------------------------------

    def pass_on(self, card: Card) -> None:
        """A newer card of this daemon is here: those who needed the last one from us at the last look hear of it."""
        for other in self._direct() if any(owner == card.name for _, owner in self._served) else ():
            if (other.name, card.name) in self._served and self._needs(other, card):
                self._hand(other, other.name, 0, encode_inner(Alive(card)))

    def tell_all(self) -> None:
        """Once in a while everybody who is reached hears the cards of those whom he does not reach."""
        self._served = {(peer.name, card.name): None for peer in self._direct() for card in self._cards_for(peer)}
        for each in self._direct():
            self.tell(each)

    def tell_members(self, members: Iterable[DaemonId]) -> None:
        """A daemon view forms: its members hear of each other before they suspect whom they do not reach."""
        names = {member.name for member in members}
        for peer in self._direct():
            if peer.name in names and (cards := [card for card in self._cards_for(peer) if card.name in names]):
                self._served |= {(peer.name, card.name): None for card in cards}
                self._pass(cards, peer)

    def tell(self, peer: Peer) -> None:
        """This daemon hears the cards of those whom it does not reach."""
        self._pass(self._cards_for(peer), peer)

    def _pass(self, cards: list[Card], peer: Peer) -> None:
        last = self._last.pop(peer.name, "")
        if len(cards) > PASSED_MAX:
            cards.sort(key=lambda card: (card.name <= last, card.name))  # those behind the last one first
            del cards[PASSED_MAX:]
            self._last[peer.name] = cards[-1].name
        for card in cards:
            self._hand(peer, peer.name, 0, encode_inner(Alive(card)))

    def _cards_for(self, peer: Peer) -> list[Card]:
        """Of those whom it does not reach and who are in its site or ours."""
        cut = () if peer.card is None else peer.card.cut
        known = [other.card for name in cut if (other := self.node.peers.by_name.get(name)) is not None]
        return [card for card in known if card is not None and self._needs(peer, card)]

    def _needs(self, peer: Peer, card: Card) -> bool:
        """Whether a daemon has to hear of another one through us: from the other's site, or in our own."""
        if peer.site == card.site or self.node.site not in (peer.site, card.site) or peer.card is None:
            return False
        return card.name in peer.card.cut or peer.name in card.cut


def _is_cut_off(peer: Peer) -> bool:
    """Whether it is suspected, or has not answered since: it may be heard, and not hear us."""
    return bool(peer.suspected) or peer.unanswered


def _is_pair(one: Peer, other: Peer) -> bool:
    """Whether two daemons reach each other, as far as their cards say."""
    if one.card is None or other.name in one.card.cut:
        return False
    return other.card is None or one.name not in other.card.cut
