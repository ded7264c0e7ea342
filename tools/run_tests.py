"""Everything that `make test` checks, one part after the other, with a table of seconds and verdicts at the end.

A part that fails does not stop the others, so that one run shows everything there is to repair.
Exit codes: 0 all passed, 1 some part failed, 2 wrong usage, 3 a tool could not be started.
Arguments after `--` go to pytest: `python tools/run_tests.py --only tests -- -k ring`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 2
PYTEST_NO_TESTS = 5


@dataclass(frozen=True)
class Part:
    name: str
    command: list[str]


@dataclass(frozen=True)
class Outcome:
    name: str
    seconds: float
    verdict: str
    exit_code: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PART", help="run only this part; may be repeated")
    parser.add_argument("pytest_arguments", nargs="*", metavar="-- PYTEST_ARGUMENT")
    arguments = parser.parse_args()
    parts = all_parts(arguments.pytest_arguments)
    known = [part.name for part in parts]
    for name in arguments.only or []:
        if name not in known:
            parser.error(f"no part {name!r}; there are: {', '.join(known)}")  # exits with 2
    outcomes = [run_part(part) for part in parts if not arguments.only or part.name in arguments.only]
    print_table(outcomes)
    return max((outcome.exit_code for outcome in outcomes), default=0)


def all_parts(pytest_arguments: list[str]) -> list[Part]:
    python = sys.executable
    return [
        Part("lint", [python, "-m", "ruff", "check", "."]),
        Part("format", [python, "-m", "ruff", "format", "--check", "."]),
        Part("types", [python, "-m", "mypy", "src", "tools"]),  # strict, by pyproject.toml
        Part("docs", [python, "tools/check_docs.py"]),
        Part("tests", [python, "-m", "pytest", "-n", str(PROCESSES), "--dist", "loadscope", *pytest_arguments]),
    ]


def run_part(part: Part) -> Outcome:
    shown = shlex.join(["python", *part.command[1:]])
    print(f"\n== {part.name}: {shown}", flush=True)
    started = time.monotonic()
    # Tests start hundreds of processes: each would compile the whole package where no bytecode may be kept.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        returned = subprocess.run(
            part.command, cwd=ROOT, env=environment, check=False, stdin=subprocess.DEVNULL
        ).returncode
    except OSError as error:
        print(f"cannot start: {error}", file=sys.stderr)
        return Outcome(part.name, time.monotonic() - started, "not run", 3)
    seconds = time.monotonic() - started
    if returned == 0:
        return Outcome(part.name, seconds, "passed", 0)
    verdict = "failed: no tests" if part.name == "tests" and returned == PYTEST_NO_TESTS else "failed"
    return Outcome(part.name, seconds, verdict, 1)


def print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'part':<10}{'seconds':>9}  verdict")
    for outcome in outcomes:
        print(f"{outcome.name:<10}{outcome.seconds:>9.1f}  {outcome.verdict}")
    print(f"{'all':<10}{sum(outcome.seconds for outcome in outcomes):>9.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
