"""Programs that use replicated objects in a simulated run, one for each step, and what they record of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from isotone.core.errors import IsotoneError
from isotone.core.ordered_log import Maybe, Refused
from isotone.replicated.collections import TakenItem
from isotone.replicated.dict_state import DictState
from isotone.replicated.errors import ReadNotSettled, Rejected, SessionLost, TimedOut, Unsettled
from isotone.replicated.locks import Held
from isotone.replicated.records import Called, decode
from isotone.replicated.state import ReplicatedState
from isotone.sim.plan import Step
from isotone.sim.replicated.code import BANK, OPENING, Tally
from isotone.trace.events import Entry
from isotone.trace.replicated import ObjectAnswered, ObjectCalled, ObjectHeld, ObjectLost

WITHIN_S = 2.0
ACQUIRE_WITHIN_S = 3.0
NOTHING = "-"
NOT_DONE = (Refused, SessionLost, ReadNotSettled, TimedOut)
REGISTER = ("set", "get", "delete", "compare_and_set")
LATER = ("transfer", "balances", "tally_add", "tally_double", "tally_read")
PAIR = ("pair_set", "pair_swap", "pair_get", "pair_items")
MORE = (*PAIR, "own", "owned_items", "watch")
HOLDS = ("lock", "leader", "read", "write", "semaphore")
DEEDS = (*REGISTER, "add", "count", "join", "part", "has", *HOLDS, "put", "work", "vote", "swap", *LATER, *MORE)
PERMITS = 2
TALLY = "tally"


class ObjectStep(Step, frozen=True, tag="object"):
    """A program at a node does one thing with one object."""

    deed: str
    name: str
    key: str
    number: int  # a value, or what is added
    length_us: int = 0  # how long something is held
    others: tuple[str, ...] = ()  # the other participants of a commitment
    program: str = ""  # beside the node, and no server, which does it; empty: that of the server


class Programs:
    """Of one incarnation of a node."""

    def __init__(
        self,
        objects: ReplicatedState,
        mark: str,
        record: Callable[[Entry], None],
        wall: Callable[[], int],
        *,
        rate: float,
        red: Callable[[], list[bytes]],
    ) -> None:
        self._red = red
        self._objects, self._mark, self._record, self._wall, self._rate = objects, mark, record, wall, rate
        self._count = 0
        self._server = mark.partition("#")[0]
        self.held: dict[str, tuple[int, int]] = {}  # by operation: fence, session
        self.ended: list[ObjectLost | ObjectCalled] = []  # a crash may lose these rows: they stand behind writes
        self.running: set[asyncio.Task[None]] = set()

    def begin(self, step: ObjectStep) -> None:
        """Start the program of a step."""
        task = asyncio.get_running_loop().create_task(self._run(step))
        self.running.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._objects.failure is None:
            raise error

    async def _run(self, step: ObjectStep) -> None:
        objects, text = self._objects, str(step.number)
        patience = WITHIN_S if step.number % 3 else None  # without a time the log gives up first
        stock = objects.dict(step.name, str)
        match step.deed:
            case "set":
                await self._ask(step, "dict", text, stock.set(step.key, text, within_s=patience), lambda _: "")
            case "get":
                await self._ask(step, "dict", "", stock.get(step.key, NOTHING, within_s=WITHIN_S), str)
            case "delete":
                await self._ask(step, "dict", "", stock.delete(step.key, within_s=WITHIN_S), _bit)
            case "compare_and_set":
                known = self._known(step)
                asked = stock.compare_and_set(step.key, known, text, within_s=WITHIN_S)
                await self._ask(step, "dict", f"{known or NOTHING}>{text}", asked, _bit)
            case "swap":
                known = self._known(step)
                asked = stock.transact(when={step.key: known}, then={step.key: text}, within_s=WITHIN_S)
                await self._ask(step, "dict", f"{known or NOTHING}>{text}", asked, _bit, method="compare_and_set")
            case "add":
                await self._ask(step, "counter", text, objects.counter(step.name).add(step.number, within_s=patience))
            case "count":
                await self._ask(step, "counter", "", objects.counter(step.name).get(within_s=WITHIN_S))
            case "join":
                await self._ask(step, "set", "", objects.set(step.name).add(step.key, within_s=WITHIN_S), _bit)
            case "part":
                await self._ask(step, "set", "", objects.set(step.name).discard(step.key, within_s=WITHIN_S), _bit)
            case "has":
                await self._ask(step, "set", "", objects.set(step.name).contains(step.key, within_s=WITHIN_S), _bit)
            case _:
                await self._run_more(step, text, patience)

    async def _run_more(self, step: ObjectStep, text: str, patience: float | None) -> None:
        objects = self._objects
        match step.deed:
            case "put":
                put = objects.queue(step.name, str).put(text, within_s=WITHIN_S)
                await self._ask(step, "queue", text, put)
            case "work":
                await self._work(step)
            case "vote":
                await self._vote(step)
            case "transfer":
                bank = objects.database(BANK)
                giver, taker = step.key.split(">")
                asked = bank.call("transfer", giver, taker, step.number, within_s=patience)
                await self._ask(step, "bank", f"{step.key}:{text}", asked)
            case "balances":
                await self._ask(step, "bank", "", self._balances())
            case "tally_add":
                await self._ask(
                    step, "tally", text, objects.object(Tally, step.name).add(step.number, within_s=patience)
                )
            case "tally_double":
                await self._ask(step, "tally", "", objects.object(Tally, step.name).double(within_s=patience))
            case "tally_read":
                await self._ask(step, "tally", "", self._provisional(step))
            case "own":
                await self._own(step)
            case "owned_items":
                entries = objects.dict(step.name, str).items(within_s=WITHIN_S)
                await self._ask(step, "owned", "", entries, _told_keys, method="items")
            case "watch":
                await self._watch(step)
            case deed if deed in PAIR:
                await self._pair(step, text)
            case _:
                await self._hold(step)

    async def _pair(self, step: ObjectStep, text: str) -> None:
        """Two keys that always have one value."""
        pair, known = self._objects.dict(step.name, str), self._known(step)
        wanted = None if step.number % 5 == 0 else text
        both = dict.fromkeys(("x", "y"), wanted)
        match step.deed:
            case "pair_set":
                asked = pair.transact(then=both, within_s=WITHIN_S)
                await self._ask(step, "pair", wanted or NOTHING, asked, lambda _: "", method="set")
            case "pair_swap":
                asked = pair.transact(when={step.key: known}, then=both, within_s=WITHIN_S)
                argument = f"{known or NOTHING}>{wanted or NOTHING}"
                await self._ask(step, "pair", argument, asked, _bit, method="compare_and_set")
            case "pair_get":
                await self._ask(step, "pair", "", pair.get(step.key, NOTHING, within_s=WITHIN_S), str, method="get")
            case _:
                await self._ask(step, "pair", "", pair.items(within_s=WITHIN_S), _told_pair, method="get")

    async def _balances(self) -> str:
        bank = self._objects.database(BANK)
        is_made = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'account'"
        rows: Sequence[tuple[Any, ...]] = OPENING
        if await bank.read(is_made, within_s=WITHIN_S):
            rows = await bank.read("SELECT owner, balance FROM account ORDER BY owner", stale_ok=True)
        return " ".join(f"{owner}={balance}" for owner, balance in rows)

    async def _provisional(self, step: ObjectStep) -> str:
        """Up to where the order is known here, the commands that are red, as often as they are, and the value seen."""
        objects = self._objects
        seen = await objects.object(Tally, step.name).provisional()
        state = objects.machine.state
        red = [
            f"{name_of_call(call)}:{told_command(call)}:{int(call.session in state.sessions)}"
            for call in calls_of(step.name, self._red())
        ]
        return f"{state.position} {','.join(red) or NOTHING} {seen.value.value}"

    def _known(self, step: ObjectStep) -> str | None:
        """What the key has, as far as it is known here: good enough to expect it."""
        state = self._objects.machine.state.objects.get(step.name)
        entry = state.entries.get(step.key) if isinstance(state, DictState) else None
        return None if entry is None else str(self._objects.dict(step.name, str)._encoding.decode(entry.value))

    # --- operations --------------------------------------------------------------------------------------------------

    def _called(self, step: ObjectStep, kind: str, argument: str, method: str, key: str | None = None) -> str:
        self._count += 1
        operation = f"{self._mark}/{self._count}"
        at, key = self._wall(), step.key if key is None else key
        called = ObjectCalled(self._server, operation, kind, step.name, method, key, argument, at)
        self._record(called)
        if method == "done":
            self.ended.append(called)
        return operation

    def _answered(self, operation: str, answer: str, result: str = "") -> None:
        self._record(ObjectAnswered(self._server, operation, answer, result, self._wall()))

    async def _ask(
        self,
        step: ObjectStep,
        kind: str,
        argument: str,
        asked: Awaitable[Any],
        told: Callable[[Any], str] = str,
        *,
        method: str = "",
    ) -> Any:
        operation = self._called(step, kind, argument, method or step.deed)
        try:
            result = await asked
        except Unsettled as unsettled:
            try:
                result = await unsettled.outcome()
            except (SessionLost, Rejected):
                return self._answered(operation, "not")
        except NOT_DONE:
            return self._answered(operation, "not")
        except Rejected:
            return self._answered(operation, "not")
        except Maybe:
            return None
        if isinstance(result, list):  # of a transaction that was not settled at once
            result = result[0]
        self._answered(operation, "done", told(result))
        return result

    # --- what is held ------------------------------------------------------------------------------------------------

    async def _hold(self, step: ObjectStep) -> None:
        objects, within = self._objects, ACQUIRE_WITHIN_S
        exclusive, permits = step.deed not in ("read", "semaphore"), PERMITS if step.deed == "semaphore" else 1_000
        operation = self._called(step, step.deed, "", "acquire")
        try:
            held: Held | None
            match step.deed:
                case "lock":
                    held = await objects.lock(step.name).acquire(within_s=within)
                case "leader":
                    held = await objects.leader(step.name).campaign(self._mark, within_s=within)
                case "semaphore":
                    held = await objects.semaphore(step.name, PERMITS).acquire(within_s=within)
                case _:
                    lock = objects.read_write_lock(step.name)
                    asked = lock.read(within_s=within) if step.deed == "read" else lock.write(within_s=within)
                    held = await asked.__aenter__()
        except IsotoneError:
            return self._answered(operation, "not")
        assert held is not None
        if held.is_held:
            self._held(
                operation, step.deed, step.name, held.fence, held._session, shared=not exclusive, permits=permits
            )
            how = await self._keep(held._session, step.length_us)
            self._lost(operation, how)
        with suppress(IsotoneError):
            await held.release(within_s=WITHIN_S)
        return None

    def _held(
        self, operation: str, kind: str, name: str, fence: int, session: int, *, shared: bool = False, permits: int = 1
    ) -> None:
        self.held[operation] = (fence, session)
        self._record(ObjectHeld(self._server, operation, kind, name, fence, shared, permits, self._wall()))

    async def _keep(self, session: int, length_us: int) -> str:
        """Hold it for so long, or until it is lost."""
        try:
            async with asyncio.timeout(length_us / 1_000_000):
                await self._objects.until_lost(session)
        except TimeoutError:
            return "released" if self._objects.is_trusted(session) else "lost"
        return "lost"

    def _lost(self, operation: str, how: str) -> None:
        fence, session = self.held.pop(operation)
        self.ended.append(ObjectLost(self._server, operation, fence, how, self.trusted_until(session)))
        self._record(self.ended[-1])

    def trusted_until(self, session: int, wall: int | None = None) -> int:
        """On the common clock: now, or earlier if it stood still meanwhile and its lease was over before.

        ``wall``: what the common clock showed when this program's clock was last read, if not now.
        """
        mine, now = self._objects.session, self._wall()
        if mine is None or mine.number != session:
            return now
        left_us = mine.heard_us + mine.trust_us - self._objects.now()
        return min(now, (now if wall is None else wall) + int(left_us / self._rate))

    # --- queues and commitments --------------------------------------------------------------------------------------

    async def _work(self, step: ObjectStep) -> None:
        """Take an item, work on it, and finish it."""
        operation = self._called(step, "queue", "", "take")
        try:
            item: TakenItem | None = await self._objects.queue(step.name, str).take(within_s=ACQUIRE_WITHIN_S)
        except IsotoneError:
            return self._answered(operation, "not")
        mine = self._objects.session
        if item is None or mine is None:
            return None
        if self._objects.is_trusted(mine.number):
            self._held(operation, "item", f"{step.name}#{item.number}", item.fence, mine.number)
            how = await self._keep(mine.number, step.length_us)
            if how == "released":
                how = await self._finish(step, item)
            self._lost(operation, how)
            if how == "done":
                return None
        with suppress(IsotoneError):
            await item.give_back(within_s=WITHIN_S)
        return None

    async def _finish(self, step: ObjectStep, item: TakenItem) -> str:
        operation = self._called(step, "queue", "", "done", str(item.number))
        try:
            was_ours = await item.done(within_s=WITHIN_S)
        except (*NOT_DONE, Rejected):
            self._answered(operation, "not")
            return "lost"
        except IsotoneError:  # nobody knows
            return "lost"
        self._answered(operation, "done", _bit(was_ours))
        return "done" if was_ours else "lost"

    # --- what belongs to a session, and what is watched --------------------------------------------------------------

    async def _own(self, step: ObjectStep) -> None:
        """Set an entry that goes with this program's session, and delete it after a while."""
        entries, key = self._objects.dict(step.name, str), f"{self._mark}/{self._count + 1}"
        operation = self._called(step, "owned", "", "own", key)
        try:
            revision = await entries.set(key, str(step.number), owned=True, within_s=WITHIN_S)
        except IsotoneError:
            return
        state = self._objects.machine.state.objects[step.name]
        owner = state.entries[key].owner if isinstance(state, DictState) and key in state.entries else 0
        if owner and self._objects.is_trusted(owner):
            self._held(operation, "owned", f"{step.name}/{key}", revision, owner)
            self._lost(operation, await self._keep(owner, step.length_us))
        with suppress(IsotoneError):
            await entries.delete(key, within_s=WITHIN_S)

    async def _watch(self, step: ObjectStep) -> None:
        """All changes behind the position that is known here, for a while."""
        after = self._objects.machine.state.position
        operation = self._called(step, "watch", str(after), "watch")
        seen: list[tuple[int, str, str]] = []
        with suppress(TimeoutError, IsotoneError):
            async with asyncio.timeout(step.length_us / 1_000_000):
                async for change in self._objects.dict(step.name, str).watch(step.key, after=after):
                    seen.append((change.revision, change.key, NOTHING if change.deleted else change.value))
        self._answered(operation, "done", msgspec.json.encode(seen).decode())

    async def _vote(self, step: ObjectStep) -> None:
        commitment = self._objects.commitment(step.name, [self._server, *step.others])
        yes = step.number % 3 != 0
        argument = f"{'yes' if yes else 'no'} {' '.join(sorted({self._server, *step.others}))}"
        operation = self._called(step, "commitment", argument, "vote")
        try:
            decided = await commitment.vote(self._server, yes, within_s=ACQUIRE_WITHIN_S)
        except TimedOut:
            try:
                decided = await commitment.abort(within_s=WITHIN_S)
            except IsotoneError:
                return
        except IsotoneError:
            return
        self._answered(operation, "done", "commit" if decided else "abort")


def _bit(value: object) -> str:
    return "1" if value else "0"


def _told_keys(items: dict[str, str]) -> str:
    return msgspec.json.encode(list(items)).decode()


def _told_pair(items: dict[str, str]) -> str:
    x, y = items.get("x", NOTHING), items.get("y", NOTHING)
    return x if x == y else f"{x}|{y}"


# --- commands in records, once more and without the objects ----------------------------------------------------------


def calls_of(name: str, records: Iterable[bytes]) -> Iterator[Called]:
    """The commands of an object among these records, as they come."""
    for record in records:
        call = decode(record) if name.encode() in record else None
        if isinstance(call, Called) and call.name == name:
            yield call


def name_of_call(call: Called) -> str:
    """The same however often it is sent."""
    return f"{call.session}.{call.request}"


def told_command(call: Called) -> str:
    """With its arguments."""
    return "+".join(map(str, (call.method, *call.arguments)))
