"""Mechanical mutants of a package: which of them does the net catch?

A seeded sample of mutations is applied one by one to a copy of the source. A mutant is killed when a test of the
package, a scenario or one of the fixed swarm seeds fails, or when any of these takes far too long. What survives is
listed, to be killed by a better test or explained. With ``--state`` a run that was broken off goes on where it was.

    python tools/mutants.py --count 100 --seed 1 --state soak/mutants-evs.txt --out results/mutants-evs.txt
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutation_sites import Mutation, mutations_below

ROOT = Path(__file__).resolve().parents[1]
SWARM_SEEDS = "1..20"
SECONDS_MAX = 900


@dataclass(frozen=True)
class Trial:
    """One command of the net."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: the trial that killed it, or nothing."""

    mutation: Mutation
    killer: str

    def line(self) -> str:
        return f"{'killed by ' + self.killer if self.killer else 'SURVIVED':<40} {self.mutation}"


def trials_for(path: Path, system: str, stack: str) -> list[Trial]:
    """The nearest tests first: the module's own, those of its package, then its neighbours, scenarios and swarm."""
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
    below = path.relative_to("src/isotone")
    package = below.parts[0]
    trials = []
    own = sorted((ROOT / "tests" / package).rglob(f"test_{below.stem}*.py"))
    if own:
        trials.append(Trial(f"test_{below.stem}", (*pytest, *map(str, own))))
    for depth in range(len(below.parts) - 1, 0, -1):
        tests = ROOT / "tests" / Path(*below.parts[:depth])
        if tests.is_dir():
            trials.append(Trial(f"tests/{Path(*below.parts[:depth]).as_posix()}", (*pytest, str(tests))))
    if package == "evs":
        trials.append(Trial("tests/paper", (*pytest, str(ROOT / "tests/paper"))))
        trials.append(Trial("tests/scenarios", (*pytest, str(ROOT / "tests/scenarios"))))
    elif (ROOT / f"tests/paper/test_{package}.py").exists():
        trials.append(Trial("tests/paper", (*pytest, str(ROOT / f"tests/paper/test_{package}.py"))))
    swarm = (sys.executable, "-m", "isotone.cli", "sim", "swarm", "--system", system, "--stack", stack)
    trials.append(Trial(f"swarm {system} {stack}", (*swarm, "--seeds", SWARM_SEEDS, "--workers", "1", "--json")))
    return trials


def judge(mutation: Mutation, system: str, stack: str) -> Outcome:
    """Run the net on one mutant until something notices."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        victim = Path(directory) / mutation.path
        victim.write_text(mutation.apply(victim.read_text()))
        for trial in trials_for(mutation.path, system, stack):
            if not passes(trial.command, source):
                return Outcome(mutation, trial.name)
    return Outcome(mutation, "")


def passes(command: Sequence[str], source: Path) -> bool:
    """Whether the command succeeds on this source tree within its time; what it started ends with it."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(SECONDS_MAX) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def main() -> int:
    options = _options()
    everything = mutations_below(ROOT, Path("src/isotone") / options.package)
    chosen = random.Random(options.seed).sample(everything, min(options.count, len(everything)))
    known = read_state(options.state)
    outcomes = [Outcome(each, known[str(each)]) for each in chosen if str(each) in known]
    left = [each for each in chosen if str(each) not in known]
    with ThreadPoolExecutor(options.workers) as pool:
        for outcome in pool.map(lambda each: judge(each, options.system, options.stack), left):
            outcomes.append(outcome)
            note_state(options.state, outcome)
            print(f"{len(outcomes)}/{len(chosen)} {outcome.line()}", flush=True)
    report = report_text(outcomes, len(everything), options)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(report)
    print(report.splitlines()[0])
    killed = sum(bool(outcome.killer) for outcome in outcomes)
    return 0 if killed >= options.share * len(outcomes) else 1


def read_state(path: Path | None) -> dict[str, str]:
    """What killed which mutant in a run that was broken off."""
    if path is None or not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {mutation: killer for killer, _, mutation in (line.partition("\t") for line in lines)}


def note_state(path: Path | None, outcome: Outcome) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{outcome.killer}\t{outcome.mutation}\n")


def report_text(outcomes: Sequence[Outcome], population: int, options: argparse.Namespace) -> str:
    killed = sum(bool(outcome.killer) for outcome in outcomes)
    head = (
        f"{killed} of {len(outcomes)} mutants of {options.package} killed "
        f"(seed {options.seed}, drawn from {population} mutations; "
        f"swarm {options.system} {options.stack}, seeds {SWARM_SEEDS})"
    )
    ordered = sorted(outcomes, key=lambda outcome: (bool(outcome.killer), str(outcome.mutation)))
    return "\n".join([head, "", *(outcome.line() for outcome in ordered), ""])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant mechanical mutants and say which are noticed.")
    parser.add_argument("--package", default="evs", help="a package below src/isotone (default: evs)")
    parser.add_argument("--system", default="evs", help="what the fixed swarm seeds run (default: evs)")
    parser.add_argument("--stack", default="full", help="what the fixed swarm seeds run on (default: full)")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--share", type=float, default=0.9, help="the share that must be killed (default: 0.9)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="mutants at a time")
    parser.add_argument("--state", type=Path, help="note every outcome here, and pass over what it holds")
    parser.add_argument("--out", type=Path, help="write the report here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
