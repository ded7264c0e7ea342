"""What daemons take when nothing happens: three of them, clients at each in one group, nobody sends."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from isotone.bench.clients_daemons import DaemonProcess, Daemons
from isotone.bench.clients_effort import ClientsEffort
from isotone.bench.foundation import Say
from isotone.bench.measure import Figure, median_figure
from isotone.client import connect

DAEMONS = 3
GROUP = "idle"
SETTLE_S = 2.0
GOAL_PERCENT = 1.0


async def measure_idle(effort: ClientsEffort, say: Say) -> list[Figure]:
    """The share of a core of each daemon, window by window, and of the busiest over all of the time."""
    count = effort.idle_clients
    say(f"{DAEMONS} idle daemons with {count} clients each, {effort.idle_seconds:g} s")
    with Daemons(DAEMONS) as daemons:
        async with AsyncExitStack() as stack:
            for daemon in daemons:
                for number in range(count):
                    me = await stack.enter_async_context(connect(daemon.address, name=f"c{number}"))
                    await me.join(GROUP)
            await asyncio.sleep(min(SETTLE_S, effort.idle_seconds))
            windows = await _watch(daemons, effort)
    return _figures(daemons, windows, effort)


async def _watch(daemons: list[DaemonProcess], effort: ClientsEffort) -> list[tuple[float, list[float]]]:
    """The seconds of each window, and the CPU seconds of each daemon in it."""
    windows = []
    for _ in range(effort.idle_windows):
        before, began = [daemon.cpu_seconds() for daemon in daemons], time.perf_counter()
        await asyncio.sleep(effort.idle_seconds / effort.idle_windows)
        taken = [daemon.cpu_seconds() - earlier for daemon, earlier in zip(daemons, before, strict=True)]
        windows.append((time.perf_counter() - began, taken))
    return windows


def _figures(
    daemons: list[DaemonProcess], windows: list[tuple[float, list[float]]], effort: ClientsEffort
) -> list[Figure]:
    figures, whole = [], []
    seconds = sum(lasted for lasted, _ in windows)
    for place, daemon in enumerate(daemons):
        shares = [taken[place] / lasted * 100 for lasted, taken in windows]
        whole.append(sum(taken[place] for _, taken in windows) / seconds * 100)
        over = f"windows of {seconds / len(windows):.3g} s, {effort.idle_clients} clients"
        figures.append(median_figure(f"idle, daemon {daemon.name}", shares, "% of a core", over))
    over = f"all of {seconds:.3g} s; {DAEMONS} daemons, one group"
    goal = f"under {GOAL_PERCENT:g}"
    return [*figures, Figure("idle, busiest daemon", max(whole), "% of a core", over, goal=goal)]
