"""The end of a daemon view at one daemon: what it still has, what it sends again, what is delivered around the signal.

Nothing is delivered until a next view is installed; attempts may follow each other, and all that is here only grows.
With `U` for the union of those who come along (`union`):

- *before the signal*: everything in total order with a time up to U's agreed line, up to the first unit that U does not
  know to be stable and that is SAFE, or AGREED and nobody has its content; and, ahead of their places, all below AGREED
  that a daemon of the view would have delivered by then: at each cut what goes before it, at the end the others;
- *after it*: the rest in total order. RELIABLE always; FIFO if everything before it in its session is delivered; CAUSAL
  if its past is too; AGREED and SAFE if no hole is before them. What a daemon of the commit set sent is always
  delivered. UNRELIABLE ones are gone.

Implements: [Spread 6.1.9, 6.1.10, Figures 6.12 to 6.16]. Deviations, reasons in docs/protocols/recovery.md:
D-before the whole of U's agreed line stands before the signal; D-below the services below AGREED keep their own rules;
D-committed-line a daemon that committed tells how far it will deliver whatever holes turn up; D-hole the time of a hole
is the least that it can have; D-own and D-holding as in `union` and `holding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.farewell import Farewell, Progress
from isotone.evs.ordering.holding import RUNS_MAX, Holding, Run, SiteHolding, coarse, contains, packed, runs_of
from isotone.evs.ordering.union import Union
from isotone.evs.ordering.units import Unit, UnitKind


class Concluded(msgspec.Struct, frozen=True, gc=False):
    """What this daemon has yet to deliver of the view, in order, before and after the transitional signal."""

    before: list[Unit]
    after: list[Unit]


class Recovery:
    """One daemon's view that ended; ``me`` is its index in it, ``lamport`` the highest time that it has seen."""

    def __init__(self, delivery: Delivery, *, me: int, lamport: int = 0, runs_max: int = RUNS_MAX) -> None:
        self.me, self.lamport, self.runs_max = me, lamport, runs_max
        self.agreed, self.stable = delivery.lines.agreed, delivery.lines.stable
        self.committed_line = 0
        streams = delivery.streams
        walked, early = [stream.walked for stream in streams], [frozenset(stream.early) for stream in streams]
        self._progress = Progress(walked, early, delivery.last_agreed, delivery.last_cut)
        self._known = [stream.known for stream in streams]
        self._units = [{unit.sequence: unit for unit in stream.units()} for stream in streams]
        self._settled = [stream.settled(self.agreed) for stream in streams]
        self._union: Union | None = None
        self._lacked: list[list[Run]] = []  # per site, what had yet to come when the attempt began
        self._places: list[list[Run]] = []  # the same of metadata
        self._lacking = 0  # how many of both have yet to come

    # --- the exchange ----------------------------------------------------------------------------------------------

    def holding(self) -> Holding:
        """What is here now, for the others."""
        every = range(len(self._units))
        content = coarse([runs_of(self._sequences_with_content(site)) for site in every], self._settled, self.runs_max)
        metadata = coarse([runs_of(self._sequences_without(site)) for site in every], self._settled, self.runs_max)
        self._forget_unclaimed(content, metadata)
        sites = [
            SiteHolding(self._settled[site], self._known[site], packed(content[site]), packed(metadata[site]))
            for site in every
        ]
        return Holding(self.agreed, self.stable, self.committed_line, self.lamport, tuple(sites))

    def begin(self, holdings: Mapping[int, Holding]) -> list[Unit]:
        """An attempt: what those who come along hold, this daemon among them; what it has to send again."""
        if self.me not in holdings:
            raise LocalProtocolError("an exchange of holdings without one's own")
        union = Union(holdings, sites=len(self._units))
        for holding in holdings.values():
            self._check(holding)
        self._union = union
        self._lacked = [union.lacked_by(self.me, site) for site in range(len(self._units))]
        lacked = sum(last - first + 1 for runs in self._lacked for first, last in runs)
        self._lacking = lacked - len(self._here(self._lacked, pruned=False))
        self._places = [union.metadata_lacked_by(self.me, site) for site in range(len(self._units))]
        places = sum(last - first + 1 for runs in self._places for first, last in runs)
        self._lacking += places - len(self._here(self._places, pruned=True))
        every = range(len(self._units))
        metadata = self._here([union.metadata_resent_by(self.me, site) for site in every], pruned=True)
        return [*self._here([union.resent_by(self.me, site) for site in every], pruned=False), *metadata]

    def take(self, units: Iterable[Unit]) -> None:
        """Units that others sent again, in any order, perhaps before `begin`; what is here already is ignored."""
        for unit in units:
            self._check_unit(unit)
            site, sequence = unit.site, unit.sequence
            if sequence <= self._settled[site] or self._has_content(site, sequence):
                continue
            if unit.kind is UnitKind.PRUNED and sequence in self._units[site]:
                continue
            self._units[site][sequence] = unit
            lacked = self._places if unit.kind is UnitKind.PRUNED else self._lacked
            self._lacking -= self._union is not None and contains(lacked[site], sequence)
            self._known[site] = max(self._known[site], sequence)

    @property
    def is_complete(self) -> bool:
        """Whether everything is here that anybody of this attempt has."""
        return self._union is not None and self._lacking == 0

    def commit(self) -> None:
        """Everything is here: from now on this daemon owes to those who come along what it would deliver with them."""
        union = self._complete()
        farewell = self._farewell(union, frozenset())
        self.committed_line = farewell.clear_through()
        if not farewell.lacks_content:
            self.agreed, self.stable = union.agreed, union.stable
            self._settled = list(map(max, self._settled, union.settled))

    def conclude(self, committed: frozenset[int]) -> Concluded:
        """The next view is installed: what is delivered, given everybody to whom anybody of this attempt committed."""
        return Concluded(*self._farewell(self._complete(), committed | {self.me}).delivered())

    # --- what is here ----------------------------------------------------------------------------------------------

    def _complete(self) -> Union:
        if self._union is None or self._lacking:
            raise LocalProtocolError("the exchange is not complete")
        return self._union

    def _farewell(self, union: Union, committed: frozenset[int]) -> Farewell:
        waiting = [
            unit
            for site, units in enumerate(self._units)
            for unit in units.values()
            if unit.sequence > self._progress.walked[site] and self._counts(union, unit)
        ]
        return Farewell(union, sorted(waiting, key=lambda unit: unit.position), self._progress, committed)

    def _counts(self, union: Union, unit: Unit) -> bool:
        """What all know to be there: content or metadata that somebody claimed, and what is settled at anybody."""
        return contains(union.places[unit.site], unit.sequence) or union.has_content(unit.site, unit.sequence)

    def _has_content(self, site: int, sequence: int) -> bool:
        unit = self._units[site].get(sequence)
        return unit is not None and unit.kind is not UnitKind.PRUNED

    def _sequences_with_content(self, site: int) -> list[int]:
        """What is stable is everywhere: nobody has to know who has it."""
        units = self._units[site].values()
        return sorted(
            each.sequence for each in units if each.kind is not UnitKind.PRUNED and each.lamport > self.stable
        )

    def _sequences_without(self, site: int) -> list[int]:
        units = [unit for unit in self._units[site].values() if unit.kind is UnitKind.PRUNED]
        return sorted(unit.sequence for unit in units if unit.sequence > self._settled[site])

    def _forget_unclaimed(self, content: Sequence[Sequence[Run]], metadata: Sequence[Sequence[Run]]) -> None:
        """Where runs were left out: nobody will ask for what was in them, and the place of what is settled stays."""
        if max(sum(map(len, content)), sum(map(len, metadata))) < self.runs_max:
            return
        for site, units in enumerate(self._units):
            for sequence, unit in list(units.items()):
                is_pruned = unit.kind is UnitKind.PRUNED
                if unit.lamport <= self.stable or contains((metadata if is_pruned else content)[site], sequence):
                    continue
                if sequence > self._settled[site]:
                    del units[sequence]
                elif not is_pruned:
                    units[sequence] = unit.pruned()

    def _here(self, runs_of_sites: Sequence[Sequence[Run]], *, pruned: bool) -> list[Unit]:
        """The units of these runs that are here; a run that somebody made up may be longer than any list."""
        return [
            unit
            for site, runs in enumerate(runs_of_sites)
            if runs
            for sequence, unit in sorted(self._units[site].items())
            if (unit.kind is UnitKind.PRUNED) is pruned and contains(runs, sequence)
        ]

    def _check(self, holding: Holding) -> None:
        """A line says of what is here whether it is settled there."""
        for units, site in zip(self._units, holding.sites):
            last, following = units.get(site.settled), units.get(site.settled + 1)
            if last is not None and last.lamport > holding.agreed_line:
                raise RemoteProtocolError("a holding that is settled above its line")
            if following is not None and following.lamport <= holding.agreed_line:
                raise RemoteProtocolError("a holding that is not settled below its line")

    def _check_unit(self, unit: Unit) -> None:
        if unit.site >= len(self._units) or unit.service is Service.UNRELIABLE:
            raise RemoteProtocolError("a unit that nobody sends again")
        known = self._units[unit.site].get(unit.sequence)
        if known is not None and (known.position, known.service) != (unit.position, unit.service):
            raise RemoteProtocolError("a unit that is not the one that was here")
