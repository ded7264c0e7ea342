"""Suite ``replica``: ordered records of 256 bytes in a second, beside other replicated logs, on the same disk.

Three servers of each are real processes; clients have a connection each and wait for an answer before the next record.
The systems take turns, round by round, so that what else the machine does is shared. Also: the longest silence that a
client hears when a server is killed, and the time that a new server takes until it votes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from isotone.bench.foundation import Effort
from isotone.bench.measure import Figure, median_figure
from isotone.bench.replica_effort import ReplicaEffort
from isotone.bench.replica_systems import LOOK_S, SYSTEMS, Isotone, System
from isotone.core.errors import IsotoneError, MachineError
from isotone.host.answers import Refused
from isotone.host.log_client import RemoteLog

RECORD_BYTES = 256
WARM_S = 0.3
FILL_BYTES, FILL_AT_ONCE = 32 * 1024, 64


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of one system."""

    per_second: float
    median_ms: float
    slow_ms: float  # of a hundred the slowest
    cpu_us: float  # of all servers, for each record


def measure_replica(effort: Effort, note: Callable[[str], None]) -> list[Figure]:
    """All systems that are there."""
    return asyncio.run(_measure(effort.replica, note))


async def _measure(effort: ReplicaEffort, note: Callable[[str], None]) -> list[Figure]:
    there = [kind for kind in SYSTEMS if not kind.missing()]
    for kind in SYSTEMS:
        if kind.missing():
            note(f"left out: {kind.missing()}")
    samples: dict[tuple[str, int], list[Sample]] = {}
    durability: dict[str, str] = {}
    for round in range(effort.rounds):
        for kind in there:
            note(f"round {round + 1} of {effort.rounds}: {kind.name}")
            with TemporaryDirectory(prefix="isotone-bench-") as directory:
                system = kind(Path(directory) / "servers")
                durability[system.name] = system.durability
                for clients, sample in (await _one_turn(system, effort)).items():
                    samples.setdefault((system.name, clients), []).append(sample)
    figures = [figure for key, taken in samples.items() for figure in _figures(*key, taken, durability[key[0]])]
    return [*figures, await _silence(effort, note), await _learning(effort, note)]


async def _one_turn(system: System, effort: ReplicaEffort) -> dict[int, Sample]:
    system.start()
    try:
        await system.ready()
        return {clients: await _load(system, clients, effort.seconds) for clients in effort.clients}
    finally:
        system.end()


async def _load(system: System, clients: int, seconds: float) -> Sample:
    """Closed loops, all at once."""
    appends = [await system.client(number) for number in range(clients)]
    latencies: list[float] = []
    record = b"x" * RECORD_BYTES
    begin = time.monotonic() + WARM_S
    end = begin + seconds

    async def one(append: Callable[[bytes], object]) -> None:
        while (asked := time.monotonic()) < end:
            await append(record)  # type: ignore[misc]
            if asked >= begin:
                latencies.append(time.monotonic() - asked)

    loads = [asyncio.create_task(one(append)) for append in appends]
    await asyncio.sleep(WARM_S)
    cpu = system.cpu_seconds()
    await asyncio.gather(*loads)
    cpu = system.cpu_seconds() - cpu
    if not latencies:
        raise MachineError(f"{system.name}: not one record was ordered in {seconds:g} s")
    latencies.sort()
    count = len(latencies)
    return Sample(
        per_second=count / seconds,
        median_ms=latencies[count // 2] * 1e3,
        slow_ms=latencies[min(count - 1, count * 99 // 100)] * 1e3,
        cpu_us=cpu / count * 1e6,
    )


def _figures(system: str, clients: int, taken: list[Sample], durability: str) -> list[Figure]:
    label = f"{system}, {clients} client{'s' if clients > 1 else ''}"
    over = f"{len(taken)} turns; {durability}"
    return [
        median_figure(f"{label}: records", [each.per_second for each in taken], "/s", over),
        median_figure(f"{label}: median", [each.median_ms for each in taken], "ms", over),
        median_figure(f"{label}: of a hundred the slowest", [each.slow_ms for each in taken], "ms", over),
        median_figure(f"{label}: CPU of all servers", [each.cpu_us for each in taken], "µs each", over),
    ]


async def _silence(effort: ReplicaEffort, note: Callable[[str], None]) -> Figure:
    """The longest time between two answers while one of three servers is killed; clients are at the other two."""
    longest: list[float] = []
    for number in range(effort.losses):
        note(f"loss {number + 1} of {effort.losses}")
        with TemporaryDirectory(prefix="isotone-bench-") as directory:
            system = Isotone(Path(directory) / "servers")
            system.start()
            try:
                await system.ready()
                longest.append(await _gap(system))
            finally:
                system.end()
    return median_figure("isotone: longest silence when a server is killed", longest, "s", f"{effort.losses} kills")


async def _gap(system: Isotone) -> float:
    answered = [time.monotonic()]
    widest = 0.0
    ends = False

    async def one(number: int) -> None:
        nonlocal widest
        append = await system.client(number)
        while not ends:
            try:
                await append(b"x" * RECORD_BYTES)
            except IsotoneError:
                continue
            now = time.monotonic()
            widest, answered[0] = max(widest, now - answered[0]), now

    loads = [asyncio.create_task(one(number)) for number in (0, 1)]
    await asyncio.sleep(WARM_S)
    widest = 0.0
    answered[0] = time.monotonic()
    system.kill("c")
    while widest < 0.05 or time.monotonic() - answered[0] > 0.05:  # it has happened, and is over
        await asyncio.sleep(0.05)
    ends = True
    await asyncio.gather(*loads)
    return widest


async def _learning(effort: ReplicaEffort, note: Callable[[str], None]) -> Figure:
    """From the start of a fourth server until it votes; there is no snapshot, so it gets every record."""
    mib = effort.learner_mib
    note(f"a learner at {mib} MiB")
    with TemporaryDirectory(prefix="isotone-bench-") as directory:
        system = Isotone(Path(directory) / "servers", learner="d")
        system.start()
        try:
            await system.ready()
            async with RemoteLog(system.address("a")) as log:
                await _fill(log, mib)
                began = time.monotonic()
                system.start("d")
                while True:
                    try:
                        await log.reconfigure(add="d")
                        break
                    except Refused:
                        await asyncio.sleep(LOOK_S)
                taken = time.monotonic() - began
        finally:
            system.end()
    return Figure(f"isotone: a new server votes at {mib} MiB", taken, "s", "from the start of its process; no snapshot")


async def _fill(log: RemoteLog, mib: int) -> None:
    """Large records, a few at a time."""
    record, left = b"x" * FILL_BYTES, mib * 1024 * 1024 // FILL_BYTES
    while left > 0:
        await asyncio.gather(*(log.append(record) for _ in range(min(left, FILL_AT_ONCE))))
        left -= FILL_AT_ONCE
