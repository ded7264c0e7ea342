"""Streams on which nobody has said yet who he is: greeting, version, then the first message of a client.

Their number, time and bytes are bounded: whoever connects and says nothing costs a few kilobytes for a few seconds.
"""

from __future__ import annotations

from isotone.core.codec.frame import FrameKind
from isotone.core.contract import Address
from isotone.core.errors import RemoteProtocolError
from isotone.core.versions import VersionRange
from isotone.evs.sessions.frames import HEAD_BYTES, FrameReader
from isotone.evs.sessions.greeting import GREETING_BYTES, is_greeting, pack_answer, read_greeting
from isotone.evs.sessions.messages import CLIENT_CONTROL_BYTES_MAX, Hello, Resume, client_codec


class Newcomer:
    """One such stream."""

    __slots__ = ("_greeting", "_reader", "began_at", "peer", "stream", "version")

    def __init__(self, stream: int, peer: Address, began_at: int) -> None:
        self.stream = stream
        self.peer = peer
        self.began_at = began_at
        self.version: int | None = None
        self._greeting = bytearray()
        self._reader = FrameReader(_check)

    def greet(self, data: memoryview, mine: VersionRange) -> tuple[memoryview, bytes]:
        """Collect the greeting; what is left of the data, and the answer when it is complete.

        Without a common version ``version`` stays None, and the answer says so.
        """
        if self.version is not None:
            return data, b""
        more = GREETING_BYTES - len(self._greeting)
        self._greeting += data[:more]
        if not is_greeting(self._greeting):
            raise RemoteProtocolError("a stream that does not begin as a client's does")
        if len(self._greeting) < GREETING_BYTES:
            return data[:0], b""
        answer, self.version = pack_answer(mine, read_greeting(self._greeting))
        return data[more:], answer

    def read(self, data: memoryview) -> tuple[Hello | Resume | None, memoryview]:
        """The first message, when it is complete; and what is left of the data."""
        frame, behind = self._reader.next(data, 0)
        if frame is None:
            return None, data[:0]
        message = client_codec.decode(frame.body)
        if not isinstance(message, Hello | Resume):
            raise RemoteProtocolError(f"{type(message).__name__} before a session")
        return message, data[behind:]


class Newcomers:
    """All of them, oldest first."""

    def __init__(self, count_max: int, within_us: int) -> None:
        self._all: dict[int, Newcomer] = {}
        self._count_max = count_max
        self._within_us = within_us

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, stream: int, peer: Address, at: int) -> int | None:
        """One more; the stream that must go for it, if there are too many."""
        gone = next(iter(self._all)) if len(self._all) >= self._count_max else None
        if gone is not None:
            del self._all[gone]
        self._all[stream] = Newcomer(stream, peer, at)
        return gone

    def get(self, stream: int) -> Newcomer | None:
        """The newcomer on this stream."""
        return self._all.get(stream)

    def remove(self, stream: int) -> bool:
        """It is none any more; whether it was one."""
        return self._all.pop(stream, None) is not None

    @property
    def first_expiry(self) -> int | None:
        """When the oldest had its time."""
        oldest = next(iter(self._all.values()), None)
        return None if oldest is None else oldest.began_at + self._within_us

    def expire(self, at: int) -> list[int]:
        """Streams whose time is over."""
        gone = []
        while (due := self.first_expiry) is not None and due <= at:
            gone.append(next(iter(self._all)))
            del self._all[gone[-1]]
        return gone

    def streams(self) -> list[int]:
        """All streams."""
        return list(self._all)


def _check(kind: FrameKind, size: int) -> None:
    if kind is not FrameKind.CONTROL or size > HEAD_BYTES + CLIENT_CONTROL_BYTES_MAX:
        raise RemoteProtocolError(f"a first message of kind {kind} with {size} bytes")
