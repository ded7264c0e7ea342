"""Many runs as one object: the JSON of ``sim swarm``, ``sim replay`` and ``check``, with pinned keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from isotone.sim.run import STATES, RunResult, Violation
from isotone.spec.verdicts import EventId, State

NOT_JUDGED_CODE = 5


class Failure(msgspec.Struct, frozen=True):
    """One violation of one run, with the command that shows it again."""

    seed: int | None
    property: str
    explanation: str
    witness: tuple[EventId, ...]
    replay: str


class Spread(msgspec.Struct, frozen=True):
    """Least, middle and greatest of one measure over all runs."""

    min: float
    median: float
    max: float


class Summary(msgspec.Struct, frozen=True, omit_defaults=False):
    """What a swarm or a check found."""

    runs: int
    violations: int
    properties: dict[str, dict[str, int]]
    failures: tuple[Failure, ...]
    bounds: dict[str, float]
    distribution: dict[str, Spread] = {}
    choices: dict[str, int] = {}
    unjudged: int = 0  # runs of which nothing could be judged
    missing: tuple[str, ...] = ()  # what rows of which run are not there, in words

    @property
    def exit_code(self) -> int:
        """1 when something is violated, else `NOT_JUDGED_CODE` when of some run nothing could be judged, else 0."""
        if self.violations:
            return 1
        return NOT_JUDGED_CODE if self.unjudged else 0


MEASURES = ("sends", "messages", "faults", "view_changes", "events", "rows", "cpu_seconds")


def summarise(results: Sequence[RunResult], replays: dict[int, str]) -> Summary:
    """Add the runs up; ``replays`` gives the command for each failing seed."""
    ordered = sorted(results, key=lambda result: result.seed)
    failures = [
        failure_of(violation, seed=result.seed, replay=replays.get(result.seed, ""))
        for result in ordered
        for violation in result.violations
    ]
    choices: Counter[str] = Counter()
    for result in ordered:
        choices.update(result.choices)
    return Summary(
        runs=len(ordered),
        violations=len(failures),
        properties=count_verdicts(result.verdicts for result in ordered),
        failures=tuple(failures),
        bounds=largest_bounds(result.bounds for result in ordered),
        distribution=_distribution(ordered),
        choices=dict(sorted(choices.items())),
    )


def failure_of(violation: Violation, *, seed: int | None, replay: str) -> Failure:
    """A violation with what is needed to see it again."""
    return Failure(seed, violation.property, violation.explanation, violation.witness, replay)


def count_verdicts(verdicts: Iterable[dict[str, str]]) -> dict[str, dict[str, int]]:
    """For each property the number of runs with each verdict, in the order of the first run that names it."""
    counts: dict[str, dict[str, int]] = {}
    for run in verdicts:
        for label, state in run.items():
            counts.setdefault(label, dict.fromkeys(STATES, 0))[state] += 1
    return counts


def is_unjudged(verdicts: dict[str, str]) -> bool:
    """Whether nothing holds, nothing is violated, and something could not be judged."""
    states = set(verdicts.values())
    return State.NOT_JUDGED.value in states and not states & {State.HOLDS.value, State.VIOLATED.value}


def missing_told(run: str, records: Iterable[str]) -> tuple[str, ...]:
    """In words, which records others name and that have no rows."""
    return tuple(f"run {run!r}: no rows of {each}, which others name: is a file missing?" for each in records)


def largest_bounds(bounds: Iterable[dict[str, float]]) -> dict[str, float]:
    """The largest observed/bound of each bound."""
    largest: dict[str, float] = {}
    for run in bounds:
        for name, share in run.items():
            largest[name] = max(share, largest.get(name, 0.0))
    return dict(sorted(largest.items()))


def _distribution(results: Sequence[RunResult]) -> dict[str, Spread]:
    if not results:
        return {}
    columns = {name: [float(getattr(result, name)) for result in results] for name in MEASURES}
    return {name: Spread(min(values), median(values), max(values)) for name, values in columns.items()}
