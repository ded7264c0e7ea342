"""Appends under way: from the request to its position, its refusal, or *maybe*.

A request is *open* until its message is green. At its deadline, or when the replica ends, the answer is `Maybe`: the
record may be ordered later, for it may be on disks. One without a deadline *waits* for green, and is answered so when
its server gives up (see `outside`). One that a snapshot passed over is too: it is ordered, and its position is not
known here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from isotone.core.errors import IsotoneError
from isotone.corel.message import Message, Origin
from isotone.host.answers import Maybe, Refused

log = logging.getLogger("isotone.replica")

Answered = Callable[[int | IsotoneError], object]
"""Called once, with the position or with what went wrong."""
Why = Callable[[str], str]
"""Why the message of this name is not green."""


class _Append:
    __slots__ = ("_answered", "message")

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self.message = ""  # once it has one

    def tell(self, outcome: int | IsotoneError) -> None:
        """Once. What the caller's function raises is its own affair: others wait for their answers."""
        try:
            self._answered(outcome)
        except Exception:
            log.exception("who appended %s failed on the answer", self.message or "a record")


@dataclass
class Appends:
    """Of one life of a replica."""

    last: int = 0  # the number of the newest request
    _open: dict[int, _Append] = field(default_factory=dict)
    _by_message: dict[tuple[Origin, int], tuple[int, ...]] = field(default_factory=dict)
    waiting: dict[int, None] = field(default_factory=dict)  # of the open ones those without a deadline, oldest first
    _deadlines: list[tuple[int, int]] = field(default_factory=list)  # a heap: when, and which request

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, answered: Answered, deadline: int | None) -> int:
        """The number of a new request."""
        self.last += 1
        self._open[self.last] = _Append(answered)
        if deadline is None:
            self.waiting[self.last] = None
        else:
            heappush(self._deadlines, (deadline, self.last))
        return self.last

    def named(self, requests: Sequence[int], message: Message) -> None:
        """These travel in this message."""
        self._by_message[message.name] = tuple(requests)
        name = str(message)
        for request in requests:
            if (append := self._open.get(request)) is not None:
                append.message = name

    def refused(self, request: int, reason: str) -> None:
        """It will not be ordered."""
        self.settle(request, Refused(reason))

    def settle(self, request: int, outcome: int | IsotoneError) -> None:
        """Its position, or what went wrong."""
        if (append := self._close(request)) is not None:
            append.tell(outcome)

    def greened(self, position: int, messages: Sequence[Message]) -> None:
        """Messages are green; their records begin at this position."""
        for message in messages:
            if self._by_message:
                self._answer(position, self._by_message.pop(message.name, ()))
            position += len(message.records)

    def passed(self, is_behind: Callable[[tuple[Origin, int]], bool], reason: str) -> None:
        """A snapshot stands for some messages: they are green, and nobody here will hear at which positions."""
        for name in [name for name in self._by_message if is_behind(name)]:
            for request in self._by_message.pop(name):
                if (append := self._close(request)) is not None:
                    append.tell(Maybe(reason, append.message))

    def _answer(self, position: int, requests: tuple[int, ...]) -> None:
        for place, request in enumerate(requests, position):
            self.settle(request, place)

    def _close(self, request: int) -> _Append | None:
        """It is answered now, unless it was."""
        self.waiting.pop(request, None)
        return self._open.pop(request, None)

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> int | None:
        """Of the requests that are open."""
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now: int, why: Why) -> None:
        """Answer those whose time is over."""
        while (deadline := self.next_deadline) is not None and deadline <= now:
            self._answer_maybe(heappop(self._deadlines)[1], why)

    def waiting_since(self, last: int) -> list[int]:
        """Those without a deadline that have a message, or are not newer than this request."""
        return [request for request in self.waiting if request <= last or self._open[request].message]

    def give_up(self, requests: Iterable[int], why: Why) -> None:
        """Answer those of them that have no deadline, and wait."""
        for request in requests:
            if request in self.waiting:
                self._answer_maybe(request, why)

    def _answer_maybe(self, request: int, why: Why) -> None:
        append = self._open[request]
        try:
            reason = why(append.message)
        except Exception as error:  # the answer is due all the same, and so are those behind it
            log.exception("why %s is not green cannot be told", append.message or "a record")
            reason = f"it is not green in time; why cannot be told: {error!r}"
        self._close(request)
        append.tell(Maybe(reason, append.message))

    def end(self, reason: str) -> None:
        """The replica ended: nobody here will hear of the rest."""
        left, self._open = self._open, {}
        self._by_message.clear()
        self.waiting.clear()
        self._deadlines.clear()
        for append in left.values():
            append.tell(Maybe(reason, append.message))
