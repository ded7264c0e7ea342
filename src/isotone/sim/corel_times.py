"""How long the servers of a simulated run may take, by what is beneath them.

Implements: [DESIGN 1], "Time bounds that we promise".
"""

from __future__ import annotations

from isotone.corel.settings import RECONNECT_US, SETTLE_US
from isotone.sim.full_system import FULL, full_live_within_us
from isotone.sim.plan import Plan
from isotone.spec.bounds import ORACLE_SETTLES
from isotone.spec.corel_bounds import CorelTimes
from isotone.spec.oracle import OracleSettings

PARCEL_ROUNDS = 8  # a plan appends less than a megabyte
SYNC_US = 22_000  # the longest that an unharmed disk takes
FULL_ROUND_US = 80_000  # there and back over the longest links, with what daemons add


def corel_times(plan: Plan) -> CorelTimes:
    """Over the bound of the group service beneath."""
    oracle = OracleSettings()
    full = plan.stack == FULL
    return CorelTimes(
        view_us=full_live_within_us(plan) if full else ORACLE_SETTLES.function(oracle),
        round_us=FULL_ROUND_US if full else 2 * oracle.step_us_max,
        sync_us=SYNC_US,
        reconnect_us=RECONNECT_US,
        settle_us=SETTLE_US,
        parcel_rounds=PARCEL_ROUNDS,
    )
