"""The messages that are sent, and the check that each member hears exactly these: per sender all of them in order.

A sender's messages are a circle of bodies that differ; sender and receivers make the same circle. So a receiver
compares what it hears with what must come next, byte by byte and at little cost, and a message that is lost, doubled,
moved or altered is found where it happens. What order the streams of several senders have is kept as a digest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache
from random import Random

from isotone.core.errors import IsotoneError

CIRCLE_BYTES = 4 * 1024 * 1024
CIRCLE_MESSAGES_MAX = 16_384
END_HEAD = b"isotone"
END = struct.Struct("<7sBQ")
"""The last message of a sender: who, and how many there were before. Shorter than every other message."""
HEAD = struct.Struct("<BI")
RUN = struct.Struct("<IQ")
SIZE_MIN = END.size + 1
WINDOW_MESSAGES = 131_072
WINDOW_BYTES = 8 * 1024 * 1024


class OrderBroken(IsotoneError):
    """A member heard something else than what was sent, or another order than another member."""


@lru_cache(maxsize=16)
def circle(sender: int, size: int) -> list[bytes]:
    """The bodies of one sender, all different, a power of two of them; nobody changes the list."""
    count = max(16, min(CIRCLE_MESSAGES_MAX, CIRCLE_BYTES // size))
    count = 1 << (count.bit_length() - 1)
    random = Random(f"{sender} {size}")
    tail = random.randbytes(size)
    return [HEAD.pack(sender, place) + tail[HEAD.size :] for place in range(count)]


@lru_cache(maxsize=16)
def twice(sender: int, size: int) -> list[bytes]:
    """A circle and the same again, so that what must come next is one slice wherever it begins."""
    return circle(sender, size) * 2


def end_of(sender: int, sent: int) -> bytes:
    """The message behind the last one."""
    return END.pack(END_HEAD, sender, sent)


class Heard:
    """What one member heard of all senders."""

    def __init__(self, senders: Sequence[int], size: int, *, ordered: bool = True) -> None:
        self._ordered = ordered
        self.total = 0
        self.counts = dict.fromkeys(senders, 0)
        self.ended: dict[int, int] = {}
        self._circles = {sender: circle(sender, size) for sender in senders}
        self._twice = {sender: twice(sender, size) for sender in senders}
        self._digest = 0
        self._run_of, self._run = -1, 0

    def take(self, sender: int, bodies: list[bytes]) -> None:
        """These came from this sender, in this order; raises `OrderBroken` where they are not what must come."""
        if not self._ordered:
            self._take_any(sender, bodies)
            return
        whole = len(self._circles[sender])
        for start in range(0, len(bodies), whole):
            part = bodies[start : start + whole] if len(bodies) > whole else bodies
            place = self.counts[sender] % whole
            if part != self._twice[sender][place : place + len(part)]:
                self._explain(sender, part)
            self.counts[sender] += len(part)
        self.total += len(bodies)
        if sender == self._run_of:
            self._run += len(bodies)
        else:
            self._end_run()
            self._run_of, self._run = sender, len(bodies)

    def end(self, body: bytes) -> None:
        """The last message of a sender came."""
        _, sender, sent = END.unpack(body)
        if self._ordered and self.counts.get(sender) != sent:
            raise OrderBroken(f"sender {sender} sent {sent} messages, {self.counts.get(sender)} came")
        self.ended[sender] = sent

    @property
    def is_over(self) -> bool:
        """Whether every sender said its last, and where messages may overtake it, all of them are there."""
        return len(self.ended) == len(self.counts) and (self._ordered or self.ended == self.counts)

    @property
    def digest(self) -> str:
        """Of the order in which messages of all senders came; equal orders have equal digests."""
        self._end_run()
        self._run_of, self._run = -1, 0
        return f"{self._digest:08x}"

    def _take_any(self, sender: int, bodies: list[bytes]) -> None:
        """Of a service without order: each has to be one of the sender's."""
        whole = self._circles[sender]
        for body in bodies:
            place = HEAD.unpack_from(body)[1] if len(body) >= HEAD.size else len(whole)
            if place >= len(whole) or whole[place] != body:
                raise OrderBroken(f"sender {sender} never sent what came")
        self.counts[sender] += len(bodies)
        self.total += len(bodies)

    def _end_run(self) -> None:
        if self._run:
            self._digest = zlib.crc32(RUN.pack(self._run_of, self._run), self._digest)

    def _explain(self, sender: int, bodies: list[bytes]) -> None:
        expected, whole = self.counts[sender], self._circles[sender]
        for offset, body in enumerate(bodies):
            if body != whole[(expected + offset) % len(whole)]:
                found = whole.index(body) if body in whole else None
                told = "is none of its messages" if found is None else f"is its message {found} (of each circle)"
                place = (expected + offset) % len(whole)
                raise OrderBroken(f"message {expected + offset} of sender {sender} (place {place}) {told}")
        raise AssertionError("the lists differ and no message does")


def is_end(body: bytes) -> bool:
    """Whether this is a sender's last."""
    return len(body) == END.size and body.startswith(END_HEAD)


def batch_of(size: int) -> int:
    """Messages that an application hands over at once; a power of two, as a circle has."""
    return max(1, min(4096, 256 * 1024 // size))


def window_of(size: int) -> int:
    """Messages of its own that a sender at full speed has not heard back before it waits, the same for every system.

    More than any of them has on its way; without it a member that hears more slowly than it sends has its inbox filled
    with what it sent itself.
    """
    return max(64, min(WINDOW_MESSAGES, WINDOW_BYTES // size))
