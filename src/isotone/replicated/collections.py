"""A replicated counter, set and queue."""

from __future__ import annotations

from typing import Any

from isotone.replicated.caller import Caller, Encoding, ReplicatedObject
from isotone.replicated.provisional import Provisional
from isotone.replicated.recording import text_of
from isotone.replicated.small_states import CounterState, QueueState, SetState


class ReplicatedCounter(ReplicatedObject):
    """A number."""

    kind = "counter"

    async def add(self, amount: int = 1, *, within_s: float | None = None) -> int:
        """Add; the number behind it."""
        return int((await self._call("add", int(amount), within_s=within_s)).value)

    async def set(self, value: int, *, within_s: float | None = None) -> int:
        """Set it."""
        return int((await self._call("set", int(value), within_s=within_s)).value)

    async def get(self, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None) -> int:
        """The number; see `ReplicatedDict.get` for what a read may be."""
        return await self._read(
            "count",
            "",
            lambda: self._state(CounterState).value,
            stale_ok=stale_ok,
            at_least=at_least,
            within_s=within_s,
        )

    async def provisional(self) -> Provisional:
        """The number as it is known here, with additions that are in no order yet, as in a minority."""
        state, red = await self._provisional(CounterState)
        return Provisional(state.value, red)


class ReplicatedSet(ReplicatedObject):
    """Members in the order in which they came."""

    kind = "set"

    def __init__(self, caller: Caller, name: str, of: type[Any] | None = None) -> None:
        super().__init__(caller, name)
        self._encoding = Encoding(of)

    async def add(self, member: Any, *, within_s: float | None = None) -> bool:
        """Whether it is new."""
        return bool((await self._call("add", self._encoding.encode(member), within_s=within_s)).value)

    async def discard(self, member: Any, *, within_s: float | None = None) -> bool:
        """Whether it was there."""
        return bool((await self._call("discard", self._encoding.encode(member), within_s=within_s)).value)

    async def contains(
        self, member: Any, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None
    ) -> bool:
        """Whether it is there; see `ReplicatedDict.get` for what a read may be."""
        encoded = self._encoding.encode(member)
        return await self._read(
            "has",
            text_of(encoded),
            lambda: encoded in self._state(SetState).members,
            stale_ok=stale_ok,
            at_least=at_least,
            within_s=within_s,
        )

    async def members(
        self, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None
    ) -> list[Any]:
        """All of them, at one place in the order."""
        found = await self._read(
            "members",
            "",
            lambda: list(self._state(SetState).members),
            stale_ok=stale_ok,
            at_least=at_least,
            within_s=within_s,
        )
        return [self._encoding.decode(each) for each in found]


class TakenItem:
    """An item that this program works on: finish it with `done`, or it comes back when the session ends."""

    def __init__(self, queue: ReplicatedQueue, value: Any, *, number: int, fence: int, deliveries: int) -> None:
        self._queue, self.value, self.number, self.fence = queue, value, number, fence
        self.deliveries = deliveries
        """How often it was taken, this time included: above 1 somebody may have begun with it."""

    async def done(self, *, within_s: float | None = None) -> bool:
        """It is finished. False if it was no longer ours: then another one has it, or had."""
        return bool((await self._queue._call("done", self.number, self.fence, within_s=within_s)).value)

    async def give_back(self, *, within_s: float | None = None) -> bool:
        """Put it back to its place."""
        return bool((await self._queue._call("give_back", self.number, self.fence, within_s=within_s)).value)


class ReplicatedQueue(ReplicatedObject):
    """First in, first out; an item that was taken and not finished comes back when its taker dies."""

    kind = "queue"

    def __init__(self, caller: Caller, name: str, of: type[Any] | None = None) -> None:
        super().__init__(caller, name)
        self._encoding = Encoding(of)

    async def put(self, value: Any, *, within_s: float | None = None) -> int:
        """Put an item at the end; its number."""
        return int((await self._call("put", self._encoding.encode(value), within_s=within_s)).value)

    async def take(self, *, wait: bool = True, within_s: float | None = None) -> TakenItem | None:
        """The next item; waits for one, or returns None. `TimedOut` when none came in time."""
        reply = await self._call("take", wait, within_s=within_s)
        if reply.value is None:
            return None
        number, value, fence, deliveries = reply.value
        return TakenItem(self, self._encoding.decode(value), number=number, fence=fence, deliveries=deliveries)

    async def size(self, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None) -> int:
        """How many items are not finished, taken ones included. ``at_least``: such as the number of one's own item."""
        await self._caller.go_behind(stale_ok=stale_ok, at_least=at_least, within_s=within_s)
        return len(self._state(QueueState).items)
