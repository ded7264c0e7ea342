"""Suite ``objects``: sets, linearizable gets, watches and a lock, beside etcd and PySyncObj, on the same disk.

Three programs of each system call at once, and wait for each answer before the next call. With ours and PySyncObj the
programs are the servers, as they are used; etcd's three servers are processes beside them. The CPU time is that of
programs and servers together. The systems take turns, round by round.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from isotone.bench.foundation import Effort
from isotone.bench.measure import Figure, median_figure
from isotone.bench.objects_caller import LINE_BYTES_MAX, DeedMeasured, Task
from isotone.bench.objects_effort import ObjectsEffort
from isotone.bench.replica_systems import LOOK_S, SERVERS, Etcd, Isotone, PySyncObj, System
from isotone.core.errors import MachineError
from isotone.daemon.ports import LOOPBACK, free_ports

KINDS: dict[str, type[System]] = {"isotone": Isotone, "etcd": Etcd, "pysyncobj": PySyncObj}
DEEDS = {"isotone": ("set", "get", "lock"), "etcd": ("set", "get", "lock"), "pysyncobj": ("set", "get")}
"""PySyncObj has neither a watch nor a lock that waits."""
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
START_WITHIN_S = 120.0
WATCH_WITHIN_S = 0.5
"""So long a watch begins before what it sees."""


class Program:
    """One of the three; it performs what it is told."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log = process, log

    async def line(self) -> bytes:
        """The next line of its output."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            told = self._log.read_text(errors="replace").strip().splitlines()
            raise MachineError(f"a program to be measured ended by itself: {told[-1] if told else 'without a word'}")
        return line

    async def perform(self, deed: str, callers: int, seconds: float) -> DeedMeasured:
        """Let it do this with so many callers for so long; what it measured."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(Task(deed, callers, seconds)) + b"\n")
        return msgspec.json.decode(await self.line(), type=DeedMeasured)

    async def end(self) -> None:
        """Kill the program, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


class Turn:
    """One turn of one system, and what it measured: by label and unit."""

    def __init__(self, kind: str, directory: Path, effort: ObjectsEffort) -> None:
        self._kind, self._directory, self._effort = kind, directory, effort
        self._servers: System | None = None
        self.found: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Start it, measure, and end it."""
        async with AsyncExitStack() as stack:
            places = [f"{LOOPBACK}:{port}" for port in free_ports(len(SERVERS))]
            if self._kind == "etcd":
                etcd = Etcd(self._directory / "servers")
                stack.callback(etcd.end)
                etcd.start()
                await etcd.ready()
                self._servers, places = etcd, [f"{LOOPBACK}:{port}" for port, _ in etcd.ports.values()]
            programs = []
            for name in SERVERS:
                programs.append(await self._start(name, places))
                stack.push_async_callback(programs[-1].end)
            async with asyncio.timeout(START_WITHIN_S):
                for each in programs:
                    await each.line()
            for callers in self._effort.callers:
                for deed in DEEDS[self._kind]:
                    await self._measure(programs, deed, callers)
            if "lock" in DEEDS[self._kind]:
                await self._watch(programs)

    async def _start(self, name: str, places: list[str]) -> Program:
        most = -(-max(self._effort.callers) // len(SERVERS))
        words = ["-m", "isotone.bench.objects_caller", self._kind, name, str(self._directory), str(most), *places]
        path = self._directory / f"{name}.log"
        with path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES_MAX,
            )
        return Program(process, path)

    async def _measure(self, programs: list[Program], deed: str, callers: int) -> None:
        shares = [(callers + place) // len(programs) for place in reversed(range(len(programs)))]
        cpu = 0.0 if self._servers is None else -self._servers.cpu_seconds()
        answers = await asyncio.gather(
            *(each.perform(deed, share, self._effort.seconds) for each, share in zip(programs, shares, strict=True))
        )
        cpu += sum(each.cpu_s for each in answers) + (0.0 if self._servers is None else self._servers.cpu_seconds())
        taken = sorted(each for answer in answers for each in answer.taken_ns)
        if not taken:
            raise MachineError(f"{self._kind}: not one {deed} was answered in {self._effort.seconds:g} s")
        label = f"{deed}, {callers} caller{'s' if callers > 1 else ''}"
        self.found[f"{label}: calls", "/s"] = len(taken) / self._effort.seconds
        self.found[f"{label}: median", "ms"] = taken[len(taken) // 2] / NS_PER_MS
        self.found[f"{label}: of a hundred the slowest", "ms"] = taken[len(taken) * 99 // 100] / NS_PER_MS
        self.found[f"{label}: CPU of all processes", "µs each"] = cpu / len(taken) * 1e6
        gaps = sorted(
            later[0] - earlier[1]
            for earlier, later in pairwise(sorted(each for answer in answers for each in answer.held))
        )
        if gaps and callers > 1:
            self.found[f"{label}: from one holder to the next", "ms"] = gaps[len(gaps) // 2] / NS_PER_MS

    async def _watch(self, programs: list[Program]) -> None:
        """The last program sees what the first one sets."""
        seconds = self._effort.seconds
        looking = asyncio.create_task(programs[-1].perform("watch", 1, seconds + 2 * WATCH_WITHIN_S))
        await asyncio.sleep(WATCH_WITHIN_S)
        await programs[0].perform("stamp", 1, seconds)
        seen = sorted((await looking).taken_ns)
        if not seen:
            raise MachineError(f"{self._kind}: a watch saw nothing")
        self.found["watch: from the call of a set to another program", "ms"] = seen[len(seen) // 2] / NS_PER_MS


def measure_objects(effort: Effort, note: Callable[[str], None]) -> list[Figure]:
    """All systems that are there."""
    return asyncio.run(_measure(effort.objects, note))


async def _measure(effort: ObjectsEffort, note: Callable[[str], None]) -> list[Figure]:
    there = [kind for kind, system in KINDS.items() if not system.missing()]
    for kind, system in KINDS.items():
        if kind not in there:
            note(f"left out: {system.missing()}")
    samples: dict[tuple[str, str, str], list[float]] = {}
    for round in range(effort.rounds):
        for kind in there:
            note(f"round {round + 1} of {effort.rounds}: {kind}")
            with TemporaryDirectory(prefix="isotone-bench-") as directory:
                turn = Turn(kind, Path(directory), effort)
                await turn.run()
            for (label, unit), value in turn.found.items():
                samples.setdefault((kind, label, unit), []).append(value)
            await asyncio.sleep(LOOK_S)
    return _figures(samples)


def _figures(samples: Mapping[tuple[str, str, str], list[float]]) -> list[Figure]:
    return [
        median_figure(
            f"{KINDS[kind].name}: {label}", values, unit, f"{len(values)} turns; a set is {KINDS[kind].durability}"
        )
        for (kind, label, unit), values in samples.items()
    ]
