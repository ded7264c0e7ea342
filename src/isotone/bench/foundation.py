"""What the foundation costs: simulator, checkers, swarm, codec."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from isotone.bench.clients_effort import ClientsEffort
from isotone.bench.measure import Figure, cpu_seconds, microseconds_each
from isotone.bench.objects_effort import ObjectsEffort
from isotone.bench.replica_effort import ReplicaEffort
from isotone.core.bundles import Bundle, bundle_of
from isotone.core.codec import decode_bundle, encode_bundle
from isotone.core.ids import ClientId, DaemonId, Stamp
from isotone.core.services import Service
from isotone.sim.plan import SCALES, Plan, Scale, Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.swarm import default_workers, run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.trace.events import Delivered, Row, Sent

NODES = 5
GROWTH = 10
SEED = 1

Say = Callable[[str], None]


class Effort(msgspec.Struct, frozen=True):
    """How long to measure."""

    sends: int = 2_000
    swarm_seeds: int = 20
    codec_seconds: float = 0.5
    ring_seconds: float = 2.0
    ring_counts: tuple[int, ...] = (1, 10, 100, 1_000)
    ring_watched_bytes: int = 24 * 1024
    joins: int = 25
    group_members: tuple[int, ...] = (10, 100, 1_000)
    view_changes: int = 3
    view_daemons: tuple[int, ...] = (8, 32, 64)
    loop_echoes: int = 1_000
    clients: ClientsEffort = ClientsEffort()
    replica: ReplicaEffort = ReplicaEffort()
    objects: ObjectsEffort = ObjectsEffort()


def measure_foundation(effort: Effort, say: Say) -> Iterator[Figure]:
    """All figures of the foundation, as they come."""
    yield from _simulator_and_checkers(effort, say)
    yield from _swarm(effort, say)
    yield from _codec(effort, say)


# --- simulator and checkers ----------------------------------------------------------------------------------------


def _simulator_and_checkers(effort: Effort, say: Say) -> Iterator[Figure]:
    simulator, checkers = [], []
    for sends in (effort.sends, effort.sends * GROWTH):
        say(f"simulator and checkers, {sends} sends")
        figure, rows = _simulator(sends)
        simulator.append(figure)
        checkers.append(_checkers(sends, rows))
    yield from simulator
    yield from checkers
    yield _growth("simulator", simulator)
    yield _growth("checkers", checkers)


def _simulator(sends: int) -> tuple[Figure, list[Row]]:
    plan = bench_plan(sends)
    rows: list[Row] = []
    system = system_named(plan.system)
    began = time.process_time()
    events = play_plan(system, plan, rows.append)
    taken = time.process_time() - began
    over = f"{events:,} events, {NODES} nodes, oracle"
    return Figure(f"simulator, {sends:,} sends", events / taken, "events per CPU second", over), rows


def _checkers(sends: int, rows: list[Row]) -> Figure:
    messages = sum(map(message_events, rows))
    gc.freeze()  # the rows are ours: a checker of a stream does not keep them, so it need not pay for visiting them
    try:
        taken = cpu_seconds(partial(check, rows))
    finally:
        gc.unfreeze()
    over = f"{messages:,} message events in {len(rows):,} rows, all checkers"
    return Figure(f"checkers, {sends:,} sends", messages / taken, "events per CPU second", over)


def _growth(name: str, figures: list[Figure]) -> Figure:
    small, large = figures
    over = "rate of the longer run over the rate of the shorter; 1 is flat"
    return Figure(f"{name}, run grown {GROWTH} times", large.value / small.value, "ratio of rates", over)


def bench_plan(sends: int) -> Plan:
    """A standard run with five nodes and this many sends; faults and time grow in proportion."""
    standard = SCALES[Size.STANDARD]
    times = sends / standard.sends_min
    scale = Scale(
        sends_min=sends,
        faults_min=max(1, round(standard.faults_min * times)),
        faults_end_us=max(500_000, round(standard.faults_end_us * times)),
        nodes=(NODES, NODES),
        sites=(1, 1),
        clients_per_node=(2, 2),
        groups=(3, 3),
    )
    setting = Setting(nodes=str(NODES))
    return draw_plan(system_named(setting.system), setting, SEED, scale)


def message_events(row: Row) -> int:
    """How many message events a row expands to."""
    match row.entry:
        case Sent(lengths=lengths):
            return len(lengths)
        case Delivered(lengths=lengths, receivers=receivers):
            return len(lengths) * len(receivers)
    return 0


# --- swarm ---------------------------------------------------------------------------------------------------------


def _swarm(effort: Effort, say: Say) -> Iterator[Figure]:
    workers = default_workers()
    say(f"swarm, {effort.swarm_seeds} standard runs on {workers} workers")
    began = time.perf_counter()
    results = run_swarm(Setting(), range(1, effort.swarm_seeds + 1), workers=workers)
    elapsed = time.perf_counter() - began
    cpu = sum(result.cpu_seconds for result in results)
    over = f"{len(results)} standard runs, {workers} workers"
    yield Figure("swarm, elapsed time", len(results) / elapsed * 60, "runs per minute", f"{over}, their start included")
    yield Figure("swarm, CPU time", len(results) / cpu * 60, "runs per CPU minute", over)
    yield Figure("standard run", cpu / len(results), "CPU seconds", f"mean of {len(results)}, checking included")


# --- codec ---------------------------------------------------------------------------------------------------------


def _codec(effort: Effort, say: Say) -> Iterator[Figure]:
    stamp = Stamp(12_345, DaemonId("alba", 3))
    for count in (1, 1000):
        say(f"codec, bundles of {count}")
        bundle = _bundle(count)
        data = b"".join(encode_bundle(bundle, stamp))
        encode_us, calls = microseconds_each(
            partial(encode_bundle, bundle, stamp), at_least_seconds=effort.codec_seconds
        )
        size = f"{count} message{'' if count == 1 else 's'} of 60 bytes"
        yield Figure(f"encode a bundle of {count}", encode_us, "µs per bundle", f"{calls:,} calls, {size}")
        decode_us, calls = microseconds_each(partial(decode_bundle, data), at_least_seconds=effort.codec_seconds)
        yield Figure(f"decode a bundle of {count}", decode_us, "µs per bundle", f"{calls:,} calls, {size}")


def _bundle(count: int) -> Bundle:
    sender = ClientId(DaemonId("alba", 3), "client", 17)
    return bundle_of(sender, 1, Service.AGREED, ("story",), [b"x" * 60] * count)
