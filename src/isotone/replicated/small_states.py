"""The states of a counter, a set, a queue, a barrier and an atomic commitment."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec

from isotone.replicated.outcome import WAITING, CommandRefused, Context

COUNTER_MAX = 2**63 - 1
MEMBERS_MAX = 4_000_000
ITEMS_MAX = 1_000_000
WAITING_MAX = 65_536


class CounterState(msgspec.Struct, tag="counter"):
    """A number of 64 bits. Additions commute."""

    value: int = 0

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Add, or set."""
        match method, arguments:
            case "add", (int(amount),):
                wanted = self.value + amount
            case "set", (int(amount),):
                wanted = amount
            case _:
                raise CommandRefused(f"a counter has no command {method} with these arguments")
        if not -COUNTER_MAX <= wanted <= COUNTER_MAX:
            raise CommandRefused(f"the counter would leave its range of 64 bits: it is {self.value}")
        self.value = wanted
        return wanted

    def release(self, context: Context, session: int) -> None:
        """Nothing belongs to a session."""


class SetState(msgspec.Struct, tag="set"):
    """Members in the order in which they were added."""

    members: dict[bytes, int] = {}  # each with the position at which it came

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Add or discard; whether something changed."""
        match method, arguments:
            case "add", (bytes(member),):
                if member in self.members:
                    return False
                if len(self.members) >= MEMBERS_MAX:
                    raise CommandRefused(f"the set is full: {MEMBERS_MAX} members")
                self.members[member] = context.position
                return True
            case "discard", (bytes(member),):
                return self.members.pop(member, None) is not None
        raise CommandRefused(f"a set has no command {method} with these arguments")

    def release(self, context: Context, session: int) -> None:
        """Nothing belongs to a session."""


class Item(msgspec.Struct, array_like=True, gc=False):
    """One item of a queue; ``taker`` is the session that works on it, 0 if none, under this fence."""

    value: bytes
    taker: int = 0
    fence: int = 0
    deliveries: int = 0


class _QueueIndex:
    """Which items are free, the oldest first, and which each session took."""

    def __init__(self, items: Mapping[int, Item]) -> None:
        self.free = sorted(number for number, item in items.items() if not item.taker)
        self.taken: dict[int, set[int]] = {}
        for number, item in items.items():
            if item.taker:
                self.taken.setdefault(item.taker, set()).add(number)


class QueueState(msgspec.Struct, tag="queue", dict=True):
    """First in, first out; what a session took comes back to its place when the session dies.

    Which items are free and who took which is made when it is first asked for, and is no part of the state.
    """

    items: dict[int, Item] = {}  # by the position of the record that put it; taken ones too, until they are done
    takers: list[tuple[int, int]] = []  # session and request of those who wait, in their order

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Put, take, finish or give back."""
        match method, arguments:
            case "put", (bytes(value),):
                if len(self.items) >= ITEMS_MAX:
                    raise CommandRefused(f"the queue is full: {ITEMS_MAX} items")
                heappush(self._index().free, context.position)
                self.items[context.position] = Item(value)
                self._serve(context)
                return context.position
            case "take", (bool(waits),):
                return self._take(context, waits=waits)
            case "done", (int(number), int(fence)):
                return self._finish(number, fence)
            case "give_back", (int(number), int(fence)):
                item = self._taken(number, fence)
                if item is None:
                    return False
                self._come_back(number, item)
                self._serve(context)
                return True
            case "abandon", (int(request),):
                return self._abandon(context, request)
        raise CommandRefused(f"a queue has no command {method} with these arguments")

    def _taken(self, number: int, fence: int) -> Item | None:
        item = self.items.get(number)
        return item if item is not None and item.fence == fence and fence else None

    def _finish(self, number: int, fence: int) -> bool:
        item = self._taken(number, fence)
        if item is None:
            return False
        self._index().taken[item.taker].discard(number)
        del self.items[number]
        return True

    def _come_back(self, number: int, item: Item) -> None:
        self._index().taken[item.taker].discard(number)
        heappush(self._index().free, number)
        item.taker = item.fence = 0

    def _index(self) -> _QueueIndex:
        index: _QueueIndex | None = self.__dict__.get("index")
        if index is None:
            index = self.__dict__["index"] = _QueueIndex(self.items)
        return index

    def _take(self, context: Context, *, waits: bool) -> Any:
        if not self.takers and (free := self._index().free):
            return self._hand_over(context, heappop(free), context.session)
        if not waits:
            return None
        if len(self.takers) >= WAITING_MAX:
            raise CommandRefused(f"too many wait for this queue: {WAITING_MAX}")
        self.takers.append((context.session, context.request))
        return WAITING

    def _hand_over(self, context: Context, number: int, session: int) -> list[Any]:
        item = self.items[number]
        item.taker, item.fence, item.deliveries = session, context.take_fence(), item.deliveries + 1
        self._index().taken.setdefault(session, set()).add(number)
        return [number, item.value, item.fence, item.deliveries]

    def _serve(self, context: Context) -> None:
        """Hand free items to those who wait, the oldest to the first."""
        free = self._index().free
        while self.takers and free:
            session, request = self.takers.pop(0)
            context.answer(session, request, self._hand_over(context, heappop(free), session))

    def _abandon(self, context: Context, request: int) -> bool:
        """Whoever waited with this request does so no more."""
        waiting = len(self.takers)
        self.takers = [each for each in self.takers if each != (context.session, request)]
        return len(self.takers) < waiting

    def release(self, context: Context, session: int) -> None:
        """The items of a session that is over come back; nobody is served for it."""
        self.takers = [each for each in self.takers if each[0] != session]
        for number in sorted(self._index().taken.pop(session, ())):
            item = self.items[number]
            item.taker = item.fence = 0
            heappush(self._index().free, number)
        self._serve(context)


