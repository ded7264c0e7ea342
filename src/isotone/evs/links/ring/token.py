"""The token and the ring's packets on the wire.

Implements: [Spread 4.1], the token's fields. Deviations: D-visit the token counts its visits, so that a copy of an old
one is recognised and a member knows whether everyone was visited since its own last turn; D-rest it names who sent
last, with whom it rests when nothing is to be done, and the visit at which it last left the ring's order to go to
whoever asked for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import Frame

PACKET = struct.Struct("!BBHQQ")  # kind, flags, sender, ring, link sequence or visit
LONE_PART = struct.Struct("!BBHQQBBHIII")  # such a packet that is one part of a large frame, with the part's header
TOKEN = struct.Struct("!QQQQHIQQQHHHQH")
NOBODY = 0xFFFF


class PacketKind(IntEnum):
    """What a ring packet is."""

    DATA = 1
    TOKEN = 2
    REQUEST = 3  # somebody wants the resting token
    SEEN = 4  # the token of this visit came here, perhaps to rest


class Token(msgspec.Struct, frozen=True, gc=False):
    """The ring's one token."""

    visit: int  # grows by one at every hop
    link_sequence: int  # the highest of any packet sent on the ring
    received: int  # every packet up to here was received by all: the packet line
    received_modifier: int  # who lowered it last, or NOBODY
    flow: int  # packets sent during the last rotation
    site_sequence: int
    site_lamport: int
    site_line: int  # every unit with a time of at most this was received by all of the site: the message line
    site_line_modifier: int
    rest_with: int  # who sent last
    jumped_at: int  # the visit at which it last left the ring's order
    calm: int  # hops since anything changed
    missing: tuple[int, ...] = ()  # link sequences asked for
    urgent_at: int = 0  # the last visit at which something was sent whose senders wait for the lines to rise


class Origination(msgspec.Struct, frozen=True, gc=False):
    """What a member brings into the ring at a visit of the token."""

    frames: Sequence[Frame]
    site_sequence: int
    site_lamport: int
    urgent: bool = False  # somebody waits for the lines to rise, so the token must go round


class Origin(Protocol):
    """The member's side of a visit: stamps what waits and says how far it has received everything."""

    def is_waiting(self) -> bool:
        """Whether something wants to be stamped."""
        ...

    def originate(self, *, site_sequence: int, site_lamport: int, bytes_max: int) -> Origination:
        """Stamp what waits, up to so many bytes; the Lamport time returned is at least all that was received here."""
        ...

    def agreed_line(self) -> int:
        """Every unit with a time of at most this was received here."""
        ...


def encode_token(token: Token) -> bytes:
    """The token behind its packet header."""
    fixed = TOKEN.pack(
        token.link_sequence,
        token.received,
        token.jumped_at,
        token.urgent_at,
        token.received_modifier,
        token.flow,
        token.site_sequence,
        token.site_lamport,
        token.site_line,
        token.site_line_modifier,
        token.rest_with,
        min(token.calm, 0xFFFF),
        token.visit,
        len(token.missing),
    )
    return fixed + struct.pack(f"!{len(token.missing)}Q", *token.missing)


def decode_token(body: memoryview) -> Token:
    """The inverse of `encode_token`."""
    try:
        fields = TOKEN.unpack_from(body)
        missing = struct.unpack_from(f"!{fields[-1]}Q", body, TOKEN.size)
    except struct.error:
        raise RemoteProtocolError("a token cut short") from None
    if len(body) != TOKEN.size + 8 * len(missing):
        raise RemoteProtocolError("a token with a tail")
    (link_sequence, received, jumped_at, urgent_at, modifier, flow, *site, rest_with, calm, visit, _) = fields
    if received > link_sequence or max(jumped_at, urgent_at) > visit + 1:
        raise RemoteProtocolError("a token that contradicts itself")
    site_sequence, site_lamport, site_line, line_modifier = site
    return Token(
        visit=visit,
        link_sequence=link_sequence,
        received=received,
        received_modifier=modifier,
        flow=flow,
        site_sequence=site_sequence,
        site_lamport=site_lamport,
        site_line=site_line,
        site_line_modifier=line_modifier,
        rest_with=rest_with,
        jumped_at=jumped_at,
        calm=calm,
        missing=missing,
        urgent_at=urgent_at,
    )


def lower_or_raise(value: int, modifier: int, *, mine: int, top: int, me: int) -> tuple[int, int]:
    """One member's turn at a line on the token: lower it to one's own, or raise it if nobody else holds it down.

    Who raises it to less than the top still holds it down, so that nobody raises it over that head.
    """
    if mine < value or modifier in (me, NOBODY):
        return mine, NOBODY if mine >= top else me
    return value, modifier
