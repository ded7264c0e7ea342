"""Fragments: a message over the bundle's limit, cut into pieces that are stamped and ordered one by one.

What is cut is opaque here: the encoding of a bundle with that one message. A fragment says which message of its source
it belongs to, where it stands and how long the message is. The message stands at the stamp of its last fragment. Who
joins fragments, and how much it holds while some are missing, is `isotone.evs.links.fragments`.
"""

from __future__ import annotations

import struct

import msgspec

from isotone.core.codec.bundle import ENTRY_BYTES
from isotone.core.codec.bundle import HEAD as BUNDLE_HEAD
from isotone.core.codec.wire import NAMES_BYTES_MAX
from isotone.core.errors import LocalProtocolError, RemoteProtocolError

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""The default limit for one message; a daemon's settings may lower it."""

WHOLE_OVERHEAD_MAX = BUNDLE_HEAD.size + NAMES_BYTES_MAX + ENTRY_BYTES
"""What the encoding of a bundle with one message is longer than the message, at most."""

HEAD = struct.Struct("<QII")  # number of the message, offset of the fragment, length of the message
FRAGMENT_HEADER_BYTES = HEAD.size


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A piece of a large message. ``number`` is unique among the unfinished messages of its source."""

    number: int
    offset: int
    total: int
    body: bytes | memoryview

    def header(self) -> bytes:
        """What stands in front of the body on the wire."""
        return HEAD.pack(self.number, self.offset, self.total)

    @property
    def is_inside(self) -> bool:
        """Whether it lies within its message and is not empty, unless the message is."""
        size = len(self.body)
        return self.offset + size <= self.total and (size > 0 or self.total == 0)


def split(
    message: bytes | memoryview, limit: int, *, number: int, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> list[Fragment]:
    """Cut a message into fragments of at most ``limit`` bytes each, without copying; an empty one is one fragment."""
    assert limit > 0
    view = memoryview(message).cast("B")
    total = len(view)
    if total > message_bytes_max:
        raise LocalProtocolError(f"a message of {total} bytes is over the limit of {message_bytes_max} bytes")
    return [Fragment(number, start, total, view[start : start + limit]) for start in range(0, total or 1, limit)]


def parse_fragment(data: bytes | memoryview) -> Fragment:
    """The inverse of ``header() + body``; the body is a slice of the data."""
    view = memoryview(data)
    if len(view) < FRAGMENT_HEADER_BYTES:
        raise RemoteProtocolError("a fragment without a header")
    number, offset, total = HEAD.unpack_from(view)
    fragment = Fragment(number, offset, total, view[FRAGMENT_HEADER_BYTES:])
    if not fragment.is_inside:
        raise RemoteProtocolError("a fragment outside its message")
    return fragment
