"""Many clients and many groups at one daemon: what each takes of its memory, and of its time to come.

Clients come one after the other, then each joins a group of its own. The first and the last hundred are compared: a
cost that grows with those who are there already shows. Heartbeats of those who are there cost as well; that is measured
at rest and subtracted in proportion.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import msgspec

from isotone.bench.clients_daemons import KIB, DaemonProcess, Daemons
from isotone.bench.clients_effort import MIB, ClientsEffort
from isotone.bench.foundation import Say
from isotone.bench.measure import Figure, median_figure
from isotone.client import Session, connect

SHARE = 10  # the first tenth and the last are compared


class Filling(msgspec.Struct, kw_only=True):
    """What one daemon took while it was filled; costs in CPU seconds of each."""

    empty_bytes: int = 0
    clients_bytes: int = 0
    groups_bytes: int = 0
    empty_rest: float = 0.0
    """CPU seconds per second, with nobody there."""
    rest: float = 0.0
    """The same with all clients."""
    connects: list[float] = []
    joins: list[float] = []


async def measure_many(effort: ClientsEffort, say: Say) -> list[Figure]:
    """Fill one daemon after the other."""
    runs = []
    for number in range(effort.runs):
        say(f"{effort.clients:,} clients and groups, {number + 1} of {effort.runs}")
        with Daemons(1) as (daemon,):
            runs.append(await fill(daemon, effort))
    return [*_memory_figures(effort, runs), *_cost_figures(effort, runs)]


async def fill(daemon: DaemonProcess, effort: ClientsEffort) -> Filling:
    """Clients first, then groups."""
    filling, sessions = Filling(), list[Session]()
    async with connect(daemon.address, name="first") as me:  # what a first client costs once and for all
        await me.join("first")
    filling.empty_rest = await _rest(daemon, effort)
    filling.empty_bytes = daemon.resident_bytes()

    async with AsyncExitStack() as stack:
        stack.push_async_callback(_close_all, sessions)

        async def come(number: int) -> None:
            sessions.append(await connect(daemon.address, name=f"c{number}"))

        async def join(number: int) -> None:
            await sessions[number].join(f"g{number}")

        connects = await _costs(daemon, effort, come)
        filling.rest = await _rest(daemon, effort)
        filling.clients_bytes = daemon.resident_bytes()
        joins = await _costs(daemon, effort, join)
        filling.groups_bytes = daemon.resident_bytes()
    grown = filling.rest - filling.empty_rest
    for place, (cpu, wall, there) in enumerate(connects):
        beats = filling.empty_rest + grown * (there / effort.clients)
        filling.connects.append((cpu - beats * wall) / _each(effort))
        cpu, wall, _ = joins[place]
        filling.joins.append((cpu - filling.rest * wall) / _each(effort))
    return filling


async def _costs(
    daemon: DaemonProcess, effort: ClientsEffort, act: Callable[[int], Awaitable[None]]
) -> list[tuple[float, float, int]]:
    """CPU seconds and seconds that each batch took, and how many were there before it."""
    costs, each = [], _each(effort)
    for first in range(0, effort.clients, each):
        cpu, began = daemon.cpu_seconds(), time.perf_counter()
        for number in range(first, min(first + each, effort.clients)):
            await act(number)
        costs.append((daemon.cpu_seconds() - cpu, time.perf_counter() - began, first))
    return costs


def _each(effort: ClientsEffort) -> int:
    """Clients of a batch, so that the first tenth has so many batches as there are samples."""
    return max(1, effort.clients // SHARE // effort.samples)


async def _rest(daemon: DaemonProcess, effort: ClientsEffort) -> float:
    cpu, began = daemon.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(effort.rest_seconds)
    return (daemon.cpu_seconds() - cpu) / (time.perf_counter() - began)


async def _close_all(sessions: list[Session]) -> None:
    for session in sessions:
        await session.close()


# --- figures -------------------------------------------------------------------------------------------------------


def _memory_figures(effort: ClientsEffort, runs: list[Filling]) -> Iterator[Figure]:
    count, over = effort.clients, f"{len(runs)} daemon{'' if len(runs) == 1 else 's'} in turn"
    steps = [
        ("nobody there", [run.empty_bytes for run in runs]),
        (f"{count:,} clients", [run.clients_bytes for run in runs]),
        (f"{count:,} groups too", [run.groups_bytes for run in runs]),
    ]
    for name, values in steps:
        yield median_figure(f"resident memory, {name}", [value / MIB for value in values], "MiB", over)
    per_client = [(run.clients_bytes - run.empty_bytes) / count / KIB for run in runs]
    per_group = [(run.groups_bytes - run.clients_bytes) / count / KIB for run in runs]
    yield median_figure("resident memory, each client", per_client, "KiB", f"growth over {count:,} clients")
    yield median_figure("resident memory, each group", per_group, "KiB", f"growth over {count:,} groups of one member")
    rest = [run.rest * 100 for run in runs]
    yield median_figure(f"at rest with {count:,} clients", rest, "% of a core", "heartbeats, and the answers to them")


def _cost_figures(effort: ClientsEffort, runs: list[Filling]) -> Iterator[Figure]:
    hundred = _each(effort) * effort.samples
    for name, costs in (("connect", [run.connects for run in runs]), ("join", [run.joins for run in runs])):
        first = [cost * 1e6 for each in costs for cost in each[: effort.samples]]
        last = [cost * 1e6 for each in costs for cost in each[-effort.samples :]]
        over = f"CPU; {len(first)} batches of {_each(effort)}, others' heartbeats off"
        yield median_figure(f"{name}, first {hundred}", first, "µs", over)
        yield median_figure(f"{name}, last {hundred} of {effort.clients:,}", last, "µs", over)
        growth = [sum(each[-effort.samples :]) / sum(each[: effort.samples]) for each in costs]
        yield median_figure(f"{name}, growth", growth, "last over first", "1 is flat")
