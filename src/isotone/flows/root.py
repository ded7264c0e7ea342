"""The root: turns results of the top ring into decisions, in one history for all time, by a register.

A decision flows only when the register has it. The register takes a decision only from whoever knows its last one, so
two roots, which there may be for a moment, never decide beside each other. What it holds is also the floor of a
recovery of the top ring: no later result is below it.

Implements: [Flows 3.1] (root authority, root code). Deviations: Dw7 the register; the paper's root remembers nothing,
and then the sink would fall when the whole top ring is replaced. See ``docs/protocols/flows.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.flows.compiler import Rules, Values, decide
from isotone.flows.operators import at_most
from isotone.flows.ring import NO_VERSION, Version
from isotone.flows.values import LIMITLESS, RangeSet, Value


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What the register holds: the version, the aggregates behind it, all global flows."""

    version: Version = NO_VERSION
    aggregates: tuple[Value, ...] = ()
    flows: Mapping[str, Value] = {}


class Root:
    """The root component of whoever leads the top ring."""

    __slots__ = ("_rules", "_waiting", "fell", "known", "last", "pending")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.known = False  # whether the register was read
        self.last = Decision()  # what the register holds, as far as we know
        self.pending: Decision | None = None  # what we asked it to take
        self._waiting: tuple[Version, Values] | None = None  # the newest result meanwhile
        self.fell = False  # the last result is below the last decision: the ring must recover above that

    def take_result(self, version: Version, aggregates: Values) -> Decision | None:
        """A round of the top ring is complete: what the register shall take, if anything."""
        self.fell = False
        if not self.known or self.pending is not None:
            self._waiting = (version, aggregates)
            return None
        if version <= self.last.version:
            return None
        falls = self._falls(aggregates)
        self.fell = falls and not any(isinstance(each, RangeSet) and each.limit < LIMITLESS for each in aggregates)
        if falls:
            return None
        whole = self._filled(aggregates)
        if whole is None:
            return None
        flows = decide(self._rules, whole, self.last.flows)
        if self.last.version != NO_VERSION and (whole, flows) == (self.last.aggregates, self.last.flows):
            return None
        self.pending = Decision(version, whole, flows)
        return self.pending

    def _filled(self, aggregates: Values) -> tuple[Value, ...] | None:
        """While all members of the top ring are candidates, guarded flows stand where they stood."""
        last: Values = self.last.aggregates or (None,) * len(aggregates)
        whole = tuple(new if new is not None else old for new, old in zip(aggregates, last, strict=True))
        present = tuple(each for each in whole if each is not None)
        return present if len(present) == len(whole) else None

    def _falls(self, aggregates: Values) -> bool:
        """Whether a guarded one is below the last decision. It may be: for a while, if a truncated set reaches less far
        under a new leader; and if the ring recovered above a decision that another root had just followed up."""
        last = self.last.aggregates
        return bool(last) and not all(
            aggregates[place] is None or at_most(last[place], aggregates[place], order)
            for place, order in self._rules.guards
        )

    def learn(self, held: Decision) -> Decision | None:
        """What the register holds now; perhaps the next thing that it shall take."""
        self.fell = False
        if self.known and held.version < self.last.version:
            return None
        self.known = True
        if self.pending is not None and held.version < self.pending.version and held.version == self.last.version:
            return self.pending  # an answer to an earlier question
        self.last = held
        self.pending = None
        waiting, self._waiting = self._waiting, None
        return self.take_result(*waiting) if waiting else None
