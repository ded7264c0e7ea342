"""How long data centres need, once everything is healed, until each takes part and all is delivered everywhere.

An *exchange* is a request to some centres and an answer of each. A request or an answer that is lost is sent again
after the patience, or twice that if the timer just passed by. So with a chance ``loss`` for each packet an exchange
with k centres takes, on the average, a round and 2 · patience · q / (1 - q), with q = 1 - (1 - loss)^(2k). Many
exchanges follow each other, so the average counts; `MARGIN` times it is the bound.

Implements: [DESIGN 1], bounds that are promised.
"""

from __future__ import annotations

import msgspec

from isotone.spec.bounds import Bound

MARGIN = 3
RETURN_EXCHANGES = 5
"""A wish to come back, the removal of who it was, its admission, the welcome, and the first order behind it."""
TAKE_OVER_EXCHANGES = 3
"""The declaration, the promises, and the first confirmation of the new epoch."""


class HabTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What the bound is a function of."""

    round_us: int
    """There and back between centres, at most."""
    patience_us: int
    """Until what is not answered is sent again."""
    loss: float
    """The chance of each packet between centres to be lost."""
    operator_us: int
    """Until an operator acts, at most."""
    local_us: int
    """Until the processes of a centre order again, when enough of them are there."""
    centres: int
    records: int
    """Broadcasts that are not delivered, at most."""
    at_once: int
    """So many of them travel in one exchange."""


def exchange_us(times: HabTimes, centres: int) -> int:
    """With so many centres at once, on the average."""
    failed = 1 - (1 - times.loss) ** (2 * centres)
    return int(times.round_us + 2 * times.patience_us * failed / (1 - failed))


def _settles(times: HabTimes) -> int:
    others = max(1, times.centres - 1)
    exchange = exchange_us(times, others)
    take_over = times.operator_us + TAKE_OVER_EXCHANGES * exchange
    settled = times.local_us + others * (take_over + times.operator_us + RETURN_EXCHANGES * exchange)
    drained = -(-times.records // times.at_once) * (exchange_us(times, 1) + exchange)
    return MARGIN * (settled + drained)


HAB_SETTLES: Bound[HabTimes] = Bound(
    name="HAB settles",
    derivation=(
        "The local broadcasts of the centres; then all centres but one were lost, and take over and come back one "
        "after the other: each time an operator who declares, three exchanges for the take-over, an operator who asks "
        "back, and five exchanges for the return. Then all broadcasts, as many as travel together in one exchange "
        "with the primary and one with the backups. Three times the average, for it is packets that are lost at "
        "random."
    ),
    function=_settles,
)
"""From the last fault or step of a run until every centre takes part and everything is delivered everywhere."""
