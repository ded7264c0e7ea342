"""What is delivered before and after the transitional signal, of the units that are here once all has been exchanged.

The rules are those of `recovery`. Every daemon that comes along computes them on the same units and the same union, so
all deliver the same; what one of them delivered ahead of the walk met the same conditions on less.

Implements: [Spread Figure 6.16]. Deviations: those of `recovery`.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.services import Service
from isotone.evs.ordering.holding import contains, run_around, without
from isotone.evs.ordering.union import Union
from isotone.evs.ordering.units import Unit

NEVER = 1 << 64


class Farewell:
    """``units`` are all that this daemon has not walked, in total order; ``early`` says which it delivered already."""

    def __init__(
        self, union: Union, units: Sequence[Unit], early: Sequence[frozenset[int]], committed: frozenset[int]
    ) -> None:
        self._union, self._units, self._early, self._committed = union, units, early, committed
        self._hole = self._first_hole()
        self._whole: list[set[int]] = [set() for _ in early]  # delivered, with all before them in their sessions
        self._weak = list(union.settled)  # per site: every weak unit up to here is delivered
        self._bare = list(map(without, union.metadata, union.content))  # what some have the metadata of, nobody more

    def clear_through(self) -> int:
        """Everything up to this time that is here is delivered, whoever sent it."""
        if self._hole < NEVER:
            return self._hole - 1
        top = self._units[-1].lamport if self._units else 0
        return max(top, self._union.agreed, self._union.committed)

    @property
    def lacks_content(self) -> bool:
        """Whether content is missing below the agreed line, which somebody here may be owed and others may have."""
        union = self._union
        below = [unit for unit in self._units if union.stable < unit.lamport <= union.agreed]
        return any(not union.has_content(unit.site, unit.sequence) for unit in below)

    def delivered(self) -> tuple[list[Unit], list[Unit]]:
        """Before and after the signal, without what was delivered already."""
        before, rest = self._parted()
        for unit in before:
            self._pass(unit, delivered=True)
        after = []
        for unit in rest:
            delivered = self._is_deliverable(unit)
            self._pass(unit, delivered=delivered)
            if delivered:
                after.append(unit)
        return self._new(before), self._new(after)

    def _parted(self) -> tuple[Sequence[Unit], Sequence[Unit]]:
        """What is agreed on, and the rest: from the first that nobody can have passed who comes along."""
        union, place = self._union, 0
        for unit in self._units:
            if unit.lamport > union.agreed or (
                unit.lamport > union.stable and (unit.service.is_safe or self._is_lost(unit))
            ):
                break
            place += 1
        return self._units[:place], self._units[place:]

    def _is_lost(self, unit: Unit) -> bool:
        """Whether it has a place in the total order and nobody here has its content; call it for what is not stable."""
        return unit.service.is_agreed and not self._union.has_content(unit.site, unit.sequence)

    def _new(self, units: Sequence[Unit]) -> list[Unit]:
        return [unit for unit in units if unit.sequence not in self._early[unit.site]]

    # --- behind the signal -----------------------------------------------------------------------------------------

    def _first_hole(self) -> int:
        """The least time that a unit can have which exists and which nobody here has; commitments reach beyond it."""
        union = self._union
        holes = [(site, hole) for site in range(len(self._early)) if (hole := union.hole(site)) is not None]
        if not holes:
            return NEVER
        last = {(site, hole - 1): 0 for site, hole in holes}
        for unit in self._units:
            if (unit.site, unit.sequence) in last:
                last[unit.site, unit.sequence] = unit.lamport
        return max(union.agreed, union.committed, min(last.values())) + 1

    def _is_deliverable(self, unit: Unit) -> bool:
        """Always the same for all who come along, whatever each delivered early."""
        if unit.daemon in self._committed or unit.service is Service.RELIABLE:
            return True
        if unit.service.is_agreed:
            return unit.lamport < self._hole
        if not self._is_whole(unit.site, unit.previous):
            return False
        return unit.service is Service.FIFO or self._past_is_delivered(unit)

    def _is_whole(self, site: int, sequence: int) -> bool:
        """Metadata that somebody has is enough: what is behind it he may have delivered."""
        if sequence <= self._union.settled[site] or sequence in self._whole[site]:
            return True
        return contains(self._bare[site], sequence)

    def _past_is_delivered(self, unit: Unit) -> bool:
        weak = all(self._weak_through(site, before) for site, before in enumerate(unit.weak_before))
        return weak and unit.agreed_before[0] < self._hole

    def _weak_through(self, site: int, sequence: int) -> bool:
        """Whether all up to here passed; what somebody has the metadata of does not hold it up."""
        if self._weak[site] < sequence and (run := run_around(self._bare[site], self._weak[site] + 1)) is not None:
            self._weak[site] = run[1]
        return sequence <= self._weak[site]

    def _pass(self, unit: Unit, *, delivered: bool) -> None:
        site, sequence = unit.site, unit.sequence
        if delivered and self._is_whole(site, unit.previous):
            self._whole[site].add(sequence)
        if (delivered or unit.service.is_agreed) and self._weak_through(site, sequence - 1):
            self._weak[site] = max(self._weak[site], sequence)