class BarrierState(msgspec.Struct, tag="barrier"):
    """Whoever arrives waits until as many are there as were asked for."""

    parties: int = 0  # of the generation that gathers
    generation: int = 0  # how often all were there
    arrived: list[tuple[int, int]] = []

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Arrive, or go away again."""
        match method, arguments:
            case "arrive", (int(parties),) if 1 <= parties <= WAITING_MAX:
                return self._arrive(context, parties)
            case "abandon", (int(request),):
                waiting = len(self.arrived)
                self.arrived = [each for each in self.arrived if each != (context.session, request)]
                return len(self.arrived) < waiting
        raise CommandRefused(f"a barrier has no command {method} with these arguments")

    def _arrive(self, context: Context, parties: int) -> Any:
        if not self.arrived:
            self.parties = parties
        elif self.parties != parties:
            raise CommandRefused(f"the barrier gathers {self.parties} parties, not {parties}")
        self.arrived.append((context.session, context.request))
        if len(self.arrived) < parties:
            return WAITING
        self.generation += 1
        waited, self.arrived = self.arrived[:-1], []
        for session, request in waited:
            context.answer(session, request, self.generation)
        return self.generation

    def release(self, context: Context, session: int) -> None:
        """A session that is over does not wait."""
        self.arrived = [each for each in self.arrived if each[0] != session]


class CommitmentState(msgspec.Struct, tag="commitment"):
    """Atomic commitment: the first suggestion in the order decides [COReL 8.3].

    That all voted yes suggests to commit; a *no*, a participant whose session died, or anybody who will not wait any
    longer, suggests to abort.
    """

    participants: list[str] = []
    votes: dict[str, bool] = {}
    voters: dict[str, int] = {}  # the session of each participant that is known
    decision: str = ""  # commit or abort; it never changes
    waiting: list[tuple[int, int]] = []
    finished: list[str] = []  # participants that have done what was decided

    def finish(self, who: str) -> bool:
        """This participant needs the decision no more; whether all of them are so far."""
        if who not in self.participants:
            raise CommandRefused(f"{who} is no participant: {', '.join(self.participants) or 'it has not begun'}")
        if not self.decision:
            raise CommandRefused("it is not decided yet")
        if who not in self.finished:
            self.finished.append(who)
        return len(self.finished) == len(self.participants)

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Begin, vote, wait, or suggest to abort."""
        match method, arguments:
            case "begin", (list() as participants, str(me)) if participants:
                return self._begin(context, [str(each) for each in participants], me)
            case "vote", (str(me), bool(yes)):
                return self._vote(context, me, yes=yes)
            case "abort", ():
                self._decide(context, "abort")
                return self.decision
            case "wait", ():
                return self._wait(context)
            case "abandon", (int(request),):
                self.waiting = [each for each in self.waiting if each != (context.session, request)]
                return True
        raise CommandRefused(f"a commitment has no command {method} with these arguments")

    def _begin(self, context: Context, participants: list[str], me: str) -> str:
        if self.participants and self.participants != participants:
            raise CommandRefused(f"this commitment has other participants: {', '.join(self.participants)}")
        self.participants = participants
        if me in participants and not self.decision:
            self.voters[me] = context.session
        return self.decision

    def _vote(self, context: Context, me: str, *, yes: bool) -> str:
        if me not in self.participants:
            raise CommandRefused(f"{me} is no participant: {', '.join(self.participants) or 'it has not begun'}")
        if not self.decision:
            self.votes.setdefault(me, yes)  # the first vote of a participant counts
            self.voters[me] = context.session
            if not yes:
                self._decide(context, "abort")
            elif all(self.votes.get(each) for each in self.participants):
                self._decide(context, "commit")
        return self.decision

    def _wait(self, context: Context) -> Any:
        if self.decision:
            return self.decision
        if len(self.waiting) >= WAITING_MAX:
            raise CommandRefused(f"too many wait for this commitment: {WAITING_MAX}")
        self.waiting.append((context.session, context.request))
        return WAITING

    def _decide(self, context: Context, suggestion: str) -> None:
        if self.decision:
            return
        self.decision = suggestion
        waited, self.waiting = self.waiting, []
        for session, request in waited:
            context.answer(session, request, self.decision)

    def release(self, context: Context, session: int) -> None:
        """A participant that died before it voted cannot vote any more."""
        self.waiting = [each for each in self.waiting if each[0] != session]
        if any(each == session and me not in self.votes for me, each in self.voters.items()):
            self._decide(context, "abort")
