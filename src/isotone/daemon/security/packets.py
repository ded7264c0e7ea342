"""The Guard's bytes: sealed datagrams, the three messages of a handshake, the cookie, and what Guards tell each other.

Every message of a handshake ends with a keyed digest of itself that costs a microsecond to check: who does not know the
cluster's name gets no further. A caller who has to prove where he is adds a second one, keyed with a cookie.

Implements: the layout of docs/protocols/guard.md; the first check and the cookie are ideas of WireGuard, 5.3 and 5.4.
"""

from __future__ import annotations

import hmac
from enum import IntEnum
from hashlib import blake2s
from struct import Struct
from typing import Annotated

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.core.contract import Address
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.daemon.security.noise import TAG_BYTES

VERSION = 1
HEAD = Struct(">BQQ")  # kind, id of the key, counter
OVERHEAD_BYTES = HEAD.size + TAG_BYTES
KNOCK = Struct(">BBQ")  # kind, version, id of the caller's end
ANSWER = Struct(">BBQQ")  # kind, version, id of the caller's end, id of the answerer's
CHECK_BYTES = 16
COOKIE_BYTES = 16
PADDING_BYTES = 256
"""Of a first message, so that no answer is larger than what asked for it."""
HANDSHAKE_BYTES_MAX = 1024
COOKIE_US = 120_000_000
ID_MAX = 2**63 - 1


class Kind(IntEnum):
    """The first byte of a datagram; no packet of a link begins with one of these."""

    PAIRWISE = 0xE1
    CONTROL = 0xE2
    GROUP = 0xE3
    FIRST = 0xE4
    SECOND = 0xE5
    THIRD = 0xE6
    COOKIE = 0xE7


# --- what Guards tell each other -----------------------------------------------------------------------------------

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Introduction(ControlMessage, frozen=True, tag=0x140):
    """Who one is: the payload of a handshake, under the static key that it is bound to."""

    name: Name
    incarnation: Natural
    certificate: Annotated[bytes, msgspec.Meta(max_length=64)]

    @property
    def daemon(self) -> DaemonId:
        """The id."""
        return DaemonId(self.name, self.incarnation)


class KeyGiven(ControlMessage, frozen=True, tag=0x141):
    """The key of what I multicast, from this counter on; epoch 0: announcements, else the ring of this daemon view."""

    id: Natural
    key: Key
    first: Natural
    epoch: Natural
    coordinator: Annotated[str, msgspec.Meta(max_length=64)]
    incarnation: Natural

    @property
    def view(self) -> DaemonViewId:
        """The daemon view."""
        return DaemonViewId(self.epoch, DaemonId(self.coordinator, self.incarnation))


class KeyWanted(ControlMessage, frozen=True, tag=0x142):
    """I cannot read what you multicast under this key."""

    id: Natural


class Confirmed(ControlMessage, frozen=True, tag=0x143):
    """Your third message came."""


introductions: ControlCodec[Introduction] = ControlCodec(Introduction, bytes_max=256)
controls: ControlCodec[KeyGiven | KeyWanted | Confirmed] = ControlCodec(KeyGiven, KeyWanted, Confirmed, bytes_max=512)


# --- checks --------------------------------------------------------------------------------------------------------


class Checks:
    """The keyed digests at the end of handshake messages, and the cookies that prove an address."""

    def __init__(self, cluster: str, secret: bytes) -> None:
        self._key = blake2s(b"isotone guard check 1" + cluster.encode()).digest()
        self._secret = secret  # nobody else knows it

    def sign(self, message: bytes) -> bytes:
        """The message with its digest."""
        return message + self._digest(self._key, message)

    def is_signed(self, message: bytes) -> bool:
        """Whether the digest at its end is right."""
        body, digest = message[:-CHECK_BYTES], message[-CHECK_BYTES:]
        return hmac.compare_digest(self._digest(self._key, body), digest)

    def cookie(self, source: Address, at: int) -> bytes:
        """What only somebody who receives at this address knows, for a while."""
        return self._digest(self._secret, f"{at // COOKIE_US} {source}".encode())

    def prove(self, message: bytes, cookie: bytes) -> bytes:
        """The message with what proves the caller's address; zeros if there is no cookie."""
        return message + (self._digest(cookie, message) if cookie else bytes(CHECK_BYTES))

    def is_proven(self, message: bytes, source: Address, at: int) -> bool:
        """Whether the caller knows a cookie of now, or of the time just before."""
        body, proof = message[:-CHECK_BYTES], message[-CHECK_BYTES:]
        recent = (self.cookie(source, at), self.cookie(source, at - COOKIE_US))
        return any(hmac.compare_digest(self._digest(each, body), proof) for each in recent)

    def _digest(self, key: bytes, data: bytes) -> bytes:
        return blake2s(data, key=key, digest_size=CHECK_BYTES).digest()
