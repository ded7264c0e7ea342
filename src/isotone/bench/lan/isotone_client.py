"""Isotone's part of the workload: the ordinary client, on the loop that is installed."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, closing
from typing import Any

from isotone.bench.lan.board import Phase, Slot, State, Word
from isotone.bench.lan.jobs import Job, Outcome
from isotone.bench.lan.latency import Echoes
from isotone.bench.lan.packing import cut
from isotone.bench.lan.schedule import Pace, Ticks
from isotone.bench.lan.traffic import Heard, OrderBroken, batch_of, circle, end_of, is_end, window_of
from isotone.client import Bundle, Group, Message, Session, Settings, View, connect
from isotone.core.services import Service

LOOK_S = 0.002
TOGETHER_WITHIN_S = 60.0
END_TYPE = 65_535
SETTINGS = Settings(reconnect_within_s=0)
CONNECTING_MAX = 32
JOINING_MAX = 64
LARGE_BYTES = 2048
JOIN_EVERY_S = 0.05


def run(job: Job, slot: Slot) -> Outcome:
    """On uvloop where it is installed, as the daemon."""
    if job.idle:
        return _on_loop(_idle(job, slot))
    return _on_loop(_join_and_leave(job, slot) if job.joiner else Member(job, slot).work())


def _on_loop(main: Coroutine[Any, Any, Outcome]) -> Outcome:
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


class Moments:
    """The moments of the schedule, in the loop that runs."""

    def __init__(self, began_ns: int) -> None:
        self._loop, self._began_ns, self._came = asyncio.get_running_loop(), began_ns, asyncio.Event()
        self._ticks: Ticks | None = None  # who never waits for one has no timer

    async def next(self) -> None:
        """Until the next one."""
        if self._ticks is None:
            self._ticks = Ticks(self._began_ns)
            self._loop.add_reader(self._ticks.descriptor, self._on_tick, self._ticks)
        self._came.clear()
        await self._came.wait()

    def close(self) -> None:
        """No more of them."""
        if self._ticks is not None:
            self._loop.remove_reader(self._ticks.descriptor)
            self._ticks.close()

    def _on_tick(self, ticks: Ticks) -> None:
        ticks.clear()
        self._came.set()


class Member:
    """One member: hears everything, and sends if it is a sender."""

    def __init__(self, job: Job, slot: Slot) -> None:
        self.job, self.slot, self.cell = job, slot, job.cell
        self.service = Service[job.cell.service.upper()]
        is_ordered = self.service >= Service.FIFO
        self.heard = {name: Heard(job.senders, job.cell.size, ordered=is_ordered) for name in job.groups}
        self.echoes = Echoes() if job.latency else None
        self.window = window_of(job.cell.size)
        self.total = self.sent = self.returned = 0
        self._more = asyncio.Event()  # of our own messages came back

    async def work(self) -> Outcome:
        """Join, wait for all, send and hear, until every sender has ended."""
        async with connect(self.job.address, name=f"w{self.job.index}", settings=SETTINGS) as me:
            groups = await _join_all(me, self.job.groups)
            hearing = [asyncio.create_task(self._hear(group)) for group in groups]
            await self._together(groups, hearing)
            self.slot.set(Word.STATE, State.READY)
            while self.slot.phase == Phase.WAIT:
                await asyncio.sleep(LOOK_S)
            if self.job.sends:
                await self._beside(self._send(groups), hearing)
            await asyncio.gather(*hearing)
        return self._outcome()

    async def _together(self, groups: list[Group], hearing: list[asyncio.Task[None]]) -> None:
        async def together() -> None:
            while any(len(group.members) != self.job.members for group in groups):
                await asyncio.sleep(LOOK_S)

        await self._beside(asyncio.wait_for(together(), TOGETHER_WITHIN_S), hearing)

    async def _beside(self, doing: Coroutine[Any, Any, None], hearing: list[asyncio.Task[None]]) -> None:
        """Do this, but end with the error of a task that hears, if one has one."""
        task = asyncio.create_task(doing)
        await asyncio.wait([task, *hearing], return_when=asyncio.FIRST_COMPLETED)
        for each in hearing:
            if each.done() and each.exception() is not None:
                task.cancel()
                each.result()
        await task

    # --- hearing ---------------------------------------------------------------------------------------------------

    async def _hear(self, group: Group) -> None:
        heard = self.heard[group.name]
        async for sender, bodies in self._batches(group):
            last = bodies.pop() if is_end(bodies[-1]) else b""
            if bodies:
                self._take(heard, sender, bodies)
            if last:
                heard.end(last)
            if heard.is_over:
                return

    def _take(self, heard: Heard, sender: int, bodies: list[bytes]) -> None:
        heard.take(sender, bodies)
        if sender == self.job.index:
            self.returned += len(bodies)
            self._more.set()
            if self.echoes is not None:
                self.echoes.came(len(bodies))
        self.total += len(bodies)
        self.slot.heard(self.total)

    def _batches(self, group: Group) -> AsyncIterator[tuple[int, list[bytes]]]:
        return self._by_bundle(group) if self.cell.receives == "bundle" else self._one_by_one(group)

    async def _by_bundle(self, group: Group) -> AsyncIterator[tuple[int, list[bytes]]]:
        async for event in group.bundles():
            if isinstance(event, Bundle):
                yield _index(event), _copies(event)
            elif isinstance(event, View):
                self.slot.view(len(event.members))

    async def _one_by_one(self, group: Group) -> AsyncIterator[tuple[int, list[bytes]]]:
        """Each message is taken by itself, as a program would; they are checked in batches, as with every other."""
        bodies: list[bytes] = []
        last = -1
        async for event in group:
            if isinstance(event, View):
                self.slot.view(len(event.members))
            if not isinstance(event, Message):
                continue
            sender, body = _index(event), event.body
            if bodies and (sender != last or len(bodies) == 64 or is_end(body)):
                yield last, bodies
                bodies = []
            last = sender
            bodies.append(body)
            if is_end(body) or self.echoes is not None:
                yield sender, bodies
                bodies = []

    # --- sending ---------------------------------------------------------------------------------------------------

    async def _send(self, groups: list[Group]) -> None:
        """On the schedule of its rate, or as fast as it gets rid of them."""
        index, size = self.job.index, self.cell.size
        bodies, counts, turn = circle(index, size), [0] * len(groups), 0
        began_ns = time.monotonic_ns()
        pace = Pace(self.job.offered, batch_of(size), began_ns)
        with closing(Moments(began_ns)) as moments:
            while self.slot.is_going:
                if not pace.rate:
                    await self._window()
                now_ns = time.monotonic_ns()
                due = pace.due(now_ns)
                if not due:
                    await moments.next()
                    continue
                turn = (turn + 1) % len(groups)
                start = counts[turn] % len(bodies)
                part = bodies[start : start + due]
                reached = pace.take(len(part), now_ns)
                if self.echoes is not None:
                    self.echoes.expect(reached)
                count = await self._hand_over(groups[turn], part)
                counts[turn] += count
                self.sent += count
                self.slot.set(Word.SENT, self.sent)
        for group, count in zip(groups, counts):
            await group.send(end_of(index, count), service=self.service, type=END_TYPE)

    async def _window(self) -> None:
        """Until enough of what we sent has come back."""
        while self.sent - self.returned >= self.window and self.slot.is_going:
            self._more.clear()
            await self._more.wait()

    async def _hand_over(self, group: Group, bodies: list[bytes]) -> int:
        """How many of them; one by one it ends in the middle when it is told to."""
        if self.cell.sends == "many":
            await group.send_many(bodies, service=self.service)
            return len(bodies)
        waits = self.cell.sends == "wait"
        for place, body in enumerate(bodies):
            if not self.slot.is_going:
                return place
            if waits:
                await group.send(body, service=self.service)
            else:
                await group.post(body, service=self.service)  # as the calls of the peers: it is queued, not yet taken
        return len(bodies)

    def _outcome(self) -> Outcome:
        counts: dict[str, int] = {}
        for heard in self.heard.values():
            for sender, count in heard.counts.items():
                counts[str(sender)] = counts.get(str(sender), 0) + count
        digest = "" if self.service < Service.AGREED else " ".join(heard.digest for heard in self.heard.values())
        latencies = self.echoes.sorted_us() if self.echoes is not None else []
        return Outcome(sent=self.sent, delivered=counts, digest=digest, latencies_us=latencies)


def _copies(bundle: Bundle) -> list[bytes]:
    """Each message as bytes of its own: small ones are cheaper to slice from one copy, large ones to copy once."""
    payload = bundle.payload
    if len(payload) >= LARGE_BYTES * bundle.count:
        return list(map(bytes, bundle.bodies()))
    return cut(bytes(payload), bundle.lengths)


def _index(event: Bundle | Message) -> int:
    """Members have their number in their names."""
    name = event.sender.name
    if not name.startswith("w"):
        raise OrderBroken(f"a message of {event.sender}, who is no sender")
    return int(name[1:])


async def _join_all(me: Session, names: list[str]) -> list[Group]:
    """Many at a time, in their order."""
    room = asyncio.Semaphore(JOINING_MAX)

    async def join(name: str) -> Group:
        async with room:
            return await me.join(name)

    return list(await asyncio.gather(*map(join, names)))


async def _idle(job: Job, slot: Slot) -> Outcome:
    """Clients that are there and do nothing, each in a group of its own."""
    room = asyncio.Semaphore(CONNECTING_MAX)

    async def enter(place: int) -> Session:
        async with room:
            address = job.addresses[place % len(job.addresses)]
            me = await stack.enter_async_context(connect(address, name=f"i{place}", settings=SETTINGS))
            await me.join(f"idle{place}")
            return me

    async with AsyncExitStack() as stack:
        await asyncio.gather(*(enter(place) for place in range(job.cell.idle_clients)))
        slot.set(Word.STATE, State.READY)
        while slot.phase != Phase.STOP:
            await asyncio.sleep(LOOK_S * 10)
    return Outcome()


async def _join_and_leave(job: Job, slot: Slot) -> Outcome:
    """A client that joins the members' group and leaves it again and again, and times both."""
    outcome = Outcome()
    async with connect(job.address, name="joiner", settings=SETTINGS) as me:
        slot.set(Word.STATE, State.READY)
        while slot.phase == Phase.WAIT:
            await asyncio.sleep(LOOK_S)
        while slot.is_going:
            began = time.perf_counter()
            group = await me.join(job.groups[0])
            joined = time.perf_counter()
            await group.leave()
            outcome.joins_us.append((joined - began) * 1e6)
            outcome.leaves_us.append((time.perf_counter() - joined) * 1e6)
            await asyncio.sleep(JOIN_EVERY_S)
    return outcome
