"""Suite ``replica``: ordered records of 256 bytes in a second, beside other replicated logs, on the same disk.

Three servers of each are real processes; clients have a connection each and wait for an answer before the next record.
The systems take turns, round by round, so that what else the machine does is shared. Also: the longest silence that its
clients, and those of another server, hear when a server is killed or stopped, and the time that a new server takes
until it votes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from isotone.bench.foundation import Effort
from isotone.bench.measure import Figure, median_figure
from isotone.bench.replica_effort import ReplicaEffort
from isotone.bench.replica_systems import LOOK_S, SERVERS, SYSTEMS, Isotone, System
from isotone.core.errors import IsotoneError, MachineError
from isotone.host.answers import Refused
from isotone.host.log_client import RemoteLog

RECORD_BYTES = 256
WARM_S = 0.3
LOST, SILENCE_S = "c", 5.0
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
    return [*figures, *await _silence(effort, note), await _learning(effort, note)]


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


async def _silence(effort: ReplicaEffort, note: Callable[[str], None]) -> list[Figure]:
    """Of three servers one is killed, or stopped: how long clients hear nothing at most.

    The port of a killed process refuses packets, which the others notice; one that is stopped is only silent, as a
    machine without power is. Its own client is not asked then: without a deadline it waits longer than we look.
    """
    longest: dict[tuple[str, str], float] = {}
    for number in range(effort.losses):
        for lost, take_away in (("killed", Isotone.kill), ("stopped", Isotone.stop)):
            note(f"loss {number + 1} of {effort.losses}: {lost}")
            with TemporaryDirectory(prefix="isotone-bench-") as directory:
                system = Isotone(Path(directory) / "servers")
                system.start()
                try:
                    await system.ready()
                    for server, silence in (await _silences(system, take_away)).items():
                        whose = (lost, f"the {lost} server" if server == LOST else "another server")
                        longest[whose] = max(longest.get(whose, 0.0), silence)
                finally:
                    system.end()
    over = f"the longest of {effort.losses} losses, {SILENCE_S:g} s from each on"
    return [
        Figure(f"isotone, a server {lost}: longest silence for a client of {whose}", silence, "s", over)
        for (lost, whose), silence in longest.items()
        if whose != "the stopped server"
    ]


async def _silences(system: Isotone, take_away: Callable[[Isotone, str], None]) -> dict[str, float]:
    """A client of each server, which knows the others too; what each hears while one server is taken away."""
    clients = {server: await _client_of(system, server) for server in SERVERS}
    answers: dict[str, list[float]] = {server: [] for server in SERVERS}

    async def one(server: str) -> None:
        while True:
            try:
                await clients[server].append(b"x" * RECORD_BYTES)
            except IsotoneError:
                continue
            answers[server].append(time.monotonic())

    loads = [asyncio.create_task(one(server)) for server in SERVERS]
    while not all(answers.values()):
        await asyncio.sleep(LOOK_S)
    await asyncio.sleep(WARM_S)
    away = {server: log.server for server, log in clients.items() if log.server != server}
    lost = time.monotonic()
    await asyncio.to_thread(take_away, system, LOST)
    await asyncio.sleep(lost + SILENCE_S - time.monotonic())
    for load in loads:
        load.cancel()
    await asyncio.gather(*loads, return_exceptions=True)
    for log in clients.values():
        await log.close()
    if away:
        raise MachineError(f"clients left their servers before one was lost: {away}")
    return {server: longest_silence(answers[server], lost, lost + SILENCE_S) for server in SERVERS}


async def _client_of(system: Isotone, server: str) -> RemoteLog:
    """Connected to this server, with the addresses of all."""
    log = await RemoteLog(system.address(server)).__aenter__()
    log.addresses = tuple(map(system.address, SERVERS))
    return log


def longest_silence(answers: Sequence[float], begin: float, end: float) -> float:
    """The longest time without an answer that reaches into the time from ``begin`` to ``end``; answers are in order."""
    last = max((at for at in answers if at <= begin), default=begin)
    times = [last, *(at for at in answers if begin < at < end), end]
    return max(later - earlier for earlier, later in pairwise(times))


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
