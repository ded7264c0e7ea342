"""What a client of a log's port was asked for, and what became of it: waiting to be sent, or sent and not answered."""

from __future__ import annotations

from collections import deque
from enum import Enum

import msgspec

from isotone.core.contract import Action, Event, WriteStream
from isotone.corel.port import wire
from isotone.corel.port.events import Asked, ConnectionWanted, FollowWanted, OfferWanted, Ticket
from isotone.corel.port.search import AGAIN_MAX_US, AGAIN_US

AHEAD_BYTES = 256 * 1024
"""So much may be on its way to the system; behind it appends and snapshots wait."""
TURN_BYTES_MAX = 4 * 1024 * 1024
"""Appends travel together up to this size; a larger one travels alone."""
RECORD_BYTES_MAX = wire.FRAME_BYTES_MAX - 1024
"""A frame holds no larger record."""
US_PER_MS = 1_000


class Kind(Enum):
    """How a request is treated when a server is lost."""

    APPEND = "nobody knows what became of it"
    CHANGE = "the same; there is no window for it"
    OFFER = "the same, and it goes in pieces"
    QUESTION = "it is asked elsewhere"
    FOLLOW = "it goes on elsewhere"
    RED = "it ends"
    CONNECT = "nothing is asked"


AGAIN = (Kind.QUESTION, Kind.FOLLOW, Kind.CONNECT)
UNKNOWN = (Kind.APPEND, Kind.CHANGE, Kind.OFFER)


class Pending:
    """One request."""

    __slots__ = (
        "body",
        "deadline",
        "is_armed",
        "is_resting",
        "kind",
        "offset",
        "pause_us",
        "position",
        "request",
        "send_by",
        "ticket",
        "untaken",
        "was_sent",
    )

    def __init__(self, kind: Kind, ticket: Ticket, body: bytes | wire.Said | None, deadline: int | None) -> None:
        self.kind, self.ticket = kind, ticket
        self.body = body  # a record, a state, or a frame whose number does not count
        self.deadline = deadline
        self.send_by: int | None = 0  # while there is no server; None: it waits until there is one
        self.was_sent = False
        self.request = 0  # its number at the server, once it is sent
        self.position, self.offset = 0, 0  # of a state, and how much of it was sent
        self.pause_us = AGAIN_US  # before it is asked elsewhere
        self.is_resting = False
        self.is_armed = False  # a timer runs for it
        self.untaken = 0  # frames for one who follows that it has not used yet

    @property
    def may_go(self) -> bool:
        """Whether it is to be sent now. Who has not used what came before follows nothing more elsewhere."""
        return not (self.is_resting or self.untaken)

    def wait(self, at: int, within_us: int) -> None:
        """For a server; what is followed already goes on, however long that takes."""
        if self.kind is Kind.FOLLOW and self.was_sent:
            self.send_by = None
        else:
            self.send_by = at + within_us if self.deadline is None else min(at + within_us, self.deadline)

    def next_pause_us(self) -> int:
        """It grows."""
        pause, self.pause_us = self.pause_us, min(2 * self.pause_us, AGAIN_MAX_US)
        return pause

    def left_ms(self, at: int) -> int:
        """As it is said to a server: 0 is no deadline, so that of one that is over 1 is left."""
        return 0 if self.deadline is None else max(1, (self.deadline - at) // US_PER_MS)

    def frame(self, request: int, at: int) -> wire.Said:
        """As it is asked now."""
        assert isinstance(self.body, wire.Said)
        if isinstance(self.body, wire.WaitFor | wire.Reconfigure):
            return msgspec.structs.replace(self.body, request=request, within_ms=self.left_ms(at))
        return msgspec.structs.replace(self.body, request=request)


def pending_of(event: Event) -> Pending | None:
    """What a caller wants; None if that is nothing."""
    match event:
        case Asked(ticket=ticket, frame=frame, within_us=within_us, is_change=is_change):
            deadline = None if within_us is None else event.at + within_us
            return Pending(Kind.CHANGE if is_change else Kind.QUESTION, ticket, frame, deadline)
        case FollowWanted(ticket=ticket, wanted=wanted, elsewhere=elsewhere):
            return Pending(Kind.FOLLOW if elsewhere else Kind.RED, ticket, wanted, None)
        case OfferWanted(ticket=ticket, position=position, state=state):
            pending = Pending(Kind.OFFER, ticket, state, None)
            pending.position = position
            return pending
        case ConnectionWanted(ticket=ticket):
            return Pending(Kind.CONNECT, ticket, None, None)
        case _:
            return None


class Outgoing:
    """What one stream may carry, and what waits for room on it."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.appends_max, self.append_bytes_max = 0, 0  # as the server said
        self.sent: dict[int, Pending] = {}  # not answered yet, by request
        self.forgotten: dict[int, int] = {}  # appends for whose answer nobody waits, with their sizes
        self._open, self._open_bytes = 0, 0
        self._written = 0  # since all that was written was taken
        self._last = 0

    @property
    def has_room(self) -> bool:
        """Whether more may be written now."""
        return self._written < AHEAD_BYTES

    def written(self) -> None:
        """All of it was taken."""
        self._written = 0

    def number(self) -> int:
        """Of the next request."""
        self._last += 1
        return self._last

    def say(self, frame: wire.Said, out: list[Action]) -> None:
        """Write it."""
        data = wire.framed(frame)
        self._written += len(data)
        out.append(WriteStream(self.stream, (data,)))

    def send(self, pending: Pending, at: int, out: list[Action]) -> None:
        """A request, as a whole."""
        pending.request, pending.was_sent = self.number(), True
        self.sent[pending.request] = pending
        self.say(pending.frame(pending.request, at), out)

    def takes(self, pending: Pending) -> bool:
        """Whether the server has room for this record."""
        assert isinstance(pending.body, bytes)
        if not self.has_room:
            return False
        fits = self._open_bytes + len(pending.body) <= self.append_bytes_max
        return not self._open or (self._open < self.appends_max and fits)

    def append(self, waiting: deque[Pending], at: int, out: list[Action]) -> list[Pending]:
        """Records with one deadline, as many as fit into a frame and are taken; those that went."""
        went: list[Pending] = []
        records: list[bytes] = []
        size, within_ms = 0, waiting[0].left_ms(at)
        while waiting and self.takes(waiting[0]) and waiting[0].left_ms(at) == within_ms:
            record = waiting[0].body
            assert isinstance(record, bytes)
            if records and size + len(record) > TURN_BYTES_MAX:
                break
            pending = waiting.popleft()
            pending.request = self.number()
            self.sent[pending.request] = pending
            self._open += 1
            self._open_bytes += len(record)
            size += len(record)
            records.append(record)
            went.append(pending)
        if went:
            self.say(wire.AppendMany(went[0].request, within_ms, tuple(records)), out)
        return went

    def answered(self, request: int) -> Pending | None:
        """The request, if somebody waits for it."""
        pending = self.sent.pop(request, None)
        size = self.forgotten.pop(request, None)
        if pending is not None and pending.kind is Kind.APPEND:
            assert isinstance(pending.body, bytes)
            size = len(pending.body)
        if size is not None:
            self._open -= 1
            self._open_bytes -= size
        return pending

    def forget(self, pending: Pending) -> None:
        """Nobody waits for it; a record is open at the server still."""
        if self.sent.pop(pending.request, None) is not None and pending.kind is Kind.APPEND:
            assert isinstance(pending.body, bytes)
            self.forgotten[pending.request] = len(pending.body)
