"""A work queue without a server: tasks go to a group, and its members agree who does what without asking each other.

All members hear tasks and results in one order, so all know which tasks are open. A task belongs to the member of the
present view that a fixed rule names. When a view loses a member, its tasks belong to others at once; when views merge,
or somebody comes, the sides tell each other what they know. A task is done at least once, and twice only if a worker
was cut off in between.

    python examples/work_queue.py     three workers on a daemon inside of this process; one of them leaves
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from zlib import crc32

import msgspec

import isotone
from isotone.core.ids import ClientId

Work = Callable[[str], Awaitable[str]]


class Task(msgspec.Struct, tag=True, frozen=True):
    """Something to do; the number makes it one of its kind."""

    number: str
    text: str


class Done(msgspec.Struct, tag=True, frozen=True):
    """It was done."""

    number: str
    result: str


class Known(msgspec.Struct, tag=True, frozen=True):
    """What one side knows, told when another one comes."""

    tasks: list[Task]
    done: list[Done]


decoder = msgspec.json.Decoder(Task | Done | Known)


class Worker:
    """A member of the group. ``results`` has what was done by anybody."""

    def __init__(self, group: isotone.Group, work: Work) -> None:
        self.tasks: dict[str, Task] = {}
        self.results: dict[str, str] = {}
        self.changed = asyncio.Condition()
        self._group, self._work = group, work
        self._members: tuple[ClientId, ...] = ()
        self._asked = 0

    async def add(self, text: str) -> None:
        """A task for any of us; when this returns, every member of the view has it."""
        self._asked += 1
        number = f"{self._group.session.id}.{self._asked}"
        await self._group.send(msgspec.json.encode(Task(number, text)), confirm=True)

    async def run(self) -> None:
        """Follow the group and do our share, until we leave it."""
        working = asyncio.create_task(self._do_our_share())
        try:
            async for event in self._group:
                if isinstance(event, isotone.View):
                    await self._on_view(event)
                elif isinstance(event, isotone.Message):
                    self._learn(decoder.decode(event.data))
                async with self.changed:
                    self.changed.notify_all()
        finally:
            working.cancel()

    async def _on_view(self, view: isotone.View) -> None:
        """The first of those who came along together tells the others what they know."""
        self._members = view.members
        if len(view.members) > len(view.transitional) and view.transitional[:1] == (self._group.session.id,):
            done = [Done(number, result) for number, result in self.results.items()]
            await self._tell(Known(list(self.tasks.values()), done))

    def _learn(self, message: Task | Done | Known) -> None:
        match message:
            case Task():
                self.tasks[message.number] = message
            case Done():
                self.results[message.number] = message.result
            case Known():
                for task in message.tasks:
                    self._learn(task)
                for done in message.done:
                    self._learn(done)

    def _ours(self) -> Task | None:
        """An open task that the rule gives to us."""
        for number, task in self.tasks.items():
            owner = max(self._members, key=lambda member: crc32(f"{member} {number}".encode()))
            if number not in self.results and owner == self._group.session.id:
                return task
        return None

    async def _do_our_share(self) -> None:
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda: self._ours() is not None)
                task = self._ours()
            assert task is not None
            result = await self._work(task.text)
            self.results[task.number] = result  # not to be taken again before the others heard it
            await self._tell(Done(task.number, result))

    async def _tell(self, message: Done | Known) -> None:
        with suppress(isotone.ClientError):  # our daemon is gone: the others hear of it when we are back
            await self._group.send(msgspec.json.encode(message))


async def shout(text: str) -> str:
    """The work."""
    await asyncio.sleep(0.01)
    return text.upper()


async def play() -> None:
    """Three workers, twelve tasks; one worker goes home early."""
    async with isotone.node() as daemon:
        sessions = [await isotone.connect(daemon.address, name=name) for name in ("ann", "ben", "cid")]
        workers = [Worker(await session.join("work"), shout) for session in sessions]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        for number in range(12):
            await workers[0].add(f"task {number}")
        await sessions[2].close()
        ann = workers[0]
        async with ann.changed:
            await ann.changed.wait_for(lambda: len(ann.results) == 12)
        print(f"{len(ann.results)} tasks are done:", ", ".join(sorted(ann.results.values())))
        for session in sessions:
            await session.close()
        await asyncio.gather(*running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(play())
