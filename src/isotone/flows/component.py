"""One component of a node's stack: its part in a ring, and what passes through it up and down.

Implements: [Flows 3.2] (value buckets). Deviations: none.
"""

from __future__ import annotations

from isotone.core.contract import Address
from isotone.flows.compiler import Rules
from isotone.flows.messages import Bootstrap
from isotone.flows.pace import Pace
from isotone.flows.ring import NO_VERSION, Ring, Token, Version
from isotone.flows.values import Pairs, RangeSet, Value

RECOVERY_ROUNDS = 5
"""So many token intervals a leader waits for a recovery token before it takes it for lost."""


def patience(ring: Ring) -> int:
    """How many ticks a recovery token may be under way."""
    return RECOVERY_ROUNDS + len(ring.members) // 8


class Component:
    """Of one ring; ``me`` is who we are in it, and is never used again once this component sleeps."""

    def __init__(self, name: str, authority: Address, me: str, rules: Rules) -> None:
        self.name = name
        self.authority = authority
        self.rules = rules
        self.parent = ""
        self.parent_authority = Address("")
        self.pace = Pace(0, 0)
        self.is_booted = False
        self.down_version: Version = NO_VERSION
        self.down: tuple[Value, ...] = ()
        self._dealt: tuple[Version, list[Pairs]] | None = None  # to be dealt out in the next round
        self.dealt_version: Version = NO_VERSION
        self.me = me
        self.ring = Ring(me, rules)
        self.origin = ""  # the version of the values that we add, for the trace
        self.has_counted = False  # guarded values came from the ring below

    def begin_again(self, me: str) -> None:
        """As a new member of the same ring, with the values that we had."""
        values, self.me = self.ring.values, me
        self.ring = Ring(me, self.rules)
        self.ring.values = values
        self.is_booted = False

    def boot(self, told: Bootstrap) -> None:
        """Take what the authority says about the ring."""
        self.parent, self.parent_authority = told.parent, Address(told.parent_authority)
        self.pace = Pace(max(told.token_us, 1_000), told.ranges_max, told.bytes_per_s)
        self.is_booted = True

    @property
    def is_top(self) -> bool:
        """Whether the root is embedded in this component."""
        return self.is_booted and not self.parent

    def load(self, token: Token) -> None:
        """What the leader gives a new token to carry down. Shares go once: a token that is lost takes them with it."""
        token.down_version, token.down = self.down_version, self.down
        if self._dealt is not None:
            token.share_version, token.shares = self._dealt
            self._dealt = None

    def deal(self, version: Version, pairs: list[Pairs]) -> None:
        """To be dealt out among the members, unless something newer was."""
        if version > self.dealt_version and any(pairs):
            self.dealt_version = version
            self._dealt = (version, pairs)

    def take_share(self, token: Token, allowed: list[object]) -> tuple[Version, list[Pairs]] | None:
        """Our part of what the token deals out; it carries the rest on."""
        if not token.shares:
            return None
        mine: list[Pairs] = []
        for place, pairs in enumerate(token.shares):
            numbers = allowed[place]
            part = pairs.with_numbers_in(numbers) if isinstance(numbers, RangeSet) else Pairs()
            mine.append(part)
            token.shares[place] = pairs.difference(part)
        return token.share_version, mine
