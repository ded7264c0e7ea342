"""Records of a guarded stream: two bytes of length, then a message of the handshake or a sealed piece of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.errors import RemoteProtocolError
from isotone.daemon.security.handshakes import Refusal
from isotone.daemon.security.noise import MESSAGE_BYTES_MAX, TAG_BYTES, Buffer, Cipher

MAGIC = b"ISON"
HANDSHAKE_BYTES_MAX = 512
PIECE_BYTES_MAX = MESSAGE_BYTES_MAX - TAG_BYTES
REKEY_EVERY = 1 << 16
"""Records after which both ends go on with another key."""


def with_length(message: bytes) -> bytes:
    """A message of the handshake as a record."""
    return len(message).to_bytes(2, "big") + message


def sealed_records(cipher: Cipher, data: Sequence[bytes | memoryview]) -> list[bytes]:
    """What is written, as records: a length and a ciphertext for each piece."""
    whole = memoryview(data[0] if len(data) == 1 else b"".join(data))
    out = []
    for place in range(0, len(whole), PIECE_BYTES_MAX):
        sealed = cipher.encrypt(whole[place : place + PIECE_BYTES_MAX])
        out += [len(sealed).to_bytes(2, "big"), sealed]
        if cipher.counter % REKEY_EVERY == 0:
            cipher.rekey()
    return out


class Reader:
    """Bytes in, records out; holds at most one record that is cut."""

    __slots__ = ("_data", "cipher", "is_begun")

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_begun = False  # the mark at the beginning is behind us
        self.cipher: Cipher | None = None

    def add(self, data: Buffer) -> None:
        """Bytes came."""
        self._data += data

    def peek(self, size: int) -> bytes:
        """The first bytes, without taking them."""
        return bytes(self._data[:size])

    def begin(self, size: int) -> None:
        """Take the mark away."""
        del self._data[:size]
        self.is_begun = True

    def rest(self) -> bytes:
        """All that is here."""
        data, self._data = bytes(self._data), bytearray()
        return data

    def message(self, bytes_max: int) -> bytes | None:
        """The next record as it is, once it is complete."""
        if len(self._data) < 2:
            return None
        size = int.from_bytes(self._data[:2], "big")
        if size > bytes_max:
            raise Refusal("malformed")
        if len(self._data) < 2 + size:
            return None
        message = bytes(self._data[2 : 2 + size])
        del self._data[: 2 + size]
        return message

    def opened(self) -> bytes:
        """What all complete records hold, joined."""
        cipher = self.cipher
        assert cipher is not None
        data, place, out = memoryview(self._data), 0, []
        try:
            while len(data) - place >= 2:
                size = int.from_bytes(data[place : place + 2], "big")
                if len(data) - place < 2 + size:
                    break
                out.append(cipher.decrypt(data[place + 2 : place + 2 + size]))
                place += 2 + size
                if cipher.counter % REKEY_EVERY == 0:
                    cipher.rekey()
        except RemoteProtocolError:
            raise Refusal("not authentic") from None
        finally:
            data.release()
        del self._data[:place]
        return out[0] if len(out) == 1 else b"".join(out)
