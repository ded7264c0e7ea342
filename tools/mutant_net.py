"""The net that mutants must not slip through: the tests of a package, those of the papers, scenarios and swarm seeds.

One run of the unchanged source, test by test under `coverage`, tells what each test executes and what it costs. Until
it executes the mutated line, a test cannot tell the mutant from the source: so a mutant is shown only to those tests
that execute its line, the cheapest first. What was measured is kept; it is measured again when the source, the test's
own file or what tests share has changed.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import msgspec

from mutant_hunt import Found, Hunt, Prey
from mutant_probe import IMPORTED, Measured
from mutation_sites import Mutation

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools"
EVERYWHERE = ("tests/paper", "tests/scenarios")
"""Tests of all packages."""
ONE_RUN = "tests/paper/"
"""The tests here read the same few runs, each made once: a test counts as executing what any of them does."""
NOBODY = ""


@dataclass
class Net:
    """The tests that pass on the unchanged source: what they cost, and who executes a line."""

    package: str
    stack: str
    seconds_max: float = math.inf  # what all the tests that see a mutant may cost together
    left_out: tuple[str, ...] = ()  # test files that begin so
    seconds: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    executed: dict[tuple[str, int], set[str]] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether there are tests that do not see all they could."""
        return bool(self.left_out) or self.seconds_max < math.inf

    def prepare(self, state: Path) -> None:
        """Measure what is not known yet, read the rest."""
        state.mkdir(parents=True, exist_ok=True)
        names = self._names()
        if missing := [path for path in names if not (state / names[path]).exists()]:
            print(f"measuring {len(missing)} test files", flush=True)
            measured = self._measure(missing)
            for path in missing:
                own = {test: each for test, each in measured.items() if test == IMPORTED or _file_of(test) == path}
                (state / names[path]).write_bytes(msgspec.json.encode(own))
        for name in names.values():
            self._learn(msgspec.json.decode((state / name).read_bytes(), type=dict[str, Measured]))

    def tests_for(self, mutation: Mutation) -> dict[str, float]:
        """Those that can tell, with their seconds, the cheapest first."""
        path = mutation.path.as_posix()
        tests = {test for line in mutation.lines for test in self.executed.get((path, line), ())}
        if IMPORTED in tests:
            tests = set(self.seconds)
        if any(test.startswith(ONE_RUN) for test in tests):
            tests |= {test for test in self.seconds if test.startswith(ONE_RUN)}
        ordered = sorted(tests, key=lambda test: (self.seconds[test], test))
        until = accumulate(self.seconds[test] for test in ordered)
        return {test: self.seconds[test] for test, sum_s in zip(ordered, until) if sum_s <= self.seconds_max}

    def hunt(self, mutations: Sequence[Mutation], workers: int) -> Iterator[Found]:
        """Show every mutant to those who can tell; what is found as it is found."""
        prey = []
        for each in mutations:
            if tests := self.tests_for(each):
                prey.append(Prey(each.name, each.module, each.apply((ROOT / each.path).read_text()), tests))
            else:
                yield Found(each.name, NOBODY)
        files = sorted({_file_of(test) for each in prey for test in each.tests})
        read, write = os.pipe()
        with tempfile.TemporaryDirectory(prefix="mutants-") as directory, os.fdopen(read, "rb") as lines:
            told = Path(directory) / "hunt.json"
            told.write_bytes(msgspec.json.encode(Hunt(prey, workers)))
            with self._pytest("mutant_hunt", files, MUTANT_HUNT=str(told), MUTANT_OUT=str(write)):
                os.close(write)
                for line in lines:
                    yield msgspec.json.decode(line, type=Found)

    def _names(self) -> dict[str, str]:
        """Every test file, and under which name its measurement is kept."""
        directories = [ROOT / "tests" / self.package, *(ROOT / each for each in EVERYWHERE)]
        files = [path for directory in directories for path in sorted(directory.rglob("test_*.py"))]
        helpers = [path for path in (ROOT / "tests").rglob("*.*") if not path.name.startswith("test_")]
        common = tree_digest([*(ROOT / "src").rglob("*.py"), *helpers, TOOLS / "mutant_probe.py"])
        net = f"{self.package}-{self.stack}"
        return {
            path.relative_to(ROOT).as_posix(): f"{net}-{common}-{tree_digest([path])}.json"
            for path in [*files, TOOLS / "mutant_swarm.py"]
            if not path.relative_to(ROOT).as_posix().startswith(self.left_out)
        }

    def _measure(self, files: Sequence[str]) -> dict[str, Measured]:
        with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
            out = Path(directory) / "map.json"
            package = ROOT / "src/isotone" / self.package
            with self._pytest("mutant_probe", files, MUTANT_MAP=str(out), MUTANT_PACKAGE=str(package)) as process:
                code = process.wait()
            if code not in (0, 1):
                raise SystemExit(f"the tests cannot be run: pytest ended with {code}")
            return msgspec.json.decode(out.read_bytes(), type=dict[str, Measured])

    def _learn(self, measured: dict[str, Measured]) -> None:
        for test, each in measured.items():
            if not each.passed:
                self.broken.append(test)
                continue
            if test != IMPORTED:
                self.seconds[test] = each.seconds
            for path, lines in each.executed.items():
                for line in lines:
                    self.executed.setdefault((path, line), set()).add(test)

    @contextmanager
    def _pytest(self, plugin: str, files: Sequence[str], **told: str) -> Iterator[subprocess.Popen[bytes]]:
        """Pytest with this plug-in; what it started ends with it."""
        path = os.pathsep.join(map(str, (ROOT / "src", ROOT, TOOLS)))
        told |= {"PYTHONPATH": path, "MUTANT_SYSTEM": self.package, "MUTANT_STACK": self.stack}
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", plugin, *files],
            cwd=ROOT,
            env=os.environ | told,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[int(told["MUTANT_OUT"])] if "MUTANT_OUT" in told else [],
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tree_digest(paths: Iterable[Path]) -> str:
    """Of the contents and names of these files, whatever their order."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        if "__pycache__" not in path.parts and path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _file_of(test: str) -> str:
    return test.partition("::")[0]
