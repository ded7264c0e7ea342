"""What one client was told and has not acknowledged: its send buffer, and what a resumed session gets again.

A parcel is one encoded indication, shared by all its receivers at the daemon. Parcels of a session are counted from 1;
the client acknowledges by count. What waits and what was written on the present stream are held alike, in one bound.
"""

from __future__ import annotations

from collections import deque

from isotone.core.errors import RemoteProtocolError
from isotone.evs.sessions.frames import Parts


class Parcel:
    """One frame for any number of local receivers."""

    __slots__ = ("holders", "parts", "size")

    def __init__(self, parts: Parts, size: int) -> None:
        self.parts = parts
        self.size = size
        self.holders = 0


class Memory:
    """Bytes of all parcels that somebody holds, each counted once."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0


class Backlog:
    """The parcels of one session."""

    __slots__ = ("_cleared", "_memory", "_waiting", "_written", "acknowledged", "held_bytes", "sent")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._written: deque[Parcel] = deque()  # on the present stream, or on an earlier one of a session without
        self._waiting: deque[Parcel] = deque()
        self.acknowledged = 0  # parcels that the client has
        self.sent = 0  # the highest count that was ever written; the client may have heard so much
        self.held_bytes = 0  # of both, not sharing
        self._cleared = False

    @property
    def is_single(self) -> bool:
        """Whether there is but one parcel, of whatever size."""
        return len(self._written) + len(self._waiting) == 1

    @property
    def is_written(self) -> bool:
        """Whether everything is on the stream."""
        return not self._waiting

    def push(self, parcel: Parcel) -> None:
        """One more for this client."""
        if not parcel.holders:
            self._memory.held_bytes += parcel.size
        parcel.holders += 1
        self.held_bytes += parcel.size
        self._waiting.append(parcel)

    def write(self, bytes_max: int, out: list[bytes | memoryview]) -> int:
        """Add parcels to a write until it reaches this size, at least one if there is one; how much was added."""
        size = 0
        waiting, written = self._waiting, self._written
        while waiting and size < bytes_max:
            parcel = waiting.popleft()
            out += parcel.parts
            size += parcel.size
            written.append(parcel)
        self.sent = max(self.sent, self.acknowledged + len(written))
        return size

    def acknowledge(self, count: int) -> None:
        """The client has heard so many in all."""
        if not self.acknowledged <= count <= self.sent:
            raise RemoteProtocolError(f"{count} indications heard; {self.sent} were sent, {self.acknowledged} known")
        while self.acknowledged < count and not self._cleared:
            self._release(self._written.popleft() if self._written else self._waiting.popleft())
            self.acknowledged += 1

    def rewind(self) -> None:
        """The stream is gone: all that is not acknowledged is to be written again."""
        self._waiting.extendleft(reversed(self._written))
        self._written.clear()

    def clear(self) -> None:
        """The session is over: nothing is kept, and what the client still acknowledges does not matter."""
        self._cleared = True
        for parcel in (*self._written, *self._waiting):
            self._release(parcel)
        self._written.clear()
        self._waiting.clear()

    def _release(self, parcel: Parcel) -> None:
        parcel.holders -= 1
        self.held_bytes -= parcel.size
        if not parcel.holders:
            self._memory.held_bytes -= parcel.size
