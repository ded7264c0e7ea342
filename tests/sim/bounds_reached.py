"""Which small bounds came to be full: the seeds of a range that draw any, played on our own daemons and judged.

    python -m tests.sim.bounds_reached --seeds 1..40

Prints one JSON object as a sweep does: for each bound the runs in which it was reached (holds) and those in which it
was drawn and never reached (not exercised); a soak adds them up and says which were never reached at all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable

from isotone.sim.limits import Limits
from isotone.sim.run import RunResult
from isotone.sim.swarm import parse_seeds, replay_command, run_seed
from isotone.sim.system import Setting

SETTING = Setting(system="evs", stack="full")


def verdicts_of(result: RunResult) -> dict[str, str]:
    """Of the bounds that the seed of this run draws."""
    return {
        f"BOUND {name}": "holds" if result.choices.get(f"full {name}") else "not_exercised"
        for name in Limits(result.seed).values
    }


def summed(results: Iterable[RunResult]) -> dict[str, object]:
    """As `tools/soak_tasks.py` reads a sweep."""
    counts: dict[str, Counter[str]] = {}
    failures = []
    for result in results:
        for name, verdict in verdicts_of(result).items():
            counts.setdefault(name, Counter())[verdict] += 1
        if result.violations:
            broken = sorted({each.property for each in result.violations})
            replay = replay_command(SETTING, result.seed)
            failures.append({"key": str(result.seed), "properties": broken, "replay": replay})
    return {"properties": counts, "failures": failures, "events": 0}


def main() -> int:
    """Play, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=parse_seeds, required=True)
    options = parser.parse_args()
    found = summed(run_seed(SETTING, seed) for seed in options.seeds if Limits(seed).values)
    print(json.dumps(found))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
