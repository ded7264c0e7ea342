"""Keys in use: one pair per handshake, one for each sender of a multicast, each with its counter and its window.

A key seals a batch in one loop: two objects for each datagram, its head and its ciphertext. The counter is the nonce;
keys are fresh in every incarnation, so no nonce comes twice after a crash.

Implements: the Noise Protocol Framework, 11.4 (counters that travel), for datagrams that get lost and overtake.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from isotone.core.contract import Address
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.daemon.security.noise import NONCE, Cipher
from isotone.daemon.security.packets import HEAD, Kind
from isotone.daemon.security.window import Window

RENEW_AFTER = 2**48
"""Datagrams under one key, after which there is a new one; the counter itself would last for 2**64."""

Parts = Sequence[bytes | memoryview]
CONTROL_MARK = b"control"


class Sealing:
    """One direction of a key: what we send."""

    __slots__ = ("_aead", "_kind", "counter", "id")

    def __init__(self, kind: Kind, id: int, aead: ChaCha20Poly1305) -> None:
        self._kind = kind
        self._aead = aead
        self.id = id
        self.counter = 0

    def seal(self, datagrams: Sequence[Parts]) -> list[Parts]:
        """All of them, each with the next counter."""
        encrypt, pack, nonce, kind, id = self._aead.encrypt, HEAD.pack, NONCE.pack, int(self._kind), self.id
        counter, out = self.counter, []
        for parts in datagrams:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            out.append((pack(kind, id, counter), encrypt(nonce(counter), body, None)))
            counter += 1
        self.counter = counter
        return list[Parts](out)

    def seal_control(self, body: bytes) -> list[Parts]:
        """One message for the other Guard."""
        counter = self.counter
        self.counter += 1
        sealed = self._aead.encrypt(NONCE.pack(counter), body, CONTROL_MARK)
        return [(HEAD.pack(Kind.CONTROL, self.id, counter), sealed)]


class Opening:
    """The other direction: what a peer sends."""

    __slots__ = ("aead", "id", "peer", "session", "view", "window")

    def __init__(
        self,
        *,
        id: int,
        aead: ChaCha20Poly1305,
        peer: Peer,
        session: Session | None = None,
        view: DaemonViewId | None = None,
        first: int = 0,
    ) -> None:
        self.id = id
        self.aead = aead
        self.peer = peer
        self.session = session  # of a pair
        self.view = view  # of a ring's key; none of announcements
        self.window = Window(first)


class Session:
    """What one handshake led to."""

    def __init__(
        self, *, daemon: DaemonId, public: bytes, certificate: bytes, address: Address, local: int, remote: int, at: int
    ) -> None:
        self.daemon, self.public, self.certificate, self.address = daemon, public, certificate, address
        self.local, self.remote = local, remote
        self.began_at = at
        self.peer: Peer
        self.third: bytes | None = None  # our third message, until the peer shows that it came
        self.third_at = at
        self.sealing: Sealing

    def take_keys(self, send: Cipher, receive: Cipher, peer: Peer) -> Opening:
        """The keys of the handshake."""
        self.sealing = Sealing(Kind.PAIRWISE, self.remote, send.aead)
        self.peer = peer
        return Opening(id=self.local, aead=receive.aead, peer=peer, session=self)

    def is_due(self, at: int, *, renew_us: int, silent_us: int) -> bool:
        """Whether there should be a new one: this is old, or the peer seems to have forgotten it."""
        unanswered_at = self.peer.unanswered_at
        is_silent = unanswered_at is not None and at - unanswered_at > silent_us
        return is_silent or at - self.began_at > renew_us or self.sealing.counter > RENEW_AFTER


class Peer:
    """One daemon that proved who it is, with all its keys."""

    def __init__(self, daemon: DaemonId) -> None:
        self.daemon = daemon
        self.sessions: list[Session] = []  # newest first
        self.sources: dict[Address, None] = {}  # where its handshakes came from
        self.ring_keys: list[Opening] = []  # newest last
        self.site_keys: list[Opening] = []
        self.wanted_at: int | None = None  # when we last asked it for a key
        self.unanswered_at: int | None = None  # when we first sent something after we last heard something

    @property
    def name(self) -> str:
        """The daemon's."""
        return self.daemon.name
