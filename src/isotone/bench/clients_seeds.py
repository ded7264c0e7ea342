"""How long a user's test over many seeds takes: the replicated counter of the examples, in a process of its own.

``python -m isotone.bench.clients_seeds N`` is that process; it prints seconds and CPU seconds.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from isotone.bench.clients_effort import ClientsEffort
from isotone.bench.foundation import Say
from isotone.bench.measure import Figure, median_figure
from isotone.core.errors import MachineError
from isotone.testing.seeding import chosen

EXAMPLE = "examples.replicated_counter.test_counter"
WITHIN_S = 1_800.0
GOAL_S = 30
GOAL_SEEDS = 100


def source_root() -> Path:
    """Where the examples are; they are not installed with the package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / f"{EXAMPLE.replace('.', '/')}.py").is_file():
        raise MachineError(f"{EXAMPLE} is not there: the suite of clients needs the source tree")
    return root


def measure_seeds(effort: ClientsEffort, say: Say, root: Path) -> Iterator[Figure]:
    """The right counter, which passes them all."""
    walls, cpus = [], []
    for number in range(effort.seed_runs):
        say(f"replicated counter over {effort.seeds} seeds, {number + 1} of {effort.seed_runs}")
        wall, cpu = _run(effort.seeds, root)
        walls.append(wall)
        cpus.append(cpu)
    name, over = f"replicated counter, {effort.seeds} seeds", f"isotone.testing.seeds({effort.seeds})"
    goal = f"under {GOAL_S}" if effort.seeds == GOAL_SEEDS else ""
    yield median_figure(name, walls, "s", over, goal)
    yield median_figure(f"{name}, CPU", cpus, "CPU seconds", "one core")


def _run(seeds: int, root: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "isotone.bench.clients_seeds", str(seeds)]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=WITHIN_S)
    except subprocess.CalledProcessError as error:
        raise MachineError(f"the replicated counter failed:\n{error.stderr[-2_000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"the replicated counter took longer than {WITHIN_S:g} s") from error
    told = json.loads(done.stdout)
    return told["seconds"], told["cpu_seconds"]


def main(arguments: list[str]) -> None:
    """Run it once, in the source tree, and tell what it took; loading is not counted."""
    test = importlib.import_module(EXAMPLE).test_no_confirmed_increment_is_lost
    chosen.count = int(arguments[0])
    began, cpu = time.perf_counter(), time.process_time()
    test()
    told = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
