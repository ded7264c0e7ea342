"""Spoil runs of COReL's servers at random and compare both checkers: ``python -m tests.spec.naive_corel 5000``.

The second argument, if there is one, is the number from which on to count. What is printed names the seed, the kind and
the number of every run on which they disagree; the exit code is 1 then.
"""

from __future__ import annotations

import sys
from collections import Counter

from isotone.core.choice import Choice
from tests.spec.naive_corel.judge import disagreements, judge
from tests.spec.naive_corel.spoiling import KINDS, spoilt
from tests.spec.test_naive_corel import recorded

SEEDS = 60


def main(count: int, start: int) -> int:
    """So many spoilt runs; one in four is spoilt twice, and then rows may be lost too."""
    found: Counter[str] = Counter()
    wrong = tried = 0
    number = start
    while tried < count:
        choice = Choice(f"corel/{number}")
        number += 1
        rows = spoilt(recorded(1 + choice.below(SEEDS)), kind := choice.pick(KINDS), choice)
        if rows is not None and choice.chance(0.25):
            rows = spoilt(rows, choice.pick(KINDS), choice) or rows
        if rows is None:
            continue
        tried += 1
        verdicts = judge(rows)
        found.update(label for label, state in verdicts.items() if state == "violated")
        if different := disagreements(rows, verdicts):
            wrong += 1
            print(f"number {number - 1}, {kind}: {different}", flush=True)
    print(f"{tried} spoilt runs, numbers {start} to {number - 1}: {wrong} disagreements")
    print("violated: " + ", ".join(f"{label} {times}" for label, times in sorted(found.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
