"""The membership's messages: outside of daemon views as datagrams, inside a forming one as units.

A datagram begins with a mark that no packet of a link begins with, and the digest of the cluster's name: what belongs
to other clusters is not looked at. Every message carries the *card* of its sender: who it is, where it stands, whom it
does not reach. All that comes from others is bounded and checked here.

Implements: [Spread 6.1.2]. Deviations: D-card cards instead of bare sender ids, because daemons judge each other by
where they stand and not by the kind of message; D-refuse a daemon that does not follow a NEWMEMB says why; D-relay
words are handed on to daemons of other sites who are not reached; D-broken links that failed are on the card, so that
whoever plans the next daemon view takes other gateways.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.core.contract import Address
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.versions import VersionRange

MARK = 0xD0  # no packet of a ring or a hop link begins with it
ENVELOPE_VERSION = 1
ENVELOPE = struct.Struct(">BB8s")  # mark, version, digest of the cluster's name
DATAGRAM_BYTES_MAX = 60_000
DAEMONS_MAX = 1_024
IDENTITY_BYTES = 16
HOLDING_PIECE_BYTES_MAX = 48 * 1024
HOLDING_PIECES_MAX = 512  # of one member: more than `isotone.evs.ordering.holding.RUNS_MAX` runs take

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Place = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Where = Annotated[str, msgspec.Meta(max_length=255)]
Text = Annotated[str, msgspec.Meta(max_length=512)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=DAEMONS_MAX)]
Identity = Annotated[bytes, msgspec.Meta(min_length=IDENTITY_BYTES, max_length=IDENTITY_BYTES)]
Version = Annotated[int, msgspec.Meta(ge=1, le=255)]


class _Part(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Of a message."""


class ViewName(_Part, frozen=True):
    """A daemon view's id, small."""

    epoch: Natural
    name: Annotated[str, msgspec.Meta(max_length=64)]
    incarnation: Natural

    @property
    def id(self) -> DaemonViewId:
        """The id itself."""
        return DaemonViewId(self.epoch, DaemonId(self.name, self.incarnation))


def view_name(view: DaemonViewId) -> ViewName:
    """The id as it travels."""
    return ViewName(view.epoch, view.coordinator.name, view.coordinator.incarnation)


class Contact(_Part, frozen=True):
    """A daemon as others are told of it."""

    name: Name
    incarnation: Natural
    site: Place
    address: Where

    @property
    def daemon(self) -> DaemonId:
        """Its id."""
        return DaemonId(self.name, self.incarnation)


class Distance(_Part, frozen=True):
    """The round trip to the nearest daemon of another site."""

    site: Place
    round_trip_us: Natural


class Card(_Part, frozen=True):
    """Who one is and how one stands.

    ``count`` grows with every change, so that an old card is recognised. ``attached`` is the daemon view, installed or
    forming, whose network works here, and none if there is none; ``accepted`` is the highest that was ever entered.
    ``progress`` counts what came of the exchange in a forming one. ``cut`` are known daemons that are not reached both
    ways; ``broken`` are daemons of other sites to whom a link of ours failed a moment ago, though they may be reached.
    """

    name: Name
    incarnation: Natural
    identity: Identity
    site: Place
    address: Where
    low: Version
    high: Version
    count: Natural
    epoch: Natural
    attached: ViewName | None
    installed: bool
    accepted: ViewName
    progress: Natural
    cut: Names
    distances: Annotated[tuple[Distance, ...], msgspec.Meta(max_length=DAEMONS_MAX)]
    broken: Names = ()

    @property
    def daemon(self) -> DaemonId:
        """The sender."""
        return DaemonId(self.name, self.incarnation)

    @property
    def versions(self) -> VersionRange:
        """The versions that it speaks."""
        return VersionRange(self.low, self.high)


class Said(ControlMessage, frozen=True):
    """Base of all datagrams."""

    card: Card


class Probe(Said, frozen=True, tag=0x40):
    """The detector's question."""

    nonce: Natural


class Answer(Said, frozen=True, tag=0x41):
    """The answer to it."""

    nonce: Natural


class Alive(Said, frozen=True, tag=0x42):
    """ALIVE: I am there, and this is how I stand."""


class Join(Said, frozen=True, tag=0x43):
    """JOIN: a representative gathers. ``members`` come with it, ``proposed`` are all whom it would take now."""

    members: Annotated[tuple[Contact, ...], msgspec.Meta(max_length=DAEMONS_MAX)]
    proposed: Names
    of_segment: bool  # it has no working daemon view: SEG_REP, else NET_REP


class Refer(Said, frozen=True, tag=0x44):
    """REFER: ask that one, it is our representative."""

    representative: Contact


class PlannedLink(_Part, frozen=True):
    """A link between sites, by their places among the sorted sites."""

    a: Natural
    b: Natural
    weight: Natural
    is_stream: bool
    bits_per_second: Natural
    burst_bytes: Natural


