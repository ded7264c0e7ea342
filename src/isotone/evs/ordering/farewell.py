"""What is delivered before and after the transitional signal, of the units that are here once all has been exchanged.

The rules are those of `recovery`. Before the signal the walk of a view that works goes on to where they say, on all
that those who come along hold together: at each cut, and at the end, everything below AGREED goes ahead that may. Every
daemon that comes along computes this on the same units and the same union, so all deliver the same; what one of them
delivered ahead of the walk met the same conditions on less.

Implements: [Spread Figure 6.16]. Deviations: those of `recovery`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.core.services import Service
from isotone.evs.ordering.delivery import WEAK
from isotone.evs.ordering.holding import contains, run_around, without
from isotone.evs.ordering.union import Union
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit

NEVER = 1 << 64


class Progress(msgspec.Struct, frozen=True, gc=False):
    """How far this daemon came: by site all up to ``walked`` was delivered, and ``early`` ahead of the walk."""

    walked: list[int]
    early: list[frozenset[int]]
    last_agreed: Position = BEFORE_ALL
    last_cut: Position = BEFORE_ALL


class LastWalk:
    """The walk goes on where this daemon stopped; ``units`` are all that it has not walked, in total order."""

    def __init__(self, progress: Progress, units: Sequence[Unit]) -> None:
        self.delivered = [set(each) for each in progress.early]  # by site: ahead of the walk, or by it since then
        self._walked, self._through = list(progress.walked), list(progress.walked)
        self._last_agreed, self._last_cut = progress.last_agreed, progress.last_cut
        self._whole: list[set[int]] = [set() for _ in progress.walked]  # delivered, with all before it in its session
        self._here = {(unit.site, unit.sequence): unit for unit in units}
        self._waiting = [unit for unit in units if unit.service in WEAK]

    def walk(self, units: Sequence[Unit]) -> list[Unit]:
        """Through these, which are agreed on; what is delivered meanwhile."""
        out: list[Unit] = []
        for unit in units:
            if unit.is_cut:
                self._go_ahead(out)
            self._walked[unit.site] = unit.sequence
            self._deliver(unit, out)
            if unit.service.is_agreed:
                self._last_agreed = unit.position
            if unit.is_cut:
                self._last_cut = unit.position
        self._go_ahead(out)
        return out

    def _deliver(self, unit: Unit, out: list[Unit]) -> None:
        if unit.sequence not in self.delivered[unit.site]:
            self.delivered[unit.site].add(unit.sequence)
            out.append(unit)

    def _go_ahead(self, out: list[Unit]) -> None:
        """Whatever below AGREED may be delivered before the walk comes to it; what it waits for stands before it."""
        waiting, self._waiting = self._waiting, []
        for unit in waiting:
            if unit.sequence <= self._walked[unit.site]:
                continue
            if self._may_go_ahead(unit):
                self._deliver(unit, out)
            if unit.sequence in self.delivered[unit.site] and self._is_whole(unit.site, unit.previous):
                self._whole[unit.site].add(unit.sequence)
            else:
                self._waiting.append(unit)

    def _may_go_ahead(self, unit: Unit) -> bool:
        if unit.behind > self._last_cut:
            return False
        if unit.service is Service.RELIABLE:
            return True
        if not self._is_whole(unit.site, unit.previous):
            return False
        return unit.service is Service.FIFO or self._past_is_delivered(unit)

    def _is_whole(self, site: int, sequence: int) -> bool:
        return sequence <= self._walked[site] or sequence in self._whole[site]

    def _past_is_delivered(self, unit: Unit) -> bool:
        weak = all(self._weak_through(site, before, unit.behind) for site, before in enumerate(unit.weak_before))
        return weak and unit.agreed_before <= self._last_agreed

    def _weak_through(self, site: int, sequence: int, behind: Position) -> bool:
        """Whether all up to here is there, and what of it is below AGREED and not behind a later cut was delivered."""
        through = max(self._through[site], self._walked[site])
        is_exact = True
        while through < sequence and (unit := self._here.get((site, through + 1))) is not None:
            if unit.service in WEAK and unit.sequence not in self.delivered[site]:
                if unit.behind <= behind:
                    break
                is_exact = False
            through += 1
            if is_exact:
                self._through[site] = through
        return through >= sequence


class Farewell:
    """``units`` are all that this daemon has not walked, in total order."""

    def __init__(self, union: Union, units: Sequence[Unit], progress: Progress, committed: frozenset[int]) -> None:
        self._union, self._units, self._progress, self._committed = union, units, progress, committed
        self._sites = len(progress.walked)
        self._hole = self._first_hole()
        self._whole: list[set[int]] = [
            set() for _ in range(self._sites)
        ]  # delivered, with all before them in their sessions
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
        walk = LastWalk(self._progress, self._units)
        first = walk.walk(before)
        for unit in before:
            self._pass(unit, delivered=True)
        after = []
        for unit in rest:
            ahead = unit.sequence in walk.delivered[unit.site]
            if not ahead and self._is_bare(unit):
                continue
            delivered = ahead or self._is_deliverable(unit)
            self._pass(unit, delivered=delivered)
            if delivered and not ahead:
                after.append(unit)
        return first, after

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

    def _is_bare(self, unit: Unit) -> bool:
        """Whether it is metadata whose content nobody here has and may be owed."""
        return unit.sequence > self._union.settled[unit.site] and contains(self._bare[unit.site], unit.sequence)

    # --- behind the signal -----------------------------------------------------------------------------------------

    def _first_hole(self) -> int:
        """The least time that a unit can have which exists and which nobody here has; commitments reach beyond it."""
        union = self._union
        holes = [(site, hole) for site in range(self._sites) if (hole := union.hole(site)) is not None]
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
