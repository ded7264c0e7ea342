"""The calling side of coordinator-cohort: requests that are repeated until they are answered, once each.

Implements: [ISIS 5.2]. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action
from isotone.isis.delivery import digest_of
from isotone.isis.toolkit.layer import CastWanted, Order, SecureWanted
from isotone.isis.toolkit.outbox import Outbox
from isotone.isis.toolkit.wire import Reply, Request, encode
from isotone.trace.toolkit import ActionAnswered, ActionAsked

REPEAT_US = 500_000


class Answered(Action, frozen=True, gc=False):
    """The answer to a call; ``problem``: there is none, since this process came to its end."""

    token: int
    result: bytes = b""
    failed: bool = False
    problem: str = ""


@dataclass
class Call:
    """A request without an answer."""

    group: str
    number: int
    token: int
    body: bytes
    at: int


@dataclass
class Callers:
    """All calls of one process."""

    out: Outbox
    open: dict[str, Call] = field(default_factory=dict)  # by id
    _numbers: dict[str, int] = field(default_factory=dict)  # of calls, by group
    _unsure: dict[int, tuple[Call, Reply]] = field(default_factory=dict)  # answers that are not sure yet
    _secured: int = 1

    def call(self, group: str, body: bytes, token: int, id: str = "") -> str:
        """Ask a group. ``id``: of a nested action, which the caller chooses; the same id asks for the same action."""
        number = 0
        if not id:
            number = self._numbers[group] = self._numbers.get(group, 0) + 1
            id = f"{self.out.me}#{number}@{group}"
        self.open[id] = Call(group, number, token, body, self.out.at)
        self.out.record(ActionAsked(self.out.me, group, id))
        self._ask(id)
        return id

    def _ask(self, id: str) -> None:
        call = self.open[id]
        call.at = self.out.at
        open_numbers = [each.number for each in self.open.values() if each.group == call.group and each.number]
        settled = min(open_numbers, default=self._numbers.get(call.group, 0) + 1) - 1
        request = Request(id, self.out.me, call.number, settled, call.body)
        self.out.asked.append(CastWanted(self.out.at, call.group, Order.CAUSAL, encode(request)))

    def forget(self, id: str) -> None:
        """Of a nested action: its answer is not waited for any more."""
        self.open.pop(id, None)

    @property
    def waiting(self) -> list[str]:
        """Ids of calls whose answer the application has not heard."""
        return [*self.open, *(reply.id for _, reply in self._unsure.values())]

    def repeat(self) -> None:
        """Ask again what was asked long ago."""
        for id in list(self.open):
            if self.out.at - self.open[id].at >= REPEAT_US:
                self._ask(id)

    def on_reply(self, reply: Reply) -> None:
        """The first answer counts. The application hears it when it is sure; a nested action goes on at once."""
        call = self.open.get(reply.id)
        if call is None:
            return
        del self.open[reply.id]
        if not call.number:
            self._answer(call, reply)
            return
        self._unsure[self._secured] = (call, reply)
        self.out.asked.append(SecureWanted(self.out.at, self._secured))
        self._secured += 1

    def _answer(self, call: Call, reply: Reply) -> None:
        self.out.record(ActionAnswered(self.out.me, call.group, reply.id, digest_of(reply.result)))
        self.out.say(Answered(call.token, reply.result, reply.failed))

    def on_secured(self, token: int) -> None:
        """All that came before the answer is sure."""
        if (found := self._unsure.pop(token, None)) is not None:
            self._answer(*found)

    def end(self) -> None:
        """The process is over: nobody answers it."""
        for call in (*self.open.values(), *(call for call, _ in self._unsure.values())):
            self.out.say(Answered(call.token, problem="the site was declared dead: whether it was done is not known"))
        self.open, self._numbers, self._unsure = {}, {}, {}
