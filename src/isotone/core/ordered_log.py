"""The one ordered log that everything above the ordering layers stands on.

Implemented by COReL's green order, by hierarchical atomic broadcast, and by a plain one in memory for tests. Positions
are dense from 1; what is at a position never changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from isotone.core.errors import IsotoneError


class Maybe(IsotoneError):
    """Nobody can say yet: the record may still be ordered, at any time, or may never be [COReL 3.3].

    ``message`` is the name of the message that carries it, empty when it was not sent yet.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"maybe: {reason}")
        self.reason, self.message = reason, message


class Refused(IsotoneError):
    """The record is not taken and will never be ordered."""


class Rewound(IsotoneError):
    """A follower must begin anew, at the newest snapshot: what it read last may not be part of the order.

    Only where a data centre that was declared lost comes back with the state of the others.
    """


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One ordered record; ``message`` names the message that carried it, empty where the log has no messages."""

    position: int
    record: bytes
    message: str = ""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A state that stands for all entries up to and including ``position``."""

    position: int
    state: bytes
    digest: int = 0
    """64 bits over what the state means, where servers may write it in different bytes; 0: its bytes say all."""


class OrderedLog(Protocol):
    """Append, read, follow, and cut behind a snapshot."""

    async def append(self, record: bytes) -> int:
        """Order the record durably and return its position."""
        ...

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries first … last as far as they exist; raises `LocalProtocolError` before the oldest one kept."""
        ...

    def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on, without end."""
        ...

    async def end(self) -> int:
        """The last position that is ordered, 0 when there is none."""
        ...

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if there is one."""
        ...

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand in a snapshot; the log may then forget entries up to its position."""
        ...
