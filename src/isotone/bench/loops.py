"""What the event loop itself costs a lone message: an echo behind each loop that there is, and behind plain ``epoll``.

A process of its own reads from a Unix socket and writes the same back; this process sends, waits for the answer, and
then a millisecond. The loops take turns, so that they meet the same machine. What is left when everything above the
loop is free is the floor under the latency of any daemon in this language; the difference between loops is what another
loop could save.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import select
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import quantiles

from isotone.bench.foundation import Effort, Say
from isotone.bench.measure import Figure

BODY = bytes(64)
GAP_SECONDS = 0.001
READ_BYTES = 64 * 1024
ROUNDS = 3

Echo = Callable[[socket.socket], None]


def measure_loops(effort: Effort, say: Say) -> Iterator[Figure]:
    """The answer's median and quartiles behind each loop."""
    taken: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        for name, echo in echoes().items():
            say(f"echo behind {name}, {number + 1} of {ROUNDS}")
            taken.setdefault(name, []).extend(answered_us(echo, effort.loop_echoes))
    for name, values in taken.items():
        low, median, high = quantiles(values, n=4)
        yield Figure(f"echo behind {name}", median, "µs", f"{len(values)} echoes of 64 B, 1 ms apart", (low, high))


def echoes() -> dict[str, Echo]:
    """Every way to wait that is installed."""
    found: dict[str, Echo] = {"asyncio": partial(_by_loop, asyncio.new_event_loop), "epoll": _by_epoll}
    try:
        import uvloop
    except ImportError:
        return found
    return found | {"uvloop": partial(_by_loop, uvloop.new_event_loop)}


def answered_us(echo: Echo, count: int) -> list[float]:
    """Microseconds from each send until its answer."""
    near, far = socket.socketpair()
    with near, far:
        process = multiprocessing.get_context("fork").Process(target=_echo_until_closed, args=(echo, near, far))
        process.start()
        far.close()
        taken = [_ask(near) for _ in range(count)]
        near.close()
        process.join()
    return taken


def _ask(near: socket.socket) -> float:
    time.sleep(GAP_SECONDS)
    began = time.perf_counter_ns()
    near.sendall(BODY)
    near.recv(READ_BYTES)
    return (time.perf_counter_ns() - began) / 1_000


def _echo_until_closed(echo: Echo, near: socket.socket, far: socket.socket) -> None:
    near.close()  # or the end would never be seen
    far.setblocking(False)
    echo(far)


def _by_epoll(far: socket.socket) -> None:
    with select.epoll() as waiting:
        waiting.register(far, select.EPOLLIN)
        while True:
            waiting.poll()
            if not (data := far.recv(READ_BYTES)):
                return
            far.sendall(data)


def _by_loop(factory: Callable[[], asyncio.AbstractEventLoop], far: socket.socket) -> None:
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_answering(far))


async def _answering(far: socket.socket) -> None:
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def answer() -> None:
        if data := far.recv(READ_BYTES):
            far.sendall(data)
        else:
            loop.remove_reader(far)
            closed.set()

    loop.add_reader(far, answer)
    await closed.wait()
