"""One member of one token ring: candidates and regular members, rounds, the leader's part, recovery. Pure logic.

A token of version (view, round) visits all members of the view in their order and comes back to the leader, who adds
its own values last; then the round is *complete* and its result has flowed. Members follow these rules:

* A token of another view, or of a round that is not newer than the last that it saw, is dropped: so a round is complete
  only if every member of the view let it pass, in the order of rounds.
* A *regular* member adds its values. A *candidate* adds them only if no guarded one is below what it knows of the round
  before: its full result if the token has it, else the partial result that it passed on itself. It is promoted when a
  token shows that a round which it took part in is complete, and it took part in all since.
* In a new view a member stays regular only if it was a member of all views since the last that it knew.
* A complete round to which nobody added guarded values proves that all members are candidates. The leader then sends
  *recovery* tokens, one at a time, that carry a floor; who is not below the floor takes part, who is below is a
  candidate. So it does in the top ring when the root finds a result below the last decision.

Implements: [Flows 3.2]. Deviations: Dw4 an unbroken run of rounds instead of one round (tokens may chase each other);
Dw5 recovery, which the paper omits; Dw6 the leader adds its values last. See ``docs/protocols/flows.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from isotone.flows.compiler import Rules, Values
from isotone.flows.operators import at_most
from isotone.flows.values import LIMITLESS, Pairs, RangeSet, Value

Version = tuple[int, int]
"""(view, round): of an aggregate of one ring; of the root's ring for what comes down."""
NO_VERSION: Version = (0, 0)
DOUBLINGS_MAX = 6


class Member(msgspec.Struct, frozen=True, gc=False):
    """A member of a view: its id, where it is, and the number of the first view since which it was never left out."""

    id: str
    address: str
    since: int


class Token(msgspec.Struct, gc=False):
    """What goes round. ``values`` are partial results of this round, ``results`` those of the last complete one."""

    ring: str
    number: int
    round: int
    values: list[Value | None]
    count: int = 0  # how many added guarded values
    recovers: bool = False
    floor: Values | None = None  # of a recovery: who is below must wait
    result_round: int = 0  # 0: none of this view is complete
    results: Values = ()
    reach: list[int] = []  # up to where each guarded set must not be truncated (Dw1)
    ranges_max: int = LIMITLESS  # of each value, but for that
    down_version: Version = NO_VERSION
    down: tuple[Value, ...] = ()
    share_version: Version = NO_VERSION
    shares: list[Pairs] = []

    @property
    def is_truncated(self) -> bool:
        """Whether a set in it lacks what did not fit."""
        return any(isinstance(each, RangeSet) and each.limit < LIMITLESS for each in self.values)


class Standing(Enum):
    """How a member took part in a round."""

    REGULAR = "regular"
    ADMITTED = "admitted"
    BESIDE = "beside"  # it added unguarded values only


