"""What the figures of membership must show: ``python -m tests.sim.membership_bounds --first 1 --count 1``.

Exits with 1 and says what is violated, with 0 otherwise. For every seed: a cold start of 64 daemons in 8 sites, whether
they start at once or within a tenth of a second, takes no daemon more than three daemon views; the loss of a site, its
return, a split in three and the merge take one each. In many groups every member hears what it should
(the figure itself asserts it).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from isotone.sim.figures import figure_named

COLD_START_VIEWS_MAX = 3
TOGETHER_WITHIN_S = 30.0


def violations(rows: list[dict[str, Any]], *, views_max: int) -> list[str]:
    """Every row against the bounds."""
    out = []
    for row in rows:
        what = row.get("step", "cold start")
        if row["views_most"] > views_max:
            out.append(f"{what}: a daemon installed {row['views_most']} daemon views, at most {views_max} are allowed")
        if row["seconds"] > TOGETHER_WITHIN_S:
            out.append(f"{what}: together after {row['seconds']} s")
    return out


def of_seed(seed: int, *, daemons: int, sites: int, groups: int, clients: int) -> list[str]:
    """All that one seed shows."""
    size = {"daemons": daemons, "sites": sites, "seed": seed}
    cold = figure_named("cold-start", spreads_us=(0, 100_000), **size).rows
    split, merge, both = figure_named("split-and-merge", **size).rows
    found = violations([*cold, both], views_max=COLD_START_VIEWS_MAX)
    found += violations([split, merge, *figure_named("site-loss", **size).rows], views_max=1)
    figure_named("many-groups", groups=groups, clients=clients, seed=seed)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--daemons", type=int, default=64)
    parser.add_argument("--sites", type=int, default=8)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=2_000)
    asked = parser.parse_args(arguments)
    size = {name: getattr(asked, name) for name in ("daemons", "sites", "groups", "clients")}
    found = []
    for seed in range(asked.first, asked.first + asked.count):
        found += [f"seed {seed}: {each}" for each in of_seed(seed, **size)]
    print("\n".join(found) or "all bounds hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
