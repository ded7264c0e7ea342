"""Which small bounds came to be full: the seeds of a range that draw any, played on our own daemons and judged.

    python -m tests.sim.bounds_reached --seeds 1..40
    python -m tests.sim.bounds_reached --seeds 1..40 --system corel

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

SETTINGS = {system: Setting(system=system, stack="full") for system in ("evs", "corel")}


def limits_of(system: str, seed: int) -> Limits:
    """What the seed draws for this system."""
    return Limits(seed, corel=system == "corel")


def verdicts_of(result: RunResult, system: str) -> dict[str, str]:
    """Of the bounds that the seed of this run draws."""
    return {
        f"BOUND {name}": "holds" if result.choices.get(f"full {name}") else "not_exercised"
        for name in limits_of(system, result.seed).values
    }


def summed(results: Iterable[RunResult], system: str = "evs") -> dict[str, object]:
    """As `tools/soak_tasks.py` reads a sweep."""
    counts: dict[str, Counter[str]] = {}
    failures = []
    for result in results:
        for name, verdict in verdicts_of(result, system).items():
            counts.setdefault(name, Counter())[verdict] += 1
        if result.violations:
            broken = sorted({each.property for each in result.violations})
            replay = replay_command(SETTINGS[system], result.seed)
            failures.append({"key": str(result.seed), "properties": broken, "replay": replay})
    return {"properties": counts, "failures": failures, "events": 0}


def main() -> int:
    """Play, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=parse_seeds, required=True)
    parser.add_argument("--system", choices=SETTINGS, default="evs")
    options = parser.parse_args()
    seeds = [seed for seed in options.seeds if limits_of(options.system, seed).values]
    found = summed((run_seed(SETTINGS[options.system], seed) for seed in seeds), options.system)
    print(json.dumps(found))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
