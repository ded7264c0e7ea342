"""The messages that are ordered, and their names.

A message holds the records that one append or several together brought: it is the unit of ordering, as a bundle is
below. Its name is its origin with a counter, dense from 1; its timestamp is the Lamport time of its sender.

Implements: [COReL 3.2]. Deviations: D-life a sender is one life of a server, because what a server had sent and not yet
heard itself when it crashed may live on elsewhere, and a counter that went on would give one name to two messages;
D-stamp the timestamp is the sender's own, because a message may be sent a second time (its first copy was not accepted
in the view that it reached), and must keep its place among red ones.
"""

from __future__ import annotations

import msgspec

from isotone.core.codec.control import Natural
from isotone.core.names import CLIENT_NAME_MAX
from isotone.corel.configuration import Configuration

MESSAGE_OVERHEAD = CLIENT_NAME_MAX + 36
RECORD_OVERHEAD = 5
CHANGE_OVERHEAD = 8_192  # names of servers, and the rule


class Origin(msgspec.Struct, frozen=True, order=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """One life of one server."""

    server: str
    life: Natural

    def __str__(self) -> str:
        return f"{self.server}.{self.life}"


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Records that stand together in the order, or the next configuration. With neither it is a header: a name."""

    origin: Origin
    counter: Natural
    lamport: Natural
    records: tuple[bytes, ...]
    change: Configuration | None = None

    @property
    def is_header(self) -> bool:
        """Whether it only stands for a message."""
        return not self.records and self.change is None

    @property
    def name(self) -> tuple[Origin, int]:
        """Unique for all time."""
        return self.origin, self.counter

    @property
    def stamp(self) -> tuple[int, Origin]:
        """Unique, and above that of everything its sender had [COReL 4.1]."""
        return self.lamport, self.origin

    @property
    def size(self) -> int:
        """At most so many bytes on the wire and on disk."""
        own = sum(map(len, self.records)) + RECORD_OVERHEAD * len(self.records) + MESSAGE_OVERHEAD
        return own + CHANGE_OVERHEAD if self.change is not None else own

    def header(self) -> Message:
        """The same without its records."""
        return Message(self.origin, self.counter, self.lamport, ())

    def __str__(self) -> str:
        return f"{self.origin}:{self.counter}"


class Range(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Consecutive messages of one origin, both ends included."""

    origin: Origin
    first: Natural
    last: Natural
