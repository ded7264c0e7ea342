"""How a member of a ring reaches the others: packet headers, LAN multicast where there is one, else unicast to each.

Implements: [Spread 4.1], the sending of packets on the LAN. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isotone.core.contract import Action, Address, MulticastDatagrams, SendDatagrams
from isotone.evs.links.contract import LinkCounters
from isotone.evs.links.ring.packets import Datagram
from isotone.evs.links.ring.token import PACKET, PacketKind, Token, encode_token


class Dispatch:
    """One member's sending side; it keeps nothing but who is where."""

    __slots__ = ("_addresses", "_counters", "_me", "_multicast", "_others", "_ring", "_site")

    def __init__(
        self,
        *,
        ring: int,
        site: str,
        me: int,
        others: Sequence[int],
        addresses: Mapping[int, Address],
        multicast: bool,
        counters: LinkCounters,
    ) -> None:
        self._ring, self._site, self._me, self._multicast = ring, site, me, multicast
        self._addresses, self._others, self._counters = addresses, others, counters

    @property
    def copies(self) -> int:
        """How many packets go out for one that is for all: one for each other member, or one for the whole LAN."""
        return min(len(self._others), 1) if self._multicast else len(self._others)

    def header(self, kind: PacketKind, number: int, flags: int = 0) -> bytes:
        """What every packet begins with."""
        return PACKET.pack(kind, flags, self._me, self._ring, number)

    def to_all(self, datagrams: Sequence[Datagram]) -> list[Action]:
        """To every other member."""
        if not datagrams or not self._others:
            return []
        if self._multicast:
            return [MulticastDatagrams(self._site, datagrams)]
        return [SendDatagrams(self._addresses[member], datagrams) for member in self._others]

    def word_to_all(self, kind: PacketKind, number: int, flags: int = 0) -> list[Action]:
        """A packet that is nothing but its header."""
        self._count(self.copies, PACKET.size)
        return self.to_all([[self.header(kind, number, flags)]])

    def word_to(self, member: int, kind: PacketKind, number: int) -> Action:
        """The same to one member."""
        self._count(1, PACKET.size)
        return SendDatagrams(self._addresses[member], [[self.header(kind, number)]])

    def token_to(self, member: int, token: Token) -> Action:
        """The token."""
        packet = [self.header(PacketKind.TOKEN, token.visit), encode_token(token)]
        self._count(1, sum(map(len, packet)))
        return SendDatagrams(self._addresses[member], [packet])

    def _count(self, packets: int, size: int) -> None:
        """Packets of this size each."""
        self._counters.packets_sent += packets
        self._counters.bytes_sent += packets * size
