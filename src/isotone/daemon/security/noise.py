"""The handshake ``Noise_XX_25519_ChaChaPoly_SHA256``: two strangers prove their static keys and agree on two keys.

XX is the pattern in which both ends send their static key, because whoever calls an address need not know which daemon
is there: addresses are hints, and keys may be signed instead of listed. A message that does not fit leaves the state as
it was, so that a forged one changes nothing.

Implements: the Noise Protocol Framework, revision 34, sections 5 and 7.5. Deviations: none.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from isotone.core.errors import RemoteProtocolError

PROTOCOL = b"Noise_XX_25519_ChaChaPoly_SHA256"
PATTERN: Sequence[Sequence[str]] = (("e",), ("e", "ee", "s", "es"), ("s", "se"))
KEY_BYTES = 32
TAG_BYTES = 16
MESSAGE_BYTES_MAX = 65_535
COUNTER_MAX = 2**64 - 2
NONCE = Struct("<4xQ")

Buffer = bytes | bytearray | memoryview
Random = Callable[[int], bytes]


class Cipher:
    """A key with a counter that never comes twice."""

    __slots__ = ("_key", "aead", "counter")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.aead = ChaCha20Poly1305(key)
        self.counter = 0

    def encrypt(self, plaintext: Buffer, associated: bytes = b"") -> bytes:
        """With the next counter."""
        assert self.counter <= COUNTER_MAX, "a key that should have been renewed long ago"
        sealed = self.aead.encrypt(NONCE.pack(self.counter), plaintext, associated)
        self.counter += 1
        return sealed

    def decrypt(self, ciphertext: Buffer, associated: bytes = b"") -> bytes:
        """With the next counter, which is used up only if the text is authentic."""
        try:
            opened = self.aead.decrypt(NONCE.pack(self.counter), ciphertext, associated)
        except InvalidTag:
            raise RemoteProtocolError("not authentic") from None
        self.counter += 1
        return opened

    def rekey(self) -> None:
        """Go on with a key from which the one before cannot be found; the counter stays."""
        self._key = self.aead.encrypt(NONCE.pack(2**64 - 1), bytes(KEY_BYTES), b"")[:KEY_BYTES]
        self.aead = ChaCha20Poly1305(self._key)


class Handshake:
    """One end. `write` and `read` alternate; after the third message `split` gives the keys."""

    __slots__ = ("_chaining", "_cipher", "_ephemeral", "_remote_e", "_static", "hash", "initiator", "remote", "step")

    def __init__(self, *, initiator: bool, static: bytes, ephemeral: bytes, prologue: bytes) -> None:
        """``ephemeral`` is fresh: it is never used for a second handshake."""
        self.initiator = initiator
        self.step = 0  # messages so far
        self.remote = b""  # the other's static key, once it is known
        self.hash = self._chaining = PROTOCOL  # exactly as long as a hash
        self._cipher: Cipher | None = None
        self._static = X25519PrivateKey.from_private_bytes(static)
        self._ephemeral = X25519PrivateKey.from_private_bytes(ephemeral)
        self._remote_e = b""
        self._mix_hash(prologue)

    @property
    def finished(self) -> bool:
        """Whether both have said everything."""
        return self.step == len(PATTERN)

    def write(self, payload: bytes = b"") -> bytes:
        """Our next message."""
        assert self.step < len(PATTERN) and (self.step % 2 == 0) == self.initiator, "out of turn"
        out = b""
        for part in PATTERN[self.step]:
            if part == "e":
                public = self._ephemeral.public_key().public_bytes_raw()
                self._mix_hash(public)
                out += public
            elif part == "s":
                out += self._encrypt(self._static.public_key().public_bytes_raw())
            else:
                self._mix_exchange(part)
        self.step += 1
        return out + self._encrypt(payload)

    def read(self, message: Buffer) -> bytes:
        """The payload of the other's next message; a message that does not fit changes nothing."""
        assert self.step < len(PATTERN) and (self.step % 2 == 1) == self.initiator, "out of turn"
        before = (self.hash, self._chaining, self._cipher, self.remote, self._remote_e)
        counter = self._cipher.counter if self._cipher is not None else 0
        try:
            payload = self._read(bytes(message))
        except RemoteProtocolError:
            self.hash, self._chaining, self._cipher, self.remote, self._remote_e = before
            if self._cipher is not None:
                self._cipher.counter = counter
            raise
        self.step += 1
        return payload

    def _read(self, message: bytes) -> bytes:
        if len(message) > MESSAGE_BYTES_MAX:
            raise RemoteProtocolError("a handshake message that is too long")
        place = 0
        for part in PATTERN[self.step]:
            if part == "e":
                self._remote_e, place = _cut(message, place, KEY_BYTES)
                self._mix_hash(self._remote_e)
            elif part == "s":
                sealed, place = _cut(message, place, KEY_BYTES + TAG_BYTES)
                self.remote = self._decrypt(sealed)
            else:
                self._mix_exchange(part)
        return self._decrypt(message[place:])

    def split(self) -> tuple[Cipher, Cipher]:
        """The keys for what we send and for what we receive."""
        assert self.finished, "the handshake is not over"
        first, second = _derive(self._chaining, b"")
        pair = Cipher(first), Cipher(second)
        return pair if self.initiator else (pair[1], pair[0])

    # --- the symmetric state ---------------------------------------------------------------------------------------

    def _mix_hash(self, data: bytes) -> None:
        self.hash = hashlib.sha256(self.hash + data).digest()

    def _mix_exchange(self, part: str) -> None:
        """``es``: the initiator's ephemeral key with the responder's static one, and so on."""
        mine, theirs = (part[0], part[1]) if self.initiator else (part[1], part[0])
        own = self._ephemeral if mine == "e" else self._static
        other = self._remote_e if theirs == "e" else self.remote
        try:
            shared = own.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise RemoteProtocolError("a public key that is none") from None
        self._chaining, key = _derive(self._chaining, shared)
        self._cipher = Cipher(key)

    def _encrypt(self, plaintext: bytes) -> bytes:
        sealed = plaintext if self._cipher is None else self._cipher.encrypt(plaintext, self.hash)
        self._mix_hash(sealed)
        return sealed

    def _decrypt(self, ciphertext: bytes) -> bytes:
        opened = ciphertext if self._cipher is None else self._cipher.decrypt(ciphertext, self.hash)
        self._mix_hash(ciphertext)
        return opened


def _cut(message: bytes, place: int, size: int) -> tuple[bytes, int]:
    if len(message) < place + size:
        raise RemoteProtocolError("a handshake message that is cut short")
    return message[place : place + size], place + size


def _derive(chaining: bytes, material: bytes) -> tuple[bytes, bytes]:
    """HKDF with two outputs, section 4.3."""
    secret = hmac.digest(chaining, material, "sha256")
    first = hmac.digest(secret, b"\x01", "sha256")
    return first, hmac.digest(secret, first + b"\x02", "sha256")