class Ring:
    """A member's part in one ring."""

    __slots__ = (
        "_guards",
        "_operators",
        "_sets",
        "contributed_since",
        "count_seen",
        "floor",
        "floor_known",
        "given_up",
        "issued",
        "me",
        "members",
        "number",
        "partial_seen",
        "place",
        "reach",
        "recovering",
        "recovery_age",
        "regular",
        "result_round",
        "results",
        "round_seen",
        "rules",
        "values",
    )  # fmt: skip

    def __init__(self, me: str, rules: Rules) -> None:
        self.me = me
        self.rules = rules
        self._operators = [each.operator.apply for each in rules.regular]
        self._guards = rules.guards
        self._sets = any(each.type.value in ("set", "pairs") for each in rules.regular)
        self.number = 0  # of the view
        self.members: tuple[Member, ...] = ()
        self.place = -1  # our place in it
        self.regular = False
        self.values: Values | None = None  # what we add; None until there is something
        self.contributed_since = 0  # the first of an unbroken run of rounds of this view that we took part in
        self.round_seen = 0
        self.partial_seen: list[Value | None] = []  # as we passed it on in that round
        self.count_seen = 0
        self.result_round = 0  # the last round of this view known to be complete, and its result
        self.results: Values = ()
        self.issued = 0  # the leader's last round
        self.recovering = False
        self.recovery_age = 0  # ticks since the last recovery token was sent
        self.given_up = 0  # recovery tokens that were taken for lost, without one that came back
        self.floor: Values | None = None
        self.floor_known = False
        self.reach = [0] * len(rules.regular)  # how far each guarded set has reached; known across views

    @property
    def leads(self) -> bool:
        """Whether we lead the present view."""
        return self.place == 0

    @property
    def has_guarded(self) -> bool:
        """Whether we have a value for every guarded flow."""
        values = self.values
        return values is not None and all(values[place] is not None for place, _ in self._guards)

    def take_view(self, number: int, members: Sequence[Member]) -> bool:
        """Enter a newer view; False if it is not newer. We may find that we are not in it."""
        if number <= self.number:
            return False
        self.members = tuple(members)
        self.place = next((place for place, each in enumerate(members) if each.id == self.me), -1)
        if self.place < 0 or members[self.place].since > self.number:
            self.regular = False
        self.number = number
        self.contributed_since = self.round_seen = self.count_seen = self.result_round = self.issued = 0
        self.partial_seen, self.results = [], ()
        self.recovering, self.recovery_age, self.given_up = False, 0, 0
        return True

    # --- members ---------------------------------------------------------------------------------------------------

    def may_pass(self, token: Token) -> bool:
        """Whether this token is of our view and newer than all that we saw."""
        return token.number == self.number and token.round > self.round_seen and self.place >= 0

    def add_to(self, token: Token) -> Standing:
        """Our turn: learn what the token shows, add our values as far as we may, remember what we pass on."""
        if token.result_round > self.result_round:
            self.result_round, self.results = token.result_round, token.results
        if 0 < self.contributed_since <= self.result_round:
            self.regular = True
        if token.reach:
            self.reach = [max(pair) for pair in zip(self.reach, token.reach)]
        standing = self._standing(token)
        self._combine(token, guarded=standing is not Standing.BESIDE)
        if standing is Standing.BESIDE:
            self.contributed_since = 0
        else:
            token.count += 1
            self.contributed_since = self.contributed_since or token.round
        self.round_seen, self.partial_seen, self.count_seen = token.round, list(token.values), token.count
        return standing

    def _standing(self, token: Token) -> Standing:
        if not self.has_guarded:
            return Standing.BESIDE
        if token.recovers and token.floor is not None and not self._reaches(token.floor):
            self.regular = False
            return Standing.BESIDE
        if self.regular:
            return Standing.REGULAR
        if self.contributed_since:
            return Standing.ADMITTED
        if token.recovers:
            return Standing.ADMITTED
        if self.result_round and self.result_round == self.round_seen:
            return Standing.ADMITTED if self._reaches(self.results) else Standing.BESIDE
        if self.count_seen and not self.leads and self._reaches(self.partial_seen):
            return Standing.ADMITTED
        return Standing.BESIDE

    def _reaches(self, floor: Sequence[Value | None]) -> bool:
        """Whether none of our guarded values is below."""
        values = self.values
        assert values is not None
        return all(
            floor[place] is not None and at_most(floor[place], values[place], order) for place, order in self._guards
        )

    def _combine(self, token: Token, *, guarded: bool) -> None:
        mine, values = self.values, token.values
        if mine is None:
            return
        for place, rule in enumerate(self.rules.regular):
            if (guarded or rule.guarded is None) and mine[place] is not None:
                value = values[place]
                values[place] = mine[place] if value is None else self._operators[place](value, mine[place])
        if self._sets:
            self._truncate(values, token.ranges_max)

    def _truncate(self, values: list[Value | None], ranges_max: int) -> None:
        """At most so many ranges in a value, but of guarded ones all that results ever reached stays (Dw1)."""
        for place, value in enumerate(values):
            if isinstance(value, RangeSet):
                values[place] = value.truncated(ranges_max, self.reach[place])
            elif isinstance(value, Pairs):
                values[place] = value.truncated(ranges_max)

    def keep_reach(self, results: Values) -> None:
        """These flowed: no later result may be truncated below them."""
        for place, _ in self._guards:
            value = results[place]
            if isinstance(value, RangeSet) and value.bounds:
                self.reach[place] = max(self.reach[place], value.bounds[-1])

    # --- the leader ------------------------------------------------------------------------------------------------

    def begin_round(self, patience: int, ranges_max: int = LIMITLESS) -> Token | None:
        """A new token; None while a recovery token is under way, for at most ``patience`` calls, twice as many after
        each that was lost: a trip may take longer than we think."""
        if self.recovering:
            self.recovery_age += 1
            under_way = self.issued > self.round_seen
            if not self.floor_known or (under_way and self.recovery_age <= patience << self.given_up):
                return None
            self.given_up = min(self.given_up + under_way, DOUBLINGS_MAX)
            self.recovery_age = 0
        self.issued += 1
        token = Token(self.members[0].id, self.number, self.issued, [None] * len(self._operators), shares=[])
        token.result_round, token.results = self.result_round, self.results
        token.ranges_max = ranges_max
        if self._sets:
            token.reach = list(self.reach)
        if self.recovering:
            token.recovers, token.floor = True, self.floor
        return token

    def may_finish(self, token: Token) -> bool:
        """Whether the token that came back completes a round; of recoveries, only the last."""
        return self.may_pass(token) and self.leads and (not token.recovers or token.round == self.issued)

    def finish_round(self, token: Token) -> tuple[Standing, bool]:
        """Add our own values; the round is complete. False if nobody added guarded values: all are candidates."""
        standing = self.add_to(token)
        if not token.count:
            self.recovering = True
            return standing, False
        self.result_round, self.results = token.round, tuple(token.values)
        self.recovering, self.given_up = False, 0
        if self.contributed_since:
            self.regular = True
        if self._sets:
            self.keep_reach(self.results)
        return standing, True