class NewMemb(Said, frozen=True, tag=0x45):
    """NEWMEMB: a daemon view forms. Members are sorted; ``gateways`` are those of the sites, sorted by site."""

    id: ViewName
    members: Annotated[tuple[Contact, ...], msgspec.Meta(min_length=1, max_length=DAEMONS_MAX)]
    gateways: Names
    links: Annotated[tuple[PlannedLink, ...], msgspec.Meta(max_length=16_384)]
    version: Version


class Refuse(Said, frozen=True, tag=0x46):
    """I do not go along with you, or with this daemon view, and why."""

    about: ViewName | None
    reason: Text


class Leave(Said, frozen=True, tag=0x47):
    """I stop."""


class Relay(Said, frozen=True, tag=0x4A):
    """A word of the daemon whose card is in it, handed on to who is not reached by that one."""

    receiver: Name
    steps: Annotated[int, msgspec.Meta(ge=0, le=2)]  # how often it may be handed on again
    inner: Annotated[bytes, msgspec.Meta(max_length=DATAGRAM_BYTES_MAX)]


Datagram = Probe | Answer | Alive | Join | Refer | NewMemb | Refuse | Leave | Relay


class StateTrans(ControlMessage, frozen=True, tag=0x48):
    """STATETRANS: what a member brings into a forming daemon view.

    ``holding`` is part ``piece`` of ``pieces`` of it; all else is the same in all of them.
    """

    attempt: ViewName
    previous: ViewName
    index: Natural  # of the sender in its previous daemon view
    holding: Annotated[bytes, msgspec.Meta(max_length=DATAGRAM_BYTES_MAX)]
    committed: Annotated[tuple[Natural, ...], msgspec.Meta(max_length=DAEMONS_MAX)]
    lamport: Natural
    epoch: Natural
    piece: Natural = 0
    pieces: Annotated[int, msgspec.Meta(ge=1, le=HOLDING_PIECES_MAX)] = 1


class Recovered(ControlMessage, frozen=True, tag=0x49):
    """I have everything that those who came from my previous daemon view have."""

    attempt: ViewName


_DATAGRAMS: ControlCodec[Datagram] = ControlCodec(
    Probe, Answer, Alive, Join, Refer, NewMemb, Refuse, Leave, Relay, bytes_max=DATAGRAM_BYTES_MAX
)
_UNITS: ControlCodec[StateTrans | Recovered] = ControlCodec(StateTrans, Recovered)


class Envelope:
    """Puts messages of one cluster into datagrams and takes them out."""

    def __init__(self, cluster: str) -> None:
        digest = blake2b(cluster.encode(), digest_size=8).digest()
        self._head = ENVELOPE.pack(MARK, ENVELOPE_VERSION, digest)

    def seal(self, message: Datagram) -> list[bytes]:
        """The message as the parts of a datagram."""
        return [self._head, _DATAGRAMS.encode(message)]

    def open(self, datagram: memoryview) -> Datagram | None:
        """The message in a datagram; nothing if it is another cluster's."""
        if bytes(datagram[: ENVELOPE.size]) == self._head:
            return _DATAGRAMS.decode(datagram[ENVELOPE.size :])
        if len(datagram) < ENVELOPE.size:
            raise RemoteProtocolError("a datagram of the membership that is cut short")
        return None


def encode_inner(message: Datagram) -> bytes:
    """A message as it stands in a `Relay`."""
    return _DATAGRAMS.encode(message)


def decode_inner(inner: bytes) -> Datagram:
    """The inverse of `encode_inner`."""
    return _DATAGRAMS.decode(memoryview(inner))


def in_pieces(state: StateTrans) -> list[StateTrans]:
    """The state as it is sent."""
    whole = state.holding
    parts = [
        whole[start : start + HOLDING_PIECE_BYTES_MAX] for start in range(0, len(whole), HOLDING_PIECE_BYTES_MAX)
    ] or [b""]
    replace = msgspec.structs.replace
    return [replace(state, holding=part, piece=place, pieces=len(parts)) for place, part in enumerate(parts)]


def joined(pieces: Mapping[int, StateTrans]) -> StateTrans | None:
    """The state that these are all pieces of, by their places; none if some are missing."""
    first = pieces.get(0)
    if first is None or len(pieces) < first.pieces:
        return None
    whole = b"".join(pieces[place].holding for place in sorted(pieces))
    return msgspec.structs.replace(first, holding=whole, piece=0, pieces=1)


def encode_exchange(message: StateTrans | Recovered) -> bytes:
    """The body of a MEMBERSHIP unit."""
    return _UNITS.encode(message)


def decode_exchange(body: memoryview) -> StateTrans | Recovered:
    """The inverse of `encode_exchange`."""
    return _UNITS.decode(body)


def contact(daemon: DaemonId, site: str, address: Address) -> Contact:
    """A daemon as others are told of it."""
    return Contact(daemon.name, daemon.incarnation, site, address)
