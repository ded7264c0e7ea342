"""Lock, read-write lock, semaphore, leader, barrier and commitment: what is held, with a fence, and what is waited for.

A *fence* is a number that only grows. Hand it to the resource that is guarded, and let that refuse lower ones: then
even a holder that does not know yet that it is none any more does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from isotone.core.errors import IsotoneError, LocalProtocolError
from isotone.replicated.caller import Caller, Encoding, ReplicatedObject
from isotone.replicated.lock_state import LockState
from isotone.replicated.records import REMOVE


class Held:
    """Something that this program holds, until it is released or lost."""

    def __init__(self, lock: HeldObject, fence: int, session: int) -> None:
        self._lock, self.fence, self._session = lock, fence, session
        self._released = False

    @property
    def is_held(self) -> bool:
        """Whether it is certainly still ours; ask before each step that matters, and hand on the fence."""
        return not self._released and self._lock._caller.is_trusted(self._session)

    @property
    def left_s(self) -> float:
        """So many seconds it is certainly still ours if it is not renewed any more; 0 once it is not."""
        return 0.0 if self._released else self._lock._caller.trust_left_s(self._session)

    async def until_lost(self, *, ahead_s: float = 0.0) -> str:
        """Wait until it may not be ours any more, and say why: before anybody else can have it.

        That holds while our clock is not slower than those of most servers by more than a fifth. ``ahead_s``: so long
        before that, when no renewal was confirmed for a while, to have time for what must be ended.
        """
        return await self._lock._caller.until_lost(self._session, ahead_s=ahead_s)

    async def release(self, *, within_s: float | None = None) -> bool:
        """Give it back; whether it was still ours."""
        if self._released:
            return False
        self._released = True
        return bool((await self._lock._call("release", self.fence, within_s=within_s)).value)


class HeldObject(ReplicatedObject):
    """What can be acquired."""

    kind = "lock"
    _permits = 1

    async def _acquire(
        self, *, exclusive: bool, wait: bool = True, note: bytes = b"", within_s: float | None = None
    ) -> Held | None:
        reply = await self._call("acquire", exclusive, self._permits, wait, note, within_s=within_s)
        return None if reply.value is None else Held(self, int(reply.value), reply.session)

    async def _acquired(self, *, exclusive: bool, note: bytes = b"", within_s: float | None = None) -> Held:
        held = await self._acquire(exclusive=exclusive, note=note, within_s=within_s)
        assert held is not None, "it waits"
        return held

    async def fences(self, *, stale_ok: bool = False, within_s: float | None = None) -> list[int]:
        """The fences of those who hold it now."""
        await self._caller.go_behind(stale_ok=stale_ok, within_s=within_s)
        return [each.fence for each in self._state(LockState).holders]


class Holding:
    """``async with lock:`` and its like: acquire on the way in, release on the way out."""

    def __init__(self, lock: HeldObject, *, exclusive: bool, within_s: float | None = None, note: bytes = b"") -> None:
        self._lock, self._exclusive, self._within_s, self._note = lock, exclusive, within_s, note
        self._held: Held | None = None

    async def __aenter__(self) -> Held:
        held = await self._lock._acquired(exclusive=self._exclusive, note=self._note, within_s=self._within_s)
        self._held = held
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._held is not None
        with suppress(IsotoneError):  # lost already, or it ends with the session
            await self._held.release(within_s=5.0)


class Lock(HeldObject):
    """One holder at a time; whoever waits is served in its turn."""

    async def acquire(self, *, wait: bool = True, within_s: float | None = None) -> Held | None:
        """Hold it. None if it is not free and ``wait`` is False; `TimedOut` when it was not free in time."""
        return await self._acquire(exclusive=True, wait=wait, within_s=within_s)

    def hold(self, *, within_s: float | None = None) -> Holding:
        """``async with lock.hold() as held``."""
        return Holding(self, exclusive=True, within_s=within_s)


class ReadWriteLock(HeldObject):
    """Many readers or one writer, in the order in which they asked."""

    _permits = 65_536

    def read(self, *, within_s: float | None = None) -> Holding:
        """``async with lock.read() as held``: together with other readers."""
        return Holding(self, exclusive=False, within_s=within_s)

    def write(self, *, within_s: float | None = None) -> Holding:
        """``async with lock.write() as held``: alone."""
        return Holding(self, exclusive=True, within_s=within_s)


class Semaphore(HeldObject):
    """As many holders at a time as it has permits."""

    def __init__(self, caller: Caller, name: str, permits: int) -> None:
        super().__init__(caller, name)
        if not 1 <= permits <= 65_536:
            raise LocalProtocolError(f"a semaphore has 1 to 65536 permits, not {permits!r}")
        self._permits = permits

    async def acquire(self, *, wait: bool = True, within_s: float | None = None) -> Held | None:
        """One permit; as `Lock.acquire`."""
        return await self._acquire(exclusive=False, wait=wait, within_s=within_s)

    def hold(self, *, within_s: float | None = None) -> Holding:
        """``async with semaphore.hold() as held``."""
        return Holding(self, exclusive=False, within_s=within_s)


class Leader(HeldObject):
    """An election: one leads; the others stand by, and the next one follows by itself."""

    def __init__(self, caller: Caller, name: str, of: type[Any] | None = None) -> None:
        super().__init__(caller, name)
        self._encoding = Encoding(of)

    async def campaign(self, note: Any = None, *, within_s: float | None = None) -> Held:
        """Wait until elected; ``note`` is what others see of the leader, such as its address."""
        encoded = b"" if note is None else self._encoding.encode(note)
        return await self._acquired(exclusive=True, note=encoded, within_s=within_s)

    def lead(self, note: Any = None, *, within_s: float | None = None) -> Holding:
        """``async with leader.lead("10.0.0.1:80") as term``: elected on the way in, resigned on the way out."""
        encoded = b"" if note is None else self._encoding.encode(note)
        return Holding(self, exclusive=True, within_s=within_s, note=encoded)

    async def current(self, *, stale_ok: bool = False, within_s: float | None = None) -> tuple[int, Any] | None:
        """The fence and the note of who leads, or None."""
        await self._caller.go_behind(stale_ok=stale_ok, within_s=within_s)
        holders = self._state(LockState).holders
        if not holders:
            return None
        note = holders[0].note
        return holders[0].fence, self._encoding.decode(note) if note else None


class Barrier(ReplicatedObject):
    """Whoever arrives waits until all parties are there."""

    kind = "barrier"

    def __init__(self, caller: Caller, name: str, parties: int) -> None:
        super().__init__(caller, name)
        if not 1 <= parties <= 65_536:
            raise LocalProtocolError(f"a barrier has 1 to 65536 parties, not {parties!r}")
        self.parties = parties

    async def arrive(self, *, within_s: float | None = None) -> int:
        """Wait for the others; how often all were there. `TimedOut` when they did not come in time."""
        return int((await self._call("arrive", self.parties, within_s=within_s)).value)


class Commitment(ReplicatedObject):
    """Atomic commitment among several participants [COReL 8.3]: all commit or all abort; a quorum never blocks."""

    kind = "commitment"

    def __init__(self, caller: Caller, name: str, participants: Sequence[str]) -> None:
        super().__init__(caller, name)
        self.participants = sorted({str(each) for each in participants})
        if not self.participants:
            raise LocalProtocolError("a commitment has at least one participant")

    async def begin(self, participant: str, *, within_s: float | None = None) -> None:
        """Take part: if this program's session ends before it votes, the decision is to abort."""
        await self._call("begin", self.participants, participant, within_s=within_s)

    async def vote(self, participant: str, yes: bool, *, within_s: float | None = None) -> bool:
        """Vote, and wait for the decision: whether to commit. The first vote of a participant counts."""
        await self._call("begin", self.participants, participant, within_s=within_s)
        await self._call("vote", participant, bool(yes), within_s=within_s)
        return await self.decision(within_s=within_s)

    async def decision(self, *, within_s: float | None = None) -> bool:
        """Wait for the decision: whether to commit. `TimedOut` when there is none in time."""
        return bool((await self._call("wait", within_s=within_s)).value == "commit")

    async def finish(self, participant: str, *, within_s: float | None = None) -> None:
        """This participant has done what was decided and will not ask again; when all have, it is forgotten."""
        await self._call(REMOVE, participant, within_s=within_s)

    async def abort(self, *, within_s: float | None = None) -> bool:
        """Suggest to abort, as somebody who will not wait for votes; whether the decision is to commit after all."""
        return bool((await self._call("abort", within_s=within_s)).value == "commit")
