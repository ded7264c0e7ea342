"""What a soak runs: each task turns a range of seeds into one process and reads its result back."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from soak_state import Chunk, Failure

TOOLS = Path(__file__).resolve().parent
CODEC_INPUTS_PER_SEED = 100_000
CHUNK_SECONDS = 60.0  # aimed at; so much is lost at most when the machine stops
SWEEP_SECONDS = 300.0  # starting Spark is to be a small part of it; a sweep goes on where it stopped

Result = tuple[dict[str, dict[str, int]], list[Failure]]


@dataclass(frozen=True)
class Task:
    """`command` runs the seeds of a chunk; it exits with 0 or 1, and `read` makes verdicts of exit code and output.

    `events` counts what was simulated. One that keeps its results is told where, behind the option `--out`.
    """

    name: str
    command: Callable[[Chunk], list[str]]
    read: Callable[[Chunk, int, str], Result]
    events: Callable[[str], int] = lambda output: 0
    seconds: float = CHUNK_SECONDS
    keeps: bool = False


def sweep(system: str, stack: str) -> Task:
    """Simulations with faults, as a sweep of the pipeline; prints one JSON object."""

    def command(chunk: Chunk) -> list[str]:
        seeds = f"{chunk.first}..{chunk.first + chunk.count - 1}"
        options = ["--system", system, "--stack", stack, "--seeds", seeds]
        return [sys.executable, str(TOOLS / "soak_sweep.py"), *options]

    return Task(f"{system}-{stack}", command, read_sweep, events_of_sweep, SWEEP_SECONDS, keeps=True)


def read_sweep(chunk: Chunk, code: int, output: str) -> Result:
    """Raises ValueError when the output is not the promised object."""
    try:
        result = json.loads(output)
        verdicts = {name: dict(counts) for name, counts in result["properties"].items()}
        failures = [
            Failure(chunk.task, int(each["key"].split()[0]), name, each["replay"])
            for each in result["failures"]
            for name in each["properties"]
        ]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"unexpected result, {error!r}") from error
    return verdicts, failures


def events_of_sweep(output: str) -> int:
    """Of an output that could be read."""
    return int(json.loads(output)["events"])


def codec_command(chunk: Chunk) -> list[str]:
    """Random and mutated input; one process takes all seeds of the chunk as one stream."""
    count = str(chunk.count * CODEC_INPUTS_PER_SEED)
    return [sys.executable, "-m", "tests.core.codec_fuzz", "--count", count, "--seed", str(chunk.first)]


def by_exit_code(name: str, command: Callable[[Chunk], list[str]]) -> Callable[[Chunk, int, str], Result]:
    """The exit code says all; the failure's command repeats it."""

    def read(chunk: Chunk, code: int, output: str) -> Result:
        if code == 0:
            return {name: {"holds": chunk.count}}, []
        replay = shlex.join(["python", *command(chunk)[1:]])
        return {name: {"violated": 1}}, [Failure(chunk.task, chunk.first, name, replay)]

    return read


def mutation_command(chunk: Chunk) -> list[str]:
    """Good runs, spoilt in every way: the checkers must notice."""
    seeds = f"{chunk.first}..{chunk.first + chunk.count - 1}"
    return [sys.executable, "-m", "tests.spec.mutation", "--seeds", seeds, "--workers", "1"]


def figures_command(chunk: Chunk) -> list[str]:
    """The figures of links, each value taken over the seeds of the chunk, against what they must show."""
    seeds = ["--first", str(chunk.first), "--count", str(chunk.count)]
    return [sys.executable, "-m", "tests.sim.figure_bounds", *seeds]


def bounds_command(chunk: Chunk) -> list[str]:
    """Latency by service, and beside 16 MiB, against what it must be; no chance is involved, whatever the seeds."""
    del chunk
    return [sys.executable, "-m", "tests.sim.ordering_bounds"]


def planted(name: str, where: str) -> Task:
    """Faults planted there, one for each seed of the chunk, looked for where nobody has looked before."""

    def command(chunk: Chunk) -> list[str]:
        places = f"{chunk.first}..{chunk.first + chunk.count - 1}"
        return [sys.executable, "-m", "tests.planted.search", where, "--places", places]

    return Task(name, command, by_exit_code(name.upper(), command))


def small_bounds(name: str, system: str) -> Task:
    """The seeds on which bounds are small: which of them were never reached."""

    def command(chunk: Chunk) -> list[str]:
        seeds = f"{chunk.first}..{chunk.first + chunk.count - 1}"
        return [sys.executable, "-m", "tests.sim.bounds_reached", "--seeds", seeds, "--system", system]

    return Task(name, command, read_sweep)


def membership_command(chunk: Chunk) -> list[str]:
    """Cold starts, lost sites, splits and many groups of 32 daemons, against what they must show."""
    seeds = ["--first", str(chunk.first), "--count", str(chunk.count)]
    size = ["--daemons", "32", "--groups", "2000", "--clients", "400"]
    return [sys.executable, "-m", "tests.sim.membership_bounds", *seeds, *size]


TASKS = {
    task.name: task
    for task in (
        sweep("evs", "oracle"),
        sweep("evs", "transport"),
        sweep("evs", "full"),
        sweep("corel", "oracle"),
        sweep("corel", "full"),
        sweep("replicated", "oracle"),
        sweep("replicated", "full"),
        sweep("isis", "oracle"),
        sweep("isis", "full"),
        sweep("toolkit", "isis"),
        sweep("toolkit", "evs"),
        sweep("synchrony", "oracle"),
        sweep("synchrony", "full"),
        sweep("hab", "consensus"),
        sweep("hab", "corel"),
        sweep("flows", "rings"),
        Task("codec", codec_command, by_exit_code("CODEC", codec_command)),
        planted("planted", "evs"),
        planted("planted-corel", "corel"),
        planted("planted-hab", "hab"),
        Task("mutation", mutation_command, by_exit_code("MUTATION", mutation_command)),
        Task("figures-4", figures_command, by_exit_code("FIGURES-4", figures_command)),
        Task("figures-5", bounds_command, by_exit_code("FIGURES-5", bounds_command)),
        small_bounds("bounds", "evs"),
        small_bounds("bounds-corel", "corel"),
        Task("membership", membership_command, by_exit_code("MEMBERSHIP", membership_command)),
    )
}
