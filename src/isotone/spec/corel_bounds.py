"""How long a connected quorum may take until everything that it has is green, and white if all servers are there.

Implements: [DESIGN 1], "Time bounds that we promise"; [COReL 3.5]. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.spec.bounds import Bound


class CorelTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What the bound is a function of."""

    view_us: int
    """The group service forms a view that stays within this time."""
    round_us: int
    """A message is delivered to all members within this time."""
    sync_us: int
    """A write is durable within this time."""
    reconnect_us: int
    settle_us: int
    """Of the replica's settings."""
    parcel_rounds: int
    """How many rounds of parcels the retransmission takes: what someone lacks, over what is under way at a time."""


def _orders(times: CorelTimes) -> int:
    step = times.round_us + times.sync_us
    return 2 * times.view_us + times.reconnect_us + (6 + times.parcel_rounds) * step + 2 * (times.settle_us + step)


COREL_ORDERS: Bound[CorelTimes] = Bound(
    name="COReL orders",
    derivation=(
        "Two views, because the first may hold an old session of a server that lost one and connects again; then "
        "states, attempt, commit, message, acknowledgement and one round for what waited for a place among the "
        "messages under way, each a round behind a write; the rounds of parcels; and the green line written and told "
        "twice: once by those who ordered, and once by those who adopted it."
    ),
    function=_orders,
)
"""From the last fault of a run until nothing is left to order."""
