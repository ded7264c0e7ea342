"""Whom a daemon knows: identities, addresses, versions, and where each of them says that it stands.

A daemon is known by its name, and is proven to be the same one by its identity, which lies on its disk; addresses are
hints and follow the packets. Who claims a name or an identity that is somebody else's is refused, and so is who shares
no version with us; both sides learn the reason. An incarnation starts once and at one address: cards of one incarnation
that name two addresses are of two daemons, one a copy of the other.

Implements: DESIGN 3, names and versions. Deviations from [Spread 6.1]: daemons that nobody named may come, and any may
come back elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from isotone.core.contract import Address
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.versions import VersionRange, highest_common
from isotone.evs.membership.messages import DAEMONS_MAX, Card, Contact
from isotone.evs.membership.settings import KnownDaemon, MembershipSettings

CLAIM_US = 10_000_000
"""Who was heard within this time keeps his name against a claimant with another identity."""
NOWHERE = Address("")
CLAIMS_MAX = 64
"""So many who were refused and are nobody whom we know are remembered, the latest."""


class Learned(Enum):
    """What a card was."""

    SAME = "nothing new"
    NEWS = "it stands elsewhere"
    NEWCOMER = "a daemon, or an incarnation, that was not met before"
    STALE = "one of an earlier incarnation"
    REFUSED = "somebody whom we refuse"
    ECHO = "our own"


@dataclass
class Peer:
    """One daemon as it is known here."""

    name: str
    site: str
    address: Address
    configured: bool = False
    incarnation: int | None = None  # the latest that was met
    identity: bytes = b""
    card: Card | None = None
    heard_at: int = 0
    two_way: bool = False  # it answered a probe since it was last suspected
    suspected: str = ""  # the detector's evidence, while it is suspected
    suspected_at: int = 0
    unanswered: bool = False  # it was suspected and has not answered since, though it may be heard: one way only
    gone: bool = False  # it said good-bye, or was removed
    refused: str = ""  # why we refuse it
    refused_at: int = 0
    refuses: str = ""  # why it refuses us

    @property
    def daemon(self) -> DaemonId | None:
        """Its id, once it was met."""
        return None if self.incarnation is None else DaemonId(self.name, self.incarnation)

    @property
    def attached(self) -> DaemonViewId | None:
        """Where its last card says that it is."""
        if self.card is None or self.card.attached is None:
            return None
        return self.card.attached.id


@dataclass(frozen=True)
class Claim:
    """Somebody at an address was refused who is none of those whom we know."""

    name: str
    reason: str
    at: int


@dataclass
class Peers:
    """All of them, by name."""

    me: DaemonId
    identity: bytes
    settings: MembershipSettings
    address: Address = NOWHERE  # our own
    foreign: int = 0  # datagrams of other clusters
    malformed: int = 0  # messages that contradict themselves
    turned_away: int = 0  # strangers for whom there was no place
    unwanted: set[str] = field(default_factory=set)  # names that the settings took out at run time
    _conflict: str = ""  # somebody else was there under our own name or identity
    _conflict_heard_at: int = 0
    by_name: dict[str, Peer] = field(default_factory=dict)
    by_address: dict[Address, Peer] = field(default_factory=dict)
    claims: dict[Address, Claim] = field(default_factory=dict)  # latest last
    _by_identity: dict[bytes, str] = field(default_factory=dict)

    # --- settings --------------------------------------------------------------------------------------------------

    def configure(self, known: KnownDaemon) -> bool:
        """The settings name this daemon; True when it was not known."""
        if known.name == self.me.name:
            return False
        peer = self.by_name.get(known.name)
        if peer is None:
            peer = self.by_name[known.name] = Peer(known.name, known.site, known.address, configured=True)
            self.by_address[known.address] = peer
            return True
        peer.configured, peer.gone = True, False
        if not peer.two_way:
            self._move(peer, known.address)
        return False

    def remove(self, name: str) -> Peer | None:
        """The daemon is not wanted any more."""
        peer = self.by_name.pop(name, None)
        if peer is not None:
            self._release(peer)
        return peer

    # --- learning --------------------------------------------------------------------------------------------------

    def learn(self, card: Card, source: Address, at: int) -> tuple[Learned, str]:
        """A card came from this address; what it was, and why its sender is refused if it is."""
        peer = self.by_name.get(card.name)
        if peer is not None and (copied := self._copied(peer, card, source)):
            self._claimed(card, source, copied, at)
            return Learned.REFUSED, copied
        if peer is not None and _is_earlier(card, peer):
            return Learned.STALE, ""  # whatever else is wrong with it is over
        problem = self._problem(card, source, at)
        if problem is None:
            return Learned.ECHO, ""
        if problem:
            if peer is None or peer.identity not in (b"", card.identity):
                self._claimed(card, source, problem, at)
            else:
                peer.refused, peer.refused_at, peer.two_way = problem, at, False
            return Learned.REFUSED, problem
        if peer is None:
            if len(self.by_name) >= DAEMONS_MAX:
                self.turned_away += 1
                return Learned.REFUSED, "too many daemons are known already"
            peer = self.by_name[card.name] = Peer(card.name, card.site, source)
        return self._take(peer, card, source, at), ""

    def _claimed(self, card: Card, source: Address, problem: str, at: int) -> None:
        self.claims.pop(source, None)
        self.claims[source] = Claim(card.name, problem, at)
        if len(self.claims) > CLAIMS_MAX:
            del self.claims[next(iter(self.claims))]

    def _copied(self, peer: Peer, card: Card, source: Address) -> str:
        """Why this is not the daemon that we know, although it has its name and its identity."""
        if card.identity != peer.identity or source == peer.address:
            return ""
        if _is_earlier(card, peer):
            return f"a later incarnation of {peer.name} is at {peer.address}"
        known = peer.card
        if known is not None and card.incarnation == known.incarnation and card.address != known.address:
            return f"the name and the identity of {peer.name} are those of a daemon at {peer.address}"
        return ""

    def _take(self, peer: Peer, card: Card, source: Address, at: int) -> Learned:
        newcomer = peer.incarnation != card.incarnation or peer.identity != card.identity
        if newcomer:
            self._by_identity.pop(peer.identity, None)
            self._by_identity[card.identity] = peer.name
            peer.incarnation, peer.identity, peer.card = card.incarnation, card.identity, None
            peer.two_way, peer.unanswered, peer.suspected = False, False, ""
            peer.gone, peer.refused, peer.refuses = False, "", ""
        peer.heard_at = at
        before = peer.card
        if before is not None and card.count < before.count:
            return Learned.SAME  # it was overtaken: what is said counts, how it stands is known better
        self._move(peer, source)
        self.claims.pop(source, None)
        peer.site, peer.card, peer.refused = card.site, card, ""
        if newcomer:
            return Learned.NEWCOMER
        return Learned.SAME if before is not None and before.count == card.count else Learned.NEWS

    def _problem(self, card: Card, source: Address, at: int) -> str | None:
        """Why its sender is refused; empty if it is not; none if it is ourselves."""
        if card.name == self.me.name or card.identity == self.identity:
            if card.name == self.me.name and card.identity == self.identity:
                is_same = card.incarnation == self.me.incarnation
                if card.incarnation < self.me.incarnation or (is_same and self.address in ("", card.address)):
                    return None  # our own words, or those of an earlier incarnation, still on their way
                if is_same:
                    self._conflict = f"another daemon at {source} has the name and the identity of {self.me.name}"
                else:
                    self._conflict = f"a later incarnation of {self.me.name} is at {source}"
            elif card.name == self.me.name:
                self._conflict = f"another daemon at {source} has the name {self.me.name}"
            else:
                self._conflict = f"{card.name} at {source} has the identity of {self.me.name}"
            self._conflict_heard_at = at
            return self._conflict
        if card.name in self.unwanted:
            return f"{card.name} was removed from the settings of {self.me.name}"
        if highest_common([self.settings.versions, card.versions]) is None:
            ours, theirs = self.settings.versions, card.versions
            return f"{card.name} speaks versions {theirs}, {self.me.name} {ours}: none in common"
        holder = self._by_identity.get(card.identity)
        if holder is not None and holder != card.name and self._is_held(holder, at):
            return f"the identity of {card.name} is that of {holder}"
        peer = self.by_name.get(card.name)
        if peer is not None and peer.identity not in (b"", card.identity) and self._is_held(card.name, at):
            return f"the name {card.name} is taken by a daemon with another identity"
        return ""

    def conflict(self, at: int) -> str:
        """Who claims our own name or identity; empty when nobody does any more."""
        return self._conflict if at - self._conflict_heard_at < CLAIM_US else ""

    def _is_held(self, name: str, at: int) -> bool:
        peer = self.by_name.get(name)
        return peer is not None and not peer.gone and at - peer.heard_at < CLAIM_US

    def mention(self, contact: Contact, at: int) -> bool:
        """A third daemon tells of this one; True when it was not known, or not there."""
        if contact.name == self.me.name or contact.name in self.unwanted:
            return False
        peer = self.by_name.get(contact.name)
        address = Address(contact.address)
        if peer is None:
            if len(self.by_name) >= DAEMONS_MAX:
                return False
            peer = self.by_name[contact.name] = Peer(contact.name, contact.site, address, heard_at=at)
            self.by_address.setdefault(address, peer)
            return True
        is_old = peer.incarnation is not None and contact.incarnation < peer.incarnation
        if is_old or peer.two_way or not address or peer.address == address:
            return False
        self._move(peer, address)
        return True

    def _move(self, peer: Peer, address: Address) -> None:
        if address == peer.address and self.by_address.get(address) is peer:
            return
        if self.by_address.get(peer.address) is peer:
            del self.by_address[peer.address]
        peer.address = address
        self.by_address[address] = peer

    def _release(self, peer: Peer) -> None:
        if self.by_address.get(peer.address) is peer:
            del self.by_address[peer.address]
        if self._by_identity.get(peer.identity) == peer.name:
            del self._by_identity[peer.identity]

    def recent_claims(self, at: int) -> list[tuple[Address, Claim]]:
        """Of those who were refused of late; whoever is still there was heard within this time."""
        return [(where, claim) for where, claim in self.claims.items() if at - claim.at < CLAIM_US]

    def range_of(self, name: str) -> VersionRange:
        """The versions of a daemon that was met, or our own."""
        peer = self.by_name.get(name)
        return self.settings.versions if peer is None or peer.card is None else peer.card.versions


def _is_earlier(card: Card, peer: Peer) -> bool:
    """Whether it is of an earlier incarnation of this daemon than the one that we know."""
    return peer.incarnation is not None and card.incarnation < peer.incarnation and card.identity == peer.identity
