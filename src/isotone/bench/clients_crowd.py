"""Clients that send as fast as they may and clients that read, around one group; and one that can stop reading."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType

import msgspec

from isotone.bench.clients_daemons import DaemonProcess
from isotone.client import Bundle, Session, Settings, View, connect
from isotone.core.errors import MachineError
from isotone.core.services import Service

logger = logging.getLogger("isotone.client")
GROUP = "crowd"
SENDERS, READERS = 2, 3
MESSAGE_BYTES = 1_000
BATCH = [bytes(MESSAGE_BYTES)] * 32
BATCH_BYTES = MESSAGE_BYTES * len(BATCH)
OF_EACH = f"{SENDERS} send, {READERS} others read; {MESSAGE_BYTES:,} bytes"
PATIENCE_S = 120.0
LOOK_S = 0.02
SLOTH_SETTINGS = Settings(inbox_bytes_max=1024 * 1024, reconnect_within_s=0)


def windows(count: int, seconds: float) -> str:
    """What a rate is a median of."""
    return f"{count} window{'' if count == 1 else 's'} of {seconds:g} s"


class Window(msgspec.Struct, frozen=True):
    """What each of the others hears in a while, and what the daemon pays for it, all of its work together."""

    rate: float
    """Messages per second."""
    cpu_us: float
    """Of the daemon, per message."""


class Reader:
    """A member that counts what it hears, and may be told to stop and to go on."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.heard_bytes = 0
        self.members: tuple[str, ...] = ()
        self.left_at: dict[str, float] = {}
        """When we heard that somebody is out, by name."""
        self.reads = asyncio.Event()
        self.reads.set()
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """And read from now on."""
        group = await self.session.join(GROUP)

        async def read() -> None:
            async for event in group.bundles():
                await self.reads.wait()
                if isinstance(event, Bundle):
                    self.heard_bytes += len(event.payload)
                elif isinstance(event, View):
                    self._on_view(event)

        self._task = asyncio.create_task(read())

    def _on_view(self, view: View) -> None:
        before, self.members = self.members, tuple(member.name for member in view.members)
        self.left_at.update({name: time.perf_counter() for name in before if name not in self.members})

    def check(self) -> None:
        """That it still reads: a reader that was lost would make its rate meaningless."""
        if self._task is not None and self._task.done():
            error = None if self._task.cancelled() else self._task.exception()
            raise MachineError(f"the reader {self.session.name} was lost: {error or 'its session ended'}")

    async def leave(self) -> None:
        """Whether it is still there or not."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.session.close()


class Crowd:
    """Entering connects the readers; `begin` has the senders send. They are not members, so they hear nothing.

    Readers are at one daemon, senders in turn at it and at the ``others``.
    """

    def __init__(self, daemon: DaemonProcess, *others: DaemonProcess) -> None:
        self.readers: list[Reader] = []
        self.taken_bytes = 0
        self._daemon = daemon
        self._doors = (daemon, *others)
        self._sends = True
        self._senders: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Crowd:
        self._stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)  # that a reader does not read is meant
        for number in range(READERS):
            self.readers.append(await self.reader(f"reader{number}"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._senders:
            task.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        await self._stack.aclose()

    @property
    def where(self) -> str:
        """Who sends, in words."""
        return "senders" if len(self._doors) == 1 else f"senders at {len(self._doors)} daemons"

    async def reader(self, name: str, settings: Settings | None = None) -> Reader:
        """One more member."""
        reader = Reader(await connect(self._daemon.address, name=name, settings=settings))
        self._stack.push_async_callback(reader.leave)
        await reader.join()
        return reader

    async def begin(self) -> None:
        """Whoever joined before hears everything."""
        for number in range(SENDERS):
            door = self._doors[number % len(self._doors)]
            sender = await self._stack.enter_async_context(connect(door.address, name=f"sender{number}"))
            self._senders.append(asyncio.create_task(self._send(sender)))

    async def _send(self, sender: Session) -> None:
        while self._sends:
            await sender.send_many(GROUP, BATCH, service=Service.AGREED)
            self.taken_bytes += BATCH_BYTES

    async def finish(self) -> None:
        """No more is sent; what was begun is taken."""
        self._sends = False
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self._senders)

    # --- rates -----------------------------------------------------------------------------------------------------

    async def window(self, seconds: float, until: Callable[[], bool] = lambda: True) -> Window:
        """What the others hear, for so long at least, and until the condition holds."""
        heard, cpu, began = self._heard(), self._daemon.cpu_seconds(), time.perf_counter()
        await asyncio.sleep(seconds)
        await self.wait(until, "the reader that stopped to be dealt with")
        messages = self._heard() - heard
        if not messages:
            raise MachineError(f"nobody heard anything in {seconds:g} s")
        lasted = time.perf_counter() - began
        return Window(messages / lasted, (self._daemon.cpu_seconds() - cpu) / messages * 1e6)

    async def wait(self, reached: Callable[[], bool], what: str) -> None:
        """Look again and again; not any more when somebody was lost."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            self.check()
            if time.monotonic() > deadline:
                raise MachineError(f"waited in vain for {what}")
            await asyncio.sleep(LOOK_S)

    def check(self) -> None:
        """That everybody is still there."""
        for reader in self.readers:
            reader.check()
        for task in self._senders:
            if task.done() and self._sends:
                raise MachineError(f"a sender was lost: {None if task.cancelled() else task.exception()}")

    def _heard(self) -> float:
        """Messages, for each reader."""
        self.check()
        return sum(reader.heard_bytes for reader in self.readers) / READERS / MESSAGE_BYTES
