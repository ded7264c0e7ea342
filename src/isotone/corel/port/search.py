"""Looking for a server that takes a client: one address after another, then a pause that grows.

Each address has its share of the time, so that one that says nothing leaves some to the next. What one server refuses
it refuses again: then the others are tried once, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from isotone.core.contract import Address

AGAIN_US = 50_000
AGAIN_MAX_US = 1_000_000


class Patience(msgspec.Struct):
    """How long a client waits for servers; may be changed at any time."""

    connect_within_us: int = 5_000_000
    grace_us: int = 1_000_000
    """So much longer than its deadline a call waits for the answer of the server, which knows why."""
    look_every_us: int = 5_000_000
    tries_again: bool = True
    """When no server answers, as long as there is time; or says so at once."""


class Verdict(Enum):
    """What to do when an attempt came to nothing."""

    NEXT = "try the next address"
    PAUSE = "try all again after a pause"
    GIVE_UP = "tell whoever waits"


class Search:
    """Which server one client tries next, and after what pause."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)
        self.reasons: dict[Address, str] = {}  # since the search began, why each is of no use
        self._place = 0
        self._tried = 0  # in this round
        self.is_refused = False
        self.pause_us = AGAIN_US

    @property
    def address(self) -> Address:
        """Where to try now."""
        return self.addresses[self._place]

    def begin(self) -> None:
        """Nothing is known yet; the first is where it was last."""
        self.reasons, self.pause_us = {}, AGAIN_US
        self.begin_round()

    def begin_round(self) -> None:
        """All of them once."""
        self._tried, self.is_refused = 0, False

    def share_us(self, left_us: int) -> int:
        """Of the time that is left, for this attempt."""
        return max(0, left_us) // (len(self.addresses) - self._tried)

    def leave(self) -> None:
        """The server that served is of no use any more."""
        self._place = (self._place + 1) % len(self.addresses)

    def failed(self, reason: str, *, is_refused: bool, tries_again: bool) -> Verdict:
        """This attempt came to nothing."""
        self.reasons[self.address] = reason
        self.is_refused = self.is_refused or is_refused
        self.leave()
        self._tried += 1
        if self._tried < len(self.addresses):
            return Verdict.NEXT
        return Verdict.PAUSE if tries_again and not self.is_refused else Verdict.GIVE_UP

    def next_pause_us(self) -> int:
        """Before the next round."""
        pause, self.pause_us = self.pause_us, min(2 * self.pause_us, AGAIN_MAX_US)
        return pause

    def why(self) -> str:
        """Why there is no server."""
        what = "takes this client" if self.is_refused else "answers"
        told = "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())
        return f"no server of the log {what}: {told or 'no answer'}"
