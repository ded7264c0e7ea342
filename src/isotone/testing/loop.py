"""An asyncio event loop in virtual time, above a simulated world.

Where another loop would wait for sockets, this one lets the world go on, instant by instant, until something is ready
to run: a timer of the program, or bytes on a simulated stream. Nothing takes time but waiting, and nothing is random
but what the seed says, so a run is the same run again with the same seed, whatever ``PYTHONHASHSEED`` says.

Nothing real is at hand: sockets, servers, subprocesses, pipes and signals are refused. What is given to an executor
runs at once in the loop's own thread, so ``asyncio.to_thread`` works and stays reproducible.
"""

from __future__ import annotations

import asyncio
import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from typing import Any, NoReturn, Protocol

from isotone.core.choice import Choice
from isotone.sim.world import World
from isotone.testing.errors import Deadlock, NotSimulated, TimeOver
from isotone.testing.waiting import PATIENCE_S, Watch, described

LIMIT_S = 3600.0
INSTANT_MAX = 100_000
"""So many rounds of the loop without virtual time going on are a program that polls without waiting."""
LOOK_US = 10_000_000
MICROSECONDS = 1_000_000
ROUNDING_US = 1e-3


class Network(Protocol):
    """What a cluster offers to programs in its world."""

    async def connect(
        self, loop: VirtualLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a stream from the place of the running task to this address."""
        ...


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs asyncio programs against a world, as fast as they can be computed."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _thread_id: int | None

    def __init__(self, seed: int | str = 0, *, limit: float = LIMIT_S) -> None:
        super().__init__()
        self.seed = seed
        self.world: World | None = None
        self.network: Network | None = None
        self.tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], Context] = weakref.WeakKeyDictionary()  # as they began
        self._tasks_made = 0
        self._random = Choice(f"{seed}/random bytes")
        self._clock_resolution = 1 / MICROSECONDS
        self._passed_us = 0  # before the present world
        self._limit_us = round(limit * MICROSECONDS)
        self._look_at = LOOK_US
        self._watch = Watch()
        self._rounds = 0  # in this instant
        self._selector = self
        self.set_task_factory(_make_task)  # type: ignore[arg-type]

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """Virtual microseconds since the loop was made."""
        return self._passed_us + (self.world.now if self.world is not None else 0)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now_us / MICROSECONDS

    def random_bytes(self, count: int) -> bytes:
        """What a program would take from the machine's randomness, from the seed."""
        return b"".join(self._random.word().to_bytes(8, "big") for _ in range(-(-count // 8)))[:count]

    def enter(self, world: World, network: Network) -> None:
        """Run in this world from now on."""
        if self.world is not None:
            raise NotSimulated("there is a cluster in this loop already; one at a time")
        self._passed_us -= world.now
        self.world, self.network = world, network

    def leave(self) -> None:
        """The world is over; time goes on without it."""
        self._passed_us = self.now_us
        self.world = self.network = None

    # --- waiting ---------------------------------------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[Any]:
        """In the place of a selector: let the world go on for so long, or until something is ready to run."""
        began = self.now_us
        if self.world is not None:
            self.world.run_until(self.world.now)  # what the program has just asked for
        if timeout is None or timeout > 0:
            target = None if timeout is None else began + max(1, math.ceil(timeout * MICROSECONDS - ROUNDING_US))
            self._advance(target)
        if self.now_us != began:
            self._rounds = 0
            return []
        self._rounds += 1
        if self._rounds > INSTANT_MAX:
            raise TimeOver(f"virtual time stands still at {self.time()} s while these run:\n{described(self.tasks)}")
        return []

    def _advance(self, target: int | None) -> None:
        ready = self._ready
        while not ready:
            due = self._next_due()
            if due is None and target is None:
                raise Deadlock(f"nothing can ever happen; at {self.time()} s these wait:\n{described(self.tasks)}")
            if due is None or (target is not None and due > target):
                assert target is not None
                self._pass(target)
                break
            self._pass(due)
        if self.now_us > self._limit_us:
            raise TimeOver(f"more than {self._limit_us / MICROSECONDS} virtual seconds:\n{described(self.tasks)}")

    def _next_due(self) -> int | None:
        """When the world does something next."""
        if self.world is None or not self.world.agenda.heap:
            return None
        return self._passed_us + self.world.agenda.heap[0][0]

    def _pass(self, until: int) -> None:
        if self.world is None:
            self._passed_us = until
        else:
            self.world.run_until(until - self._passed_us)
        if self.now_us >= self._look_at:
            self._look()

    def _look(self) -> None:
        self._look_at = self.now_us + LOOK_US
        if not self._ready and self._watch.stands_still(self.time(), self.tasks, self._scheduled):
            raise Deadlock(
                f"no task went on for {PATIENCE_S} virtual seconds, and none has a reason to; at {self.time()} s "
                f"these wait:\n{described(self.tasks)}"
            )

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing: what the world does is ready to run already."""

    def _write_to_self(self) -> None:
        """Nobody needs to be woken: there is one thread."""

    # --- what programs ask for -------------------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **others: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A stream to a daemon of the cluster."""
        if self.network is None:
            raise NotSimulated(f"{host}:{port} cannot be reached: there is no cluster in this loop")
        if ssl or sock is not None or host is None or port is None:
            raise NotSimulated("connections in a simulated cluster have a host and a port, no TLS and no real socket")
        return await self.network.connect(self, protocol_factory, host, port)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Runs it in this thread, in a later round of the loop."""
        future: asyncio.Future[Any] = self.create_future()
        self.call_soon(_run, future, func, args)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """From the loop's own thread only: another one would come at a time that nobody can repeat."""
        if self._thread_id is not None and self._thread_id != threading.get_ident():
            raise NotSimulated("another thread has no place in virtual time; run it inside the loop")
        return self.call_soon(callback, *args, context=context)

    def unfinished(self) -> Iterator[asyncio.Task[Any]]:
        """The tasks that are not done, in the order in which they began."""
        return (task for task in list(self.tasks) if not task.done())

    def number(self) -> int:
        """Of the next task."""
        self._tasks_made += 1
        return self._tasks_made


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    assert isinstance(loop, VirtualLoop)
    number = loop.number()
    options["context"] = context = options.get("context") or copy_context()
    options["name"] = options.get("name") or f"task-{number}"
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    loop.tasks[task] = context
    return task


def _run(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(func(*args))
    except Exception as error:
        future.set_exception(error)


def _refusal(what: str) -> Callable[..., NoReturn]:
    def refuse(self: VirtualLoop, *args: object, **options: object) -> NoReturn:
        raise NotSimulated(f"{what}: nothing real is at hand in virtual time, only streams to the cluster's daemons")

    return refuse


REFUSED = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)
for _name in REFUSED:
    setattr(VirtualLoop, _name, _refusal(_name))
