"""What the membership of many daemons does when they start, restart, part and come together.

Nothing is lost, so whatever happens, happens by the protocol's own doing. Views count without the first one of each
incarnation, which is itself alone; packets and bytes are those that all daemons sent, a multicast once. A daemon takes
no time to think here: what it costs to think, ``python -m isotone.bench membership`` measures.

Implements: the figures of docs/protocols/membership.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

from isotone.core.choice import Choice
from isotone.sim.figures.fleet import SECOND, Fleet

Row = dict[str, Any]
Measured = tuple[dict[str, Any], list[Row]]

DAEMONS = 64
SITES = 8
SIZES = ((8, 2), (16, 4), (32, 8), (64, 8))
SPREADS_US = (0, 100_000, SECOND)
DOWN_US = SECOND
"""How long a daemon that is restarted is away."""
SIDES = 3


def cold_start(*, daemons: int = 0, sites: int = 0, spreads_us: Sequence[int] = SPREADS_US, seed: int = 1) -> Measured:
    """All daemons start within some time; until all are in one daemon view. Several sizes, unless one is given."""
    sizes = ((daemons, sites or SITES),) if daemons else SIZES
    rows = []
    for size, places in sizes:
        for spread in spreads_us:
            fleet, seconds = started(daemons=size, sites=places, spread_us=spread, seed=seed)
            rows.append({"start_within_s": spread / SECOND, **_row(fleet, seconds)})
    return {"seed": seed}, rows


def started(*, daemons: int, sites: int, spread_us: int = 0, seed: int = 1) -> tuple[Fleet, float]:
    """A fleet whose daemons started within this time, in one daemon view; and the seconds from the last start to it."""
    fleet = Fleet(daemons=daemons, sites=sites, seed=seed)
    choice = Choice(f"cold start/{seed}")
    for name in fleet.names:
        fleet.world.after(choice.below(spread_us + 1), partial(fleet.world.restart, name))
    fleet.run(spread_us)
    return fleet, fleet.run_until_together(fleet.names)


def rolling_restart(*, daemons: int = DAEMONS, sites: int = SITES, seed: int = 1) -> Measured:
    """One daemon after the other stops, is away for a second and comes back; the next stops when all are together."""
    fleet, _ = started(daemons=daemons, sites=sites, seed=seed)
    _settle(fleet)
    left, returned = [], []
    for name in fleet.names:
        fleet.world.stop(name)
        left.append(fleet.run_until_together([each for each in fleet.names if each != name]))
        fleet.run(DOWN_US)
        fleet.world.restart(name)
        returned.append(fleet.run_until_together(fleet.names))
    times: dict[str, float] = {}
    for step, seconds in (("leave", left), ("return", returned)):
        times |= {f"{step}_s": round(median(seconds), 2), f"{step}_most_s": round(max(seconds), 2)}
    row = _row(fleet, sum(left) + sum(returned))
    used = {"sites": row.pop("sites"), "all_seconds": row.pop("seconds")}
    return {"seed": seed, "away_us": DOWN_US, **used}, [{**row, **times}]


def site_loss(*, daemons: int = DAEMONS, sites: int = SITES, seed: int = 1) -> Measured:
    """All daemons of a site crash at once, and start again at once: first the representative's site, then the last."""
    rows = []
    for site in (0, -1):
        fleet, _ = started(daemons=daemons, sites=sites, seed=seed)
        _settle(fleet)
        lost = fleet.of_site(fleet.sites[site])
        left = [name for name in fleet.names if name not in lost]
        for name in lost:
            fleet.world.crash(name)
        rows.append({"step": f"{fleet.sites[site]} lost", **_row(fleet, fleet.run_until_together(left), left)})
        _settle(fleet)
        for name in lost:
            fleet.world.restart(name)
        rows.append({"step": f"{fleet.sites[site]} back", **_row(fleet, fleet.run_until_together(fleet.names))})
    return {"seed": seed}, rows


def split_and_merge(*, daemons: int = DAEMONS, sites: int = SITES, seed: int = 1) -> Measured:
    """The network parts in three between sites, and is whole again: once at rest, once while the sides still form."""
    fleet, _ = started(daemons=daemons, sites=sites, seed=seed)
    _settle(fleet)
    sides = [fleet.of_site(*fleet.sites[place::SIDES]) for place in range(SIDES)]
    fleet.world.partition(*sides)
    rows = [{"step": "split", **_row(fleet, fleet.run_until_together(*sides))}]
    _settle(fleet)
    fleet.world.heal()
    rows.append({"step": "merge", **_row(fleet, fleet.run_until_together(fleet.names))})
    _settle(fleet)
    fleet.world.partition(*sides)
    while not any(tally.attempts for tally in fleet.tallies.values()):
        fleet.run(1_000)
    fleet.world.heal()
    rows.append({"step": "split, merge at once", **_row(fleet, fleet.run_until_together(fleet.names))})
    return {"seed": seed, "sides": SIDES}, rows


def idle(*, daemons: int = DAEMONS, sites: int = SITES, seed: int = 1) -> Measured:
    """Ten seconds in which nothing happens."""
    fleet, _ = started(daemons=daemons, sites=sites, seed=seed)
    _settle(fleet)
    fleet.run(10 * SECOND)
    return {"seed": seed}, [_row(fleet, 10.0)]


def _settle(fleet: Fleet) -> None:
    """Nothing of before is left to be done."""
    fleet.run(5 * SECOND)
    fleet.clear()


def _row(fleet: Fleet, seconds: float, names: Sequence[str] | None = None) -> Row:
    count, sites = len(fleet.names), len(fleet.sites)
    return {"daemons": count, "sites": sites, "seconds": round(seconds, 2), **fleet.totals(names)}
