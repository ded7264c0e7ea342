"""How long a healed system of sites may take until everything is delivered and forgotten.

Implements: [DESIGN 1], "Time bounds that we promise"; [ISIS 4.7]. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.spec.bounds import Bound


class IsisTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What the bound is a function of."""

    view_us: int
    """The group service forms a view that stays within this time."""
    round_us: int
    """A message is delivered within this time."""
    tick_us: int
    suspect_us: int
    collect_us: int
    sites: int
    collections: int
    """Rounds of garbage collection that what was sent last needs."""


def _settles(times: IsisTimes) -> int:
    manager = times.suspect_us + (times.sites + 2) * times.tick_us + 6 * times.round_us
    rejoin = 2 * times.tick_us + 12 * times.round_us
    collect = times.collections * (times.collect_us + 2 * times.tick_us + 4 * times.round_us)
    return times.view_us + 3 * (manager + rejoin) + collect


ISIS_SETTLES: Bound[IsisTimes] = Bound(
    name="ISIS settles",
    derivation=(
        "A view of the group service; then three site views (a failure that was suspected before the heal, the sites "
        "that were killed by it, and those that were told late), each a suspicion, managers in each other's way, a "
        "take-over in six rounds, and GBCASTs for the failed and the joining; then rounds of garbage collection at "
        "each site after the other."
    ),
    function=_settles,
)
"""From the last fault or step of a run until nothing is under way."""
