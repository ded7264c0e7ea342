"""Application packing: what a careful user of a peer does, who joins small messages before he sends them.

The packer gets all that the application has to send at this moment; it fills containers up to its limit and flushes
the last one, since nothing more is there to be added. A container has a table of lengths in front, so that splitting
costs as little as it can in Python: it is the same form as that of our own bundles.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate

from isotone.core.errors import RemoteProtocolError

COUNT = struct.Struct("<I")
LENGTH_BYTES = 4


def packed(bodies: Sequence[bytes], limit: int) -> Iterator[bytes]:
    """Containers of at most so many bytes, in order; a message that is larger has one of its own."""
    start, size = 0, COUNT.size
    for place, body in enumerate(bodies):
        cost = LENGTH_BYTES + len(body)
        if place > start and size + cost > limit:
            yield container(bodies[start:place])
            start, size = place, COUNT.size
        size += cost
    if len(bodies) > start:
        yield container(bodies[start:])


def per_container(size: int, limit: int) -> int:
    """Messages of this size that fit in one; at least one."""
    return max(1, (limit - COUNT.size) // (LENGTH_BYTES + size))


def container(bodies: Sequence[bytes]) -> bytes:
    """These messages as one."""
    count = len(bodies)
    return b"".join((struct.pack(f"<{count + 1}I", count, *map(len, bodies)), *bodies))


def split(data: bytes) -> list[bytes]:
    """The messages of a container."""
    try:
        (count,) = COUNT.unpack_from(data)
        lengths = struct.unpack_from(f"<{count}I", data, COUNT.size)
    except struct.error as error:
        raise RemoteProtocolError(f"no container: {error}") from None
    start = COUNT.size + LENGTH_BYTES * count
    if start + sum(lengths) != len(data):
        raise RemoteProtocolError("a container is not as long as it says")
    return cut(data, lengths, start)


def cut(data: bytes, lengths: Sequence[int], start: int = 0) -> list[bytes]:
    """Messages of these lengths that lie one behind the other, each as bytes of its own."""
    if lengths and lengths[0] and lengths.count(lengths[0]) == len(lengths):
        size = lengths[0]
        return [data[place : place + size] for place in range(start, start + size * len(lengths), size)]
    return [data[begin : begin + length] for begin, length in zip(accumulate(lengths, initial=start), lengths)]
