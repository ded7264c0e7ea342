"""``python -m tests.spec.mutation --seeds 1..20 --per-kind 10``: the table; exit code 1 if a kind is not caught."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from isotone.core.errors import InputError
from isotone.sim.swarm import default_workers, parse_seeds
from tests.spec.mutation.kinds import KINDS
from tests.spec.mutation.runner import CAUGHT_MIN, EXCUSED_MAX, TOLD_MAX, Count, count_seed, table


def main(arguments: list[str] | None = None) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.mutation", description="Spoil good runs of the oracle.")
    parser.add_argument("--seeds", default="1..20", help="7 or 1..20")
    parser.add_argument("--per-kind", type=int, default=10, help="corruptions of each kind in each run")
    parser.add_argument("--workers", type=int, default=default_workers())
    options = parser.parse_args(arguments)
    try:
        seeds = parse_seeds(options.seeds)
    except InputError as error:
        parser.error(str(error))
    counts = {kind: Count() for kind in KINDS}
    with ProcessPoolExecutor(max(1, options.workers)) as executor:
        for found in executor.map(partial(count_seed, per_kind=options.per_kind), seeds):
            for kind, count in found.items():
                counts[kind].add(count)
    return _report(counts)


def _report(counts: dict[str, Count]) -> int:
    print("\n".join(table(counts)))
    faults = [f"{kind}: {fault}" for kind, count in counts.items() for fault in count.faults()]
    missed = [each for count in counts.values() for each in count.missed[:TOLD_MAX]]
    print(f"at least {CAUGHT_MIN:.0%} of what is owed, at most {EXCUSED_MAX:.0%} excused: {'no' if faults else 'yes'}")
    for line in (*faults, *missed):
        print(f"! {line}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
