"""The bundle: the unit of sending, ordering and delivery. Its messages share service, groups and flags.

A bundle gets one stamp and is delivered as a whole; its messages stand consecutively in the order. Daemons never look
at single messages: the payload is one buffer, and the table of lengths and types says where each message lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from isotone.core.ids import ClientId, MessageId
from isotone.core.services import Service

BUNDLE_BYTES_MAX = 64 * 1024
GROUPS_MAX = 100
MESSAGES_MAX = 8192


class Bundle(msgspec.Struct, frozen=True, gc=False):
    """Consecutive messages of one session. ``lengths`` and ``types`` have one entry per message."""

    sender: ClientId
    first_sequence: int
    service: Service
    groups: tuple[str, ...]
    lengths: tuple[int, ...]
    types: tuple[int, ...]
    payload: bytes | memoryview
    flags: int = 0

    @property
    def count(self) -> int:
        """How many messages the bundle holds; at least one."""
        return len(self.lengths)

    @property
    def last_sequence(self) -> int:
        """The session sequence of the last message."""
        return self.first_sequence + len(self.lengths) - 1

    def message_ids(self) -> Iterator[MessageId]:
        """The ids of its messages, in order."""
        for offset in range(len(self.lengths)):
            yield MessageId(self.sender, self.first_sequence + offset)

    def bodies(self) -> list[memoryview]:
        """The messages themselves, without copying."""
        whole = memoryview(self.payload)
        cut, out = 0, []
        for length in self.lengths:
            out.append(whole[cut : cut + length])
            cut += length
        return out


def bundle_of(
    sender: ClientId,
    first_sequence: int,
    service: Service,
    groups: Sequence[str],
    bodies: Sequence[bytes],
    *,
    types: Sequence[int] = (),
    flags: int = 0,
) -> Bundle:
    """Join messages into one bundle; groups are sorted and unique, so that equal sends are equal bundles."""
    assert bodies, "a bundle holds at least one message"
    return Bundle(
        sender=sender,
        first_sequence=first_sequence,
        service=service,
        groups=tuple(sorted(set(groups))),
        lengths=tuple(map(len, bodies)),
        types=tuple(types) or (0,) * len(bodies),
        payload=bodies[0] if len(bodies) == 1 else b"".join(bodies),
        flags=flags,
    )
