"""Many seeds, each a run of its own, over all cores. What a seed finds does not depend on how many workers there are.

Workers are fresh processes (spawned, not forked), so a run sees no state but its plan. They ignore the interrupt of
the terminal: the swarm itself ends them.

Implements: [DESIGN 4], the swarm.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import msgspec

from isotone.core.errors import InputError, MachineError
from isotone.sim.plan import parse_seed
from isotone.sim.registry import system_named
from isotone.sim.run import RunResult, run_plan
from isotone.sim.summary import Summary, summarise
from isotone.sim.system import Setting, check_setting, draw_plan
from isotone.trace.events import Row

SEEDS_MAX = 1_000_000

Progress = Callable[[RunResult], None]
Work = Callable[[Setting, int], RunResult]
"""What a worker does with one seed; it must be importable there."""


def parse_seeds(text: str) -> range:
    """``7`` or ``1..200``, both ends included."""
    first, dots, last = text.partition("..")
    try:
        begin = parse_seed(first)
        end = parse_seed(last) if dots else begin
    except InputError as error:
        raise InputError(f"seeds are written 7 or 1..200: {error}") from None
    if end < begin:
        raise InputError(f"seeds go upwards, not {text!r}")
    if end - begin >= SEEDS_MAX:
        raise InputError(f"at most {SEEDS_MAX} seeds at once, not {end - begin + 1}")
    return range(begin, end + 1)


def default_workers() -> int:
    """One for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_seed(setting: Setting, seed: int) -> RunResult:
    """Draw the plan of a seed, play it, judge it."""
    return replay_seed(setting, seed)


def replay_seed(setting: Setting, seed: int, sink: Callable[[Row], object] | None = None) -> RunResult:
    """The same; ``sink`` gets every row of the trace."""
    system = system_named(setting.system)
    return run_plan(system, draw_plan(system, setting, seed), sink=sink)


def replay_command(setting: Setting, seed: int) -> str:
    """What to type to see a run again. Only ``--faults`` may have been given with spaces; here it has none."""
    faults = ",".join(name.strip() for name in setting.faults.split(","))
    return f"isotone sim replay {seed}{msgspec.structs.replace(setting, faults=faults).arguments()}"


def run_swarm(
    setting: Setting, seeds: Sequence[int], *, workers: int | None = None, progress: Progress | None = None
) -> list[RunResult]:
    """Run every seed; the results in the order of the seeds. ``progress`` hears of each run as it ends."""
    return run_each(run_seed, setting, seeds, workers=workers, progress=progress)


def run_each(
    work: Work, setting: Setting, seeds: Sequence[int], *, workers: int | None, progress: Progress | None
) -> list[RunResult]:
    """Do this work for every seed."""
    check_setting(system_named(setting.system), setting)
    count = min(workers or default_workers(), len(seeds))
    if count <= 1:
        return [_tell(progress, work(setting, seed)) for seed in seeds]
    return _run_parallel(work, setting, seeds, count, progress)


def summarise_swarm(setting: Setting, results: Sequence[RunResult]) -> Summary:
    """The object that ``--json`` prints."""
    failing = {result.seed: replay_command(setting, result.seed) for result in results if result.violations}
    return summarise(results, failing)


def _tell(progress: Progress | None, result: RunResult) -> RunResult:
    if progress:
        progress(result)
    return result


def _run_parallel(
    work: Work, setting: Setting, seeds: Sequence[int], workers: int, progress: Progress | None
) -> list[RunResult]:
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupt)
    try:
        with _ignoring(signal.SIGINT):  # workers inherit it, so that none is interrupted before it could ignore
            futures: list[Future[RunResult]] = [executor.submit(work, setting, seed) for seed in seeds]
        for future in as_completed(futures):
            _tell(progress, future.result())
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise MachineError("a worker process died; is there enough memory?") from error
    except BaseException:
        with _ignoring(signal.SIGINT, signal.SIGTERM):  # who asks twice must not break the ending off
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            executor.shutdown(wait=True, cancel_futures=True)
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _ignoring(*signals: signal.Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
