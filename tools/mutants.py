"""Mechanical mutants of a package: which of them does the net catch?

A seeded sample of mutations is applied one by one to a copy of the source. A mutant is killed when a test of the
package or of the papers, a scenario or one of the fixed swarm seeds fails on it, or takes far too long. What survives
is listed with its explanation from ``tools/mutants_explained.txt``: a mutant's name, and indented below it why nobody
can tell it from the source. A survivor without one is to be killed by a better test. A run that was broken off goes on
where it was; survivors are tried again when tests have changed.

    python tools/mutants.py --package evs --count 20
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mutant_net import NOBODY, ROOT, Net, tree_digest
from mutation_sites import Mutation, mutations_below

EXPLAINED = ROOT / "tools/mutants_explained.txt"
STACKS = {"evs": "full", "corel": "oracle"}
"""The packages, and what the fixed swarm seeds run them on."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: the test that killed it, or `NOBODY`."""

    mutation: Mutation
    killer: str

    def text(self, explanations: dict[str, str]) -> str:
        if self.killer != NOBODY:
            return f"killed    {self.mutation.name}\n          by {self.killer}"
        return f"SURVIVED  {self.mutation.name}\n          {explanations.get(self.mutation.name, 'not explained')}"


class Known(msgspec.Struct):
    """Outcomes of earlier runs on one state of the source; survivors count only while the tests are the same."""

    source: str = ""
    tests: str = ""
    killers: dict[str, str] = {}

    def brought_up(self, source: str, tests: str) -> Known:
        """What still holds."""
        if source != self.source:
            return Known(source, tests)
        kept = self if tests == self.tests else self.without_survivors()
        return Known(source, tests, kept.killers)

    def without_survivors(self) -> Known:
        """To try those again."""
        killed = {name: killer for name, killer in self.killers.items() if killer != NOBODY}
        return Known(self.source, self.tests, killed)


def main() -> int:
    options = _options()
    net = Net(options.package, STACKS[options.package], options.seconds, tuple(options.leave_out))
    everything = mutations_below(ROOT, Path("src/isotone") / options.package)
    chosen = random.Random(options.seed).sample(everything, min(options.count, len(everything)))
    net.prepare(options.state)
    known = judge(chosen, net, options.state / f"outcomes-{options.package}.json", options.workers)
    outcomes = [Outcome(each, known.killers[each.name]) for each in chosen]
    head = head_text(outcomes, len(everything), net, known, options)
    report = report_text(head, outcomes, read_explanations(EXPLAINED.read_text()))
    out = options.out or ROOT / f"results/mutants-{options.package}.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(report)
    killed = [outcome for outcome in outcomes if outcome.killer != NOBODY]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(killed)} of {len(outcomes)} killed; {spent.ru_utime + spent.ru_stime:.0f} s of processor time")
    return 0 if len(killed) >= options.share * len(outcomes) else 1


def judge(chosen: Sequence[Mutation], net: Net, state: Path, workers: int) -> Known:
    """Show every mutant to the net, but for those of which the outcome is known."""
    tests = [path for path in (ROOT / "tests").rglob("*.*") if path.is_file()]
    known = msgspec.json.decode(state.read_bytes(), type=Known) if state.exists() else Known()
    known = known.brought_up(tree_digest((ROOT / "src").rglob("*.py")), tree_digest(tests))
    left = [each for each in chosen if each.name not in known.killers]
    for found in net.hunt(left, workers):
        known.killers[found.name] = found.killer
        note(known, net, state)
        print(f"{found.name}\n    {found.killer or 'SURVIVED'}", flush=True)
    if unknown := [each.name for each in left if each.name not in known.killers]:
        raise SystemExit(f"the tests cannot be run; not judged: {', '.join(unknown)}")
    return known


def note(known: Known, net: Net, state: Path) -> None:
    """After a first look, survivors are to be tried again."""
    state.write_bytes(msgspec.json.encode(known.without_survivors() if net.is_partial else known))


def head_text(outcomes: Sequence[Outcome], population: int, net: Net, known: Known, options: argparse.Namespace) -> str:
    """The command, the commit and the machine; what was drawn from, the net, and what is missing of it."""
    newer = {line[3:] for line in _git("status", "--porcelain", "-uall", "tests").splitlines()}
    by_newer = sum(outcome.killer.partition("::")[0] in newer for outcome in outcomes)
    lines = [
        f"# python tools/mutants.py --package {options.package} --count {options.count} --seed {options.seed}",
        f"# commit {_git('describe', '--always', '--dirty').strip() or 'unknown'}, source {known.source}, tests "
        f"{known.tests}; {platform.machine()}, {platform.python_implementation()} {platform.python_version()}",
        "",
        f"a sample of {population} mutations; the net: {len(net.seconds)} tests",
        *(f"left out, since it fails without a mutant: {test}" for test in net.broken),
        *(f"left out of this run: {path}" for path in net.left_out),
        *([f"a mutant is shown to tests of {net.seconds_max:.0f} s at most"] if net.seconds_max < math.inf else []),
        *([f"{by_newer} are killed by test files that are newer than the commit"] if by_newer else []),
    ]
    return "\n".join(lines)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def report_text(head: str, outcomes: Sequence[Outcome], explanations: dict[str, str]) -> str:
    """Survivors first."""
    killed = sum(outcome.killer != NOBODY for outcome in outcomes)
    ordered = sorted(outcomes, key=lambda each: (each.killer != NOBODY, each.mutation.name))
    told = [outcome.text(explanations) for outcome in ordered]
    return "\n".join([head, f"{killed} of {len(outcomes)} mutants killed", "", *told, ""])


def read_explanations(text: str) -> dict[str, str]:
    """By the mutant's name; the indented lines below it are joined."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(" "):
            found[name] = f"{found[name]} {line.strip()}".strip()
        elif line.strip() and not line.startswith("#"):
            name = line.strip()
            found[name] = ""
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant mechanical mutants and say which are noticed.")
    parser.add_argument("--package", default="evs", choices=STACKS, help="below src/isotone (default: evs)")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--share", type=float, default=0.9, help="the share that must be killed (default: 0.9)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="mutants at a time")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="a first look: tests that cost no more together"
    )
    parser.add_argument("--leave-out", action="append", default=[], metavar="PATH", help="test files that begin so")
    parser.add_argument("--state", type=Path, default=ROOT / "soak/mutants", help="what was measured and found so far")
    parser.add_argument("--out", type=Path, help="of the report (default: results/mutants-PACKAGE.txt)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
