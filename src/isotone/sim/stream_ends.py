"""One end of a simulated byte stream: what it has sent and heard, as values without IO.

The two halves know nothing of each other: `Outgoing` cuts written bytes into segments as the congestion window and the
peer's window allow and repairs what is lost; `Incoming` puts what arrives into order. Sequences count bytes from 0; the
end of the stream takes the place behind the last byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from isotone.sim.congestion import Congestion, RetransmitTimeout

Cut = tuple[int, bytes, bool]
"""A segment's content: the sequence of its first byte, the bytes, and whether the stream ends behind them."""


class Outgoing:
    """The sending half."""

    __slots__ = (
        "_buffer",
        "_highest",
        "_segment",
        "_timed_at",
        "_timed_end",
        "acknowledged",
        "congestion",
        "ending",
        "is_done",
        "peer_window",
        "sent",
        "timeout",
    )

    def __init__(self, segment_bytes: int, timeout: RetransmitTimeout) -> None:
        self.congestion = Congestion(segment_bytes)
        self.timeout = timeout
        self.acknowledged = 0  # all before it arrived
        self.sent = 0  # all before it was sent; falls back to `acknowledged` after a timeout
        self.peer_window = segment_bytes
        self.ending = False
        self.is_done = False  # the end of the stream itself was acknowledged
        self._segment = segment_bytes
        self._highest = 0  # all before it was sent at least once
        self._buffer = bytearray()  # from `acknowledged` on
        self._timed_end = -1  # the acknowledgement that ends the running measurement, −1 when none runs
        self._timed_at = 0

    @property
    def buffered(self) -> int:
        """Bytes written and not yet acknowledged."""
        return len(self._buffer)

    @property
    def end(self) -> int:
        """The sequence behind all that was written, and behind the end of the stream."""
        return self.acknowledged + len(self._buffer) + (self.ending and not self.is_done)

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be acknowledged or to be sent."""
        return self.sent < self.end or self.sent > self.acknowledged

    @property
    def is_shut(self) -> bool:
        """Whether the peer has no room for a segment."""
        return self.peer_window < self._segment

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes."""
        self._buffer += data

    def due(self, now: int) -> Iterator[Cut]:
        """What may be sent now that was not."""
        while self.sent < self.end:
            room = min(self.congestion.allowance, self.peer_window) - (self.sent - self.acknowledged)
            cut = self._cut(self.sent)
            if len(cut[1]) > room or (room <= 0 and self.sent > self.acknowledged):
                return
            first_time = self.sent >= self._highest  # only then a measurement means something
            self.sent += len(cut[1]) + cut[2]
            self._highest = max(self._highest, self.sent)
            if self._timed_end < 0 and first_time:
                self._timed_end, self._timed_at = self.sent, now
            yield cut

    def repair(self) -> Cut:
        """The first segment that was not acknowledged."""
        self._timed_end = -1
        cut = self._cut(self.acknowledged)
        self.sent = max(self.sent, self.acknowledged + len(cut[1]) + cut[2])
        self._highest = max(self._highest, self.sent)
        return cut

    def heard(self, now: int, reached: int, window: int, *, bare: bool) -> bool:
        """An acknowledgement came, ``bare`` when without data; says whether to repair at once."""
        same_window, was_shut, self.peer_window = window == self.peer_window, self.is_shut, window
        if reached > self.acknowledged:
            return self._advanced(now, reached)
        if was_shut and not self.is_shut:  # what was sent meanwhile were probes that found no room
            self.sent = self.acknowledged
            self.timeout.progressed()
            return False
        if bare and reached == self.acknowledged and self.sent > reached and same_window:
            return self.congestion.duplicated(reached, self.sent)
        return False

    def expired(self) -> None:
        """Nothing was heard in time: all that was sent and not acknowledged is sent again."""
        self.timeout.expired()
        if not self.is_shut:  # a receiver without room is no sign of congestion
            self.congestion.expired(self.acknowledged, self.sent)
        self._timed_end = -1
        self.sent = self.acknowledged

    def _advanced(self, now: int, reached: int) -> bool:
        acked = reached - self.acknowledged
        self.is_done = acked > len(self._buffer)
        del self._buffer[:acked]
        self.acknowledged = reached
        self.sent = max(self.sent, reached)
        self.timeout.progressed()
        if 0 <= self._timed_end <= reached:
            self.timeout.measured(now - self._timed_at)
            self._timed_end = -1
        return self.congestion.acknowledged(acked, reached)

    def _cut(self, sequence: int) -> Cut:
        begin = sequence - self.acknowledged
        data = bytes(self._buffer[begin : begin + self._segment])
        return sequence, data, self.ending and begin + len(data) == len(self._buffer)


class Incoming:
    """The receiving half."""

    __slots__ = ("_early", "_early_keys", "_room", "ended", "reached", "unread")

    def __init__(self, room_bytes: int) -> None:
        self.reached = 0  # all before it arrived
        self.ended = False
        self.unread = 0  # bytes that a paused process has not taken
        self._room = room_bytes
        self._early: list[Cut] = []  # what came out of order, a heap
        self._early_keys: set[int] = set()

    @property
    def window(self) -> int:
        """How far behind `reached` bytes are taken; what came early lies within."""
        return max(self._room - self.unread, 0)

    def take(self, cut: Cut) -> bytes:
        """A segment arrived; returns the bytes that are now in order."""
        sequence, data, _ = cut
        if sequence + len(data) > self.reached + self.window:
            return b""
        if sequence > self.reached:
            if sequence not in self._early_keys:
                self._early_keys.add(sequence)
                heappush(self._early, cut)
            return b""
        ready = [self._append(cut)]
        while self._early and self._early[0][0] <= self.reached:
            early = heappop(self._early)
            self._early_keys.discard(early[0])
            ready.append(self._append(early))
        return b"".join(ready)

    def _append(self, cut: Cut) -> bytes:
        sequence, data, ends = cut
        if self.ended:
            return b""
        fresh = data[self.reached - sequence :]
        self.reached += len(fresh)
        if ends and sequence + len(data) == self.reached:
            self.ended = True
            self.reached += 1
        return fresh
