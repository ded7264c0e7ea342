"""Calls to a group that wait for answers: from the first, from a majority, from all, or from so many.

A call is a message to the group in a bundle with flag `CALL`; an answer goes to the caller's private group with flag
`ANSWER`; both begin with the 8 bytes of the call's number. Who should answer are the other members of the view in which
the caller hears its own call; those who leave that group cannot answer any more.

Implements: [Spread 3.5], the stability that only applications can give: answers of members that acted.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from isotone.client.errors import NoAnswer
from isotone.client.events import NUMBER_BYTES, Message
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId

Answers = Literal["first", "majority", "all"] | int

NUMBERS = 1 << 64


def check_answers(answers: Answers) -> None:
    """How many answers a call may want."""
    if isinstance(answers, bool) or (answers not in ("first", "majority", "all") and not isinstance(answers, int)):
        raise LocalProtocolError(f'answers is "first", "majority", "all" or a number, not {answers!r}')
    if isinstance(answers, int) and answers < 1:
        raise LocalProtocolError("a call wants at least one answer")


class Call:
    """One call under way."""

    def __init__(
        self, number: int, group: str, wanted: Answers, done: asyncio.Future[None], *, open_group: bool
    ) -> None:
        self.number = number
        self.group = group
        self.wanted = wanted
        self.done = done
        self.answers: dict[ClientId, Message] = {}  # the first of each
        self._open_group = open_group  # we are no member: nobody knows who should answer
        self._asked: tuple[ClientId, ...] | None = None  # who should answer, once that is known
        self._gone: set[ClientId] = set()  # of those, who cannot any more; only looked up

    def collected(self) -> list[Message]:
        """The answers that count, in the order in which they came."""
        return [each for sender, each in self.answers.items() if self._open_group or sender in (self._asked or ())]

    def on_heard(self, others: tuple[ClientId, ...]) -> None:
        """The call stands in the order; these should answer."""
        if self._asked is None:
            self._asked = others
            self.judge()

    def on_answer(self, message: Message) -> None:
        """Somebody answers; only the first time counts."""
        self.answers.setdefault(message.sender, message)
        self.judge()

    def on_members(self, members: tuple[ClientId, ...]) -> None:
        """The group has a new view."""
        if self._asked is not None:
            self._gone.update(each for each in self._asked if each not in members)
            self.judge()

    def judge(self) -> None:
        """Whether it is enough, or never will be."""
        if self.done.done() or (self._asked is None and not self._open_group):
            return
        came = self.collected()
        if self._open_group:
            assert isinstance(self.wanted, int)
            if len(came) >= self.wanted:
                self.done.set_result(None)
            return
        assert self._asked is not None
        possible = len([each for each in self._asked if each not in self._gone or each in self.answers])
        needed = self._needed(possible)
        if len(came) >= needed:
            self.done.set_result(None)
        elif possible < needed:
            self.fail(f"{needed} answers are wanted and {possible} others could answer")

    def _needed(self, possible: int) -> int:
        assert self._asked is not None
        match self.wanted:
            case "first":
                return 1
            case "majority":
                return len(self._asked) // 2 + 1
            case "all":
                return possible
            case number:
                return number

    def fail(self, reason: str) -> None:
        """There will not be enough."""
        if not self.done.done():
            self.done.set_exception(NoAnswer(reason, self.collected()))


class Calls:
    """The calls of one client."""

    def __init__(self, first: int) -> None:
        self._next = first  # random: numbers of an earlier session of this name mean nothing
        self._open: dict[int, Call] = {}

    def begin(self, group: str, wanted: Answers, done: asyncio.Future[None], *, open_group: bool) -> Call:
        """A call with a number of its own."""
        self._next = (self._next + 1) % NUMBERS
        call = self._open[self._next] = Call(self._next, group, wanted, done, open_group=open_group)
        return call

    def end(self, call: Call) -> None:
        """Nobody waits for it any more."""
        self._open.pop(call.number, None)

    def on_heard(self, number: int | None, others: tuple[ClientId, ...]) -> None:
        """We heard a call of our own."""
        call = self._open.get(number) if number is not None else None
        if call is not None:
            call.on_heard(others)

    def on_answer(self, message: Message) -> None:
        """An answer; late ones and strange ones are nobody's."""
        number = message.call_number
        call = self._open.get(number) if number is not None else None
        if call is not None:
            call.on_answer(message)

    def on_members(self, group: str, members: tuple[ClientId, ...]) -> None:
        """A group has a new view."""
        for call in [each for each in self._open.values() if each.group == group]:
            call.on_members(members)

    def fail_all(self, reason: str, group: str | None = None) -> None:
        """The session is over, or we are not in this group any more."""
        for call in [each for each in self._open.values() if group in (None, each.group)]:
            call.fail(reason)


def numbered(number: int, body: bytes | memoryview) -> bytes:
    """The body behind the number of a call."""
    return number.to_bytes(NUMBER_BYTES, "little") + body
