"""What is measured beside rows: a step is one figure of one cluster, taken once in every repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from isotone.bench.lan import changes, resting
from isotone.bench.lan.cells import Cell, Cluster
from isotone.bench.lan.clusters import Running
from isotone.bench.lan.corosync import REAL_TIME
from isotone.bench.lan.measuring import Effort
from isotone.bench.lan.probes import Probe, probe_latency, probes_of

Found = dict[str, float]
Capacities = dict[str, float]
LOAD_SHARE = 0.1
LATENCY_TIMES = 2  # the seconds of a row: a high percentile needs more samples than a rate
JOIN_SECONDS = 2.0
IDLE_SECONDS = 5.0


class Step(msgspec.Struct, frozen=True):
    """One of them: its name, the daemons that it needs, and how it is done with what cells carry."""

    name: str
    cluster: Cluster
    take: Callable[[Running, Capacities], Found]
    needs: tuple[str, ...] = ()
    """Cells whose capacity it wants to know; without them it is left out."""


def steps_of(cells: Sequence[Cell], effort: Effort, *, with_changes: bool = True) -> list[Step]:
    """Latencies for these cells, and changes for each system's base case."""
    longer = Effort(warm_up_s=effort.warm_up_s, seconds=effort.seconds * LATENCY_TIMES)
    steps = [_probe(probe, longer) for probe in probes_of(cells)]
    if with_changes:
        for cell in cells:
            first = next(each for each in cells if each.system == cell.system)
            if cell.variant != "base" or cell.packing or cell.system == REAL_TIME:
                continue
            if cell is first:
                steps += _changes(cell, effort)
            elif (cell.system, cell.path, cell.size) == ("isotone", "bridge", first.size):
                steps += _losses(cell)  # beside a peer that is there only
    return steps


def _probe(probe: Probe, effort: Effort) -> Step:
    def take(running: Running, capacities: Capacities) -> Found:
        return probe_latency(probe, running, effort, capacities)

    return Step(probe.name, probe.cell.cluster, take, probe.of)


def _changes(cell: Cell, effort: Effort) -> list[Step]:
    ours = cell.system == "isotone"
    steps = [_step("idle", cell, lambda running, rate: resting.idle(cell, running, IDLE_SECONDS), 0.0)]
    if ours:
        steps += [
            _step("join", cell, lambda running, rate: changes.joined(cell, running, rate, JOIN_SECONDS), LOAD_SHARE),
            _step("fairness", cell, lambda running, rate: resting.fairness(cell, running, effort, rate), 1.0),
        ]
    steps.append(_step("memory", cell, lambda running, rate: resting.memory_after_flood(running), 0.0))
    steps += _losses(cell)
    if ours and cell.path == "loopback":  # where it can be asked whether all are together again
        steps.append(_step("rolling-restart", cell, partial(changes.rolling_restart, cell), LOAD_SHARE))
    return steps


def _losses(cell: Cell) -> list[Step]:
    """A daemon that is killed, and one whose traffic is lost."""
    steps = []
    can_drop = cell.system == "isotone" or cell.path != "loopback"
    for load, share in (("idle", 0.0), ("loaded", LOAD_SHARE)):
        if can_drop:
            steps.append(_step(f"drop-{load}", cell, partial(changes.dropped, cell), share))
        steps.append(_step(f"kill-{load}", cell, partial(changes.killed, cell), share))
    return steps


def _step(name: str, cell: Cell, take: Callable[[Running, float], Found], share: float) -> Step:
    """At this part of what the cell carries."""

    def at_share(running: Running, capacities: Capacities) -> Found:
        return take(running, capacities[cell.key] * share if share else 0.0)

    return Step(f"{name}/{cell.system}/{cell.path}", cell.cluster, at_share, (cell.key,) if share else ())
