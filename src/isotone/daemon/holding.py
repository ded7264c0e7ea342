"""Readers that are too slow hold senders on both sides: Spread's clients wait for native readers, and native clients
for those of Spread.

Each automaton holds the senders that it plays by itself; here it hears to which groups the readers of the other one
want nothing sent for now. What readers at other daemons want held reaches the stack, and Spread's clients from here;
the stack says to other daemons what either side wants. What is held by another's word is never told back or on, so
nobody waits for himself.
"""

from __future__ import annotations

from isotone.core.ids import ClientId
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.spread.gateway import SpreadGateway
from isotone.evs.sessions.notices import GroupsHeld
from isotone.evs.stack import Stack

Told = tuple[frozenset[str], tuple[ClientId, ...]]
NOTHING: Told = (frozenset(), ())


class Holding:
    """Between the stack and the gateway for Spread's clients; looks when all that happened is handled."""

    def __init__(self, engine: Engine, stack: Lane, spread: Lane) -> None:
        assert isinstance(stack.automaton, Stack) and isinstance(spread.automaton, SpreadGateway)
        self._engine, self._stack, self._spread = engine, stack.automaton, spread.automaton
        self._told: dict[Lane, Told] = {stack: NOTHING, spread: NOTHING}
        self._stack_lane, self._spread_lane = stack, spread

    def settle(self, at: int) -> None:
        """Tell what changed."""
        assert self._stack.sessions is not None
        blocking, elsewhere = self._stack.sessions.blocking, self._stack.groups.holds.groups
        if blocking or elsewhere or self._told[self._spread_lane] != NOTHING:
            groups_of = self._stack.groups.roster.groups_of
            groups = elsewhere.union(*({*groups_of(each), each.private_group} for each in blocking))
            self._tell(self._spread_lane, (groups, ()), at)
        self._tell(self._stack_lane, (self._spread.blocked_groups, self._spread.blocking), at)

    def _tell(self, lane: Lane, told: Told, at: int) -> None:
        if told != self._told[lane]:
            self._told[lane] = told
            groups, readers = told
            self._engine.post(lane, GroupsHeld(at, tuple(sorted(groups)), readers))
