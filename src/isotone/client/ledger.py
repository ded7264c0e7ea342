"""What became of every message that was sent: taken by the daemon, dropped, heard by ourselves, or unknown.

One `Sent` for each submission, which is never cut and so lies in one bundle. Tickets are those of the session below.

Implements: [Spread 3.5], the stability that the service gives: an acknowledgement is a SAFE delivery of one's own
message before the signal [Spread 2.14.2], and nothing less.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from isotone.client.errors import ClientError, NotSent, Unconfirmed, UnknownFate
from isotone.client.events import ANSWER, CALL, NUMBER_BYTES, Receipt, SentMessage
from isotone.core.ids import MessageId, Stamp
from isotone.core.services import Service


class Again:
    """It never left this process, and its session is over: send it in the next."""


AGAIN = Again()
Outcome = Receipt | Again
Namer = Callable[[int], MessageId | None]
"""From a ticket to the name of the message, in one session; None before that was ever open."""


class Parcel(msgspec.Struct, frozen=True):
    """What is submitted at once: it fits into one bundle."""

    groups: tuple[str, ...]
    service: Service
    bodies: tuple[bytes, ...]
    types: tuple[int, ...] = ()
    flags: int = 0
    confirm: bool = False


class Sent:
    """A parcel that was submitted."""

    __slots__ = ("_namer", "confirm", "count", "echoes", "first", "parcel", "taken", "waiter")

    def __init__(
        self, first: int, parcel: Parcel, waiter: asyncio.Future[Outcome], namer: Namer, *, echoes: bool
    ) -> None:
        self.first = first  # ticket
        self.count = len(parcel.bodies)
        self.parcel = parcel
        self.waiter = waiter
        self._namer = namer
        self.confirm = parcel.confirm
        self.echoes = echoes  # we will hear it ourselves
        self.taken = False

    @property
    def id(self) -> MessageId | None:
        """The name of its last message."""
        return self._namer(self.first + self.count - 1)

    def settle(self, stamp: Stamp | None = None) -> None:
        """The daemon has it, or with a stamp all have: the sender may go on."""
        if not self.waiter.done():
            name = self.id
            assert name is not None  # nothing is settled before the session is open
            self.waiter.set_result(Receipt(name, stamp))

    def send_again(self) -> None:
        """The sender sends it in the next session."""
        if not self.waiter.done():
            self.waiter.set_result(AGAIN)

    def fail(self, error: ClientError) -> None:
        """The sender hears why not."""
        if not self.waiter.done():
            self.waiter.set_exception(error)

    def messages(self) -> Iterator[SentMessage]:
        """One by one."""
        parcel = self.parcel
        numbered = NUMBER_BYTES if parcel.flags & (CALL | ANSWER) else 0
        for body, kind in zip(parcel.bodies, parcel.types or (0,) * self.count):
            yield SentMessage(parcel.groups, parcel.service, kind, body[numbered:], self.taken)


class Ledger:
    """All messages of one session whose fate is open. Bounded by what daemon and session let be under way."""

    def __init__(self) -> None:
        self._open: dict[int, Sent] = {}  # by first ticket, in their order
        self._untaken: deque[Sent] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, sent: Sent) -> None:
        """It was submitted."""
        self._open[sent.first] = sent
        self._untaken.append(sent)

    def forget(self, sent: Sent) -> None:
        """It was refused on the spot."""
        if self._open.pop(sent.first, None) is not None:
            assert self._untaken[-1] is sent
            self._untaken.pop()

    def settled(self, ticket: int) -> None:
        """Every message up to this one was taken, or dropped, and then we heard of that before."""
        while self._untaken and self._untaken[0].first + self._untaken[0].count - 1 <= ticket:
            sent = self._untaken.popleft()
            sent.taken = True
            if not sent.confirm:
                sent.settle()
            if not sent.echoes:
                self._open.pop(sent.first, None)

    def dropped(self, first: int, count: int, reason: str) -> None:
        """These were not sent."""
        for sent in self._take(first, count):
            sent.fail(Unconfirmed(reason, "it was not sent") if sent.confirm else NotSent(reason))

    def heard(self, first: int, count: int, stamp: Stamp, transitional: bool) -> None:
        """We heard a bundle of ours."""
        for sent in self._take(first, count):
            if sent.confirm and transitional:
                sent.fail(Unconfirmed("transitional", "it was delivered behind a transitional signal", sent.id))
            else:
                sent.settle(stamp if sent.confirm else None)

    def signalled(self, group: str) -> None:
        """A transitional signal: what was sent before it and is not heard yet is not confirmed by all of the view."""
        for sent in self._open.values():
            if sent.confirm and group in sent.parcel.groups:
                detail = f"members of {group} may be gone; it may still be delivered"
                sent.fail(Unconfirmed("transitional", detail, sent.id))
                sent.confirm = False

    def _take(self, first: int, count: int) -> Iterator[Sent]:
        end = first + count
        while first < end:
            sent = self._open.pop(first, None)
            first += 1 if sent is None else sent.count
            if sent is not None:
                yield sent

    def left(self, group: str, joined: frozenset[str]) -> None:
        """We are not in the group any more, but still in these: what goes only there is not heard."""
        for sent in [each for each in self._open.values() if each.echoes and group in each.parcel.groups]:
            if sent.confirm:
                sent.fail(Unconfirmed("left", f"we left {group} before", sent.id))
                sent.confirm = False
            if joined.isdisjoint(sent.parcel.groups):
                sent.echoes = False
                if sent.taken:
                    del self._open[sent.first]

    def end(self, unwritten: int, reason: str) -> list[Sent]:
        """The session is over; what is unknown, in order. What never left and is still wanted goes again."""
        unknown: list[Sent] = []
        for sent in self._open.values():
            if sent.first >= unwritten and not sent.waiter.done():
                sent.send_again()
                continue
            if sent.confirm:
                sent.fail(Unconfirmed("disconnected", reason, sent.id))
            elif not sent.taken:
                sent.fail(UnknownFate(reason, sent.id))
            unknown.append(sent)
        self._open.clear()
        self._untaken.clear()
        return unknown
