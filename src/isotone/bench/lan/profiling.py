"""Where the time goes: a run at full speed, with the stacks of daemons and clients looked at."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import IsotoneCluster
from isotone.bench.lan.measuring import Members, Sample, check_outcomes, sample_of
from isotone.bench.lan.processes import Process
from isotone.core.errors import MachineError

WRITE_WITHIN_S = 20.0
WARM_UP_S = 1.0


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A function: the share of samples in it, and in it or below it."""

    name: str
    own: float
    total: float


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process."""

    process: str
    samples: int
    cpu_us_per_message: float
    places: list[Place]
    lines: list[tuple[str, float]]
    """The lines with most samples of their own."""


class ProfileReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of all of them."""

    cell: str
    rate: float
    cpu_us_daemons: float
    cpu_us_clients: float
    profiles: list[Profile]


def profile(cell: Cell, seconds: float, top: int) -> ProfileReport:
    """Run, and look at every process."""
    with (
        IsotoneCluster(cell.cluster, None, profile=True) as running,
        Members(cell, running, profile=True) as members,
    ):
        members.go()
        time.sleep(WARM_UP_S)
        processes = _processes(running, members)
        for _, process, _ in processes:
            process.signal(signal.SIGUSR1)
        before = members.snapshot()
        time.sleep(seconds)
        after = members.snapshot()
        for _, process, _ in processes:
            process.signal(signal.SIGUSR2)
        told = [_read(path, process) for _, process, path in processes]
        check_outcomes(cell, members.stop()[: cell.member_count])
    sample = sample_of(cell, before, after)
    found = [_profile(name, each, sample, top) for (name, _, _), each in zip(processes, told)]
    return ProfileReport(
        cell=cell.key,
        rate=sample.rate,
        cpu_us_daemons=sample.cpu_us_daemons,
        cpu_us_clients=sample.cpu_us_clients,
        profiles=found,
    )


def _processes(running: IsotoneCluster, members: Members) -> list[tuple[str, Process, Path]]:
    daemons = [(f"daemon {i + 1}", each, running.profile_of(i)) for i, each in enumerate(running.daemons)]
    clients = members.processes[: members.count]
    return [*daemons, *((f"client {i + 1}", each, members.profile_of(i)) for i, each in enumerate(clients))]


def _read(path: Path, process: Process) -> dict[str, Any]:
    deadline = time.monotonic() + WRITE_WITHIN_S
    while not path.exists():
        if process.ended is not None or time.monotonic() > deadline:
            raise MachineError(f"a process left no profile\n{process.tail}")
        time.sleep(0.02)
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def _profile(process: str, told: dict[str, Any], sample: Sample, top: int) -> Profile:
    samples = max(1, told["samples"])
    own, total, lines = (told[key] for key in ("own", "total", "lines"))
    names = sorted(own, key=lambda name: (-own[name], name))[:top]
    heaviest = sorted(lines.items(), key=lambda item: (-item[1], item[0]))[:top]
    return Profile(
        process=process,
        samples=told["samples"],
        cpu_us_per_message=told["cpu_s"] / sample.messages * 1e6,
        places=[Place(name=name, own=own[name] / samples, total=total[name] / samples) for name in names],
        lines=[(name, count / samples) for name, count in heaviest],
    )
