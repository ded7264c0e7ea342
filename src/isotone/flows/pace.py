"""How often the leader of a ring sends tokens, and how many ranges a value in them may have.

Both are fixed, or adapt to what the leader measures: how long a token takes to go round, and how long it is. There is
one budget, bytes a second at each member:

* The next token leaves when the one before it should be back: tokens that chase each other do work twice. It leaves
  later if the budget asks for that, and never later than the interval of the settings.
* A token that costs more than the budget at that interval lowers k_max by a quarter; values that were truncated while
  there is room raise it by a quarter.

Implements: [Flows 4.2] (adaptive token rate and k_max). Deviations: none; the paper names the two, and no rule.
"""

from __future__ import annotations

FASTER_MAX = 20
"""A ring sends at most so many times the tokens that its settings say."""
RANGES_MIN, RANGES_MAX = 8, 4_000
UNDER_WAY_MAX = 64
_SHARE = 4  # of a new measurement in what was measured


class Pace:
    """Of one ring, at its leader. Without a budget nothing adapts."""

    __slots__ = ("_bytes", "_bytes_per_s", "_sent", "_token_us", "_trip_us", "interval_us", "ranges_max")

    def __init__(self, token_us: int, ranges_max: int, bytes_per_s: int = 0) -> None:
        self._token_us, self._bytes_per_s = token_us, bytes_per_s
        self.interval_us = token_us  # until the next token
        self.ranges_max = ranges_max  # for the next token
        self._trip_us = self._bytes = 0.0
        self._sent: dict[int, int] = {}  # by round, of tokens under way

    def sent(self, round: int, at: int) -> None:
        """A token leaves."""
        if not self._bytes_per_s:
            return
        if len(self._sent) == UNDER_WAY_MAX:  # none came back: perhaps they are too long for a datagram
            self._sent.clear()
            self.ranges_max = max(RANGES_MIN, self.ranges_max * 3 // 4)
        self._sent[round] = at

    def new_view(self) -> None:
        """Tokens under way will not come back; how long a trip takes is measured anew."""
        self._sent.clear()
        self._trip_us = 0.0
        self.interval_us = self._token_us

    def came_back(self, round: int, at: int, length: int, truncated: bool) -> None:
        """A token is back, of so many bytes; ``truncated``: some value in it lacks what did not fit."""
        sent = self._sent.pop(round, None)
        if sent is None:
            return
        self._sent = {other: when for other, when in self._sent.items() if other > round}
        self._trip_us += (at - sent - self._trip_us) / _SHARE if self._trip_us else at - sent
        self._bytes += (length - self._bytes) / _SHARE if self._bytes else length
        needed_us = self._bytes * 1_000_000 / self._bytes_per_s
        wanted = max(self._trip_us, needed_us, self._token_us / FASTER_MAX)
        self.interval_us = int(min(self._token_us, wanted))
        if needed_us > self._token_us:
            self.ranges_max = max(RANGES_MIN, self.ranges_max * 3 // 4)
        elif truncated and needed_us * 5 / 4 < self._token_us:
            self.ranges_max = min(RANGES_MAX, self.ranges_max + max(1, self.ranges_max // 4))
