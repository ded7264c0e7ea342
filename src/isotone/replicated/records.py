"""What stands in the log: one record for each command, with its session and request number.

A record begins with a mark and a version. A record without the mark is somebody else's and is passed over by every
replica; one of a newer version stops the replica that does not know it, before it could apply something else.

Implements: [COReL 8.1], "transactions represented as messages"; docs/protocols/replicated.md "Records".
"""

from __future__ import annotations

from typing import Any

import msgspec

from isotone.core.errors import InputError, LocalProtocolError

MARK = b"\xc1R"  # 0xC1 begins no MessagePack value
VERSION = 1
RECORD_BYTES_MAX = 2 * 1024 * 1024


class Opened(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A client begins a session; its number is the position of this record. ``nonce`` tells it which one is its own."""

    nonce: str
    lease: int  # in rounds of the lease clock


class Called(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A command of a session. All requests below ``settled`` were answered: their results may be forgotten."""

    session: int
    request: int
    settled: int
    kind: str
    name: str
    method: str
    arguments: tuple[Any, ...] = ()


class Renewed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The session lives."""

    session: int


class Closed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The session ends by its own wish."""

    session: int


class Ticked(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """By its own clock a server has seen this round of the lease clock last for its full time."""

    server: str
    round: int
    servers: tuple[str, ...]


class ReadMarked(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Changes nothing: whoever appended it and has applied it has everything that was ordered before."""


class Announced(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A server's program knows these commands of a class, from here on."""

    server: str
    servers: tuple[str, ...]
    name: str
    commands: tuple[str, ...]


class DigestWanted(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Changes nothing: every replica keeps the digests of its state as they are here, to be compared."""


class Removed(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A request of a session, as `Called` is: an object goes. ``who``: this participant needs a commitment no more."""

    session: int
    request: int
    settled: int
    kind: str
    name: str
    who: str = ""


Record = Opened | Called | Renewed | Closed | Ticked | ReadMarked | Announced | DigestWanted | Removed
REMOVE = "remove"
"""As a command it is told to callers and histories; it travels as `Removed`."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_HEAD = MARK + bytes((VERSION,))


def encode(record: Record) -> bytes:
    """As it stands in the log; `LocalProtocolError` for what cannot be encoded or is too large."""
    try:
        encoded = _HEAD + _encoder.encode(record)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise LocalProtocolError(f"this cannot be encoded: {error}") from error
    if len(encoded) > RECORD_BYTES_MAX:
        raise LocalProtocolError(f"a command of {len(encoded)} bytes; at most {RECORD_BYTES_MAX} fit into one record")
    return encoded


def decode(record: bytes) -> Record | None:
    """None for a record of somebody else; `InputError` for one that this program is too old for."""
    if record[: len(MARK)] != MARK:
        return None
    if len(record) <= len(_HEAD) or record[len(MARK)] != VERSION:
        raise InputError(
            "the log has a record of a newer version of replicated objects than this program knows; upgrade it"
        )
    try:
        return _decoder.decode(memoryview(record)[len(_HEAD) :])
    except msgspec.DecodeError as error:
        raise InputError(f"the log has a record of replicated objects that cannot be read: {error}") from error


READ_MARK = encode(ReadMarked())
