"""A source that prunes, and crashes: who survives must not have passed what another survivor is owed and lacks.

Each site is one daemon, with the classes that the daemon runs: `Delivery` with its lines, the source's `Pruner`, and at
the end `Recovery`. Frames with units and content are under way in no order; what sites tell of their lines is told to
all at any moment, or never. In every state the view may end: all that is under way is lost, the source is gone, with it
the other site that has the content, and the two others recover.

Reference: [Spread 3.4.2, 6.1.10]; D-clear, D-stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.pruning import Pruner
from isotone.evs.ordering.recovery import Recovery
from isotone.evs.ordering.units import Unit, UnitKind

SOURCE, BYSTANDER, OWED, HOLDER = range(4)
JOIN = b"join"
Heard = tuple[object, ...]
Frame = tuple[int, str, Unit]  # for whom, "unit" or "content", what


@dataclass
class Site:
    """One daemon, from all that it heard."""

    index: int
    delivery: Delivery
    pruner: Pruner
    members: int  # the sites with members of the group, as far as is known here
    clock: int = 0
    sent: int = 0
    delivered: list[Unit] = field(default_factory=list)
    leaving: list[Frame] = field(default_factory=list)  # because of what was heard last

    def hear(self, heard: Heard) -> None:
        self.leaving = []
        match heard:
            case ("send", bytes() as body):
                self._send(body)
            case ("unit", Unit() as unit):
                self._seen(unit)
                self.delivered += self.delivery.take([unit])
            case ("content", Unit() as unit):
                self._seen(unit)
                self.delivered += self.delivery.fill(unit)
            case ("told", int() as site, int() as sequence, int() as clock, int() as line):
                self.clock = max(self.clock, clock)
                self.delivery.lines.sites[site].promise(sequence, clock)
                self.delivery.lines.report(site, line)
            case ("cleared", int() as site, int() as lamport, tuple() as owed):
                mine = [sequence for sequence, mask in owed if mask >> self.index & 1]
                self.delivery.lines.sites[site].clear(lamport, mine)
        self._rest()

    def _rest(self) -> None:
        lines = self.delivery.lines
        lines.sites[self.index].promise(self.sent, self.clock)
        lines.report(self.index, lines.agreed)
        self.delivered += self.delivery.lines_moved()
        self.pruner.stable_through(lines.stable)

    def _seen(self, unit: Unit) -> None:
        self.clock = max(self.clock, unit.lamport)
        if bytes(unit.body) == JOIN:
            self.members |= 1 << unit.site
            late = self.pruner.joined(unit.site, "g") if self.index == SOURCE else []
            self.leaving += [(unit.site, "content", each) for each in late]

    def _send(self, body: bytes) -> None:
        self.sent, self.clock = self.sent + 1, self.clock + 1
        unit = Unit(UnitKind.BUNDLE, Service.AGREED, self.index, self.index, self.sent, self.clock, 0, body)
        every = (1 << len(self.delivery.streams)) - 1
        mask = self.members | 1 << self.index if self.index == SOURCE else every
        if mask != every:
            self.pruner.pruned(unit, ("g",), mask)
        for other in range(len(self.delivery.streams)):
            if other != self.index:
                self.leaving.append((other, "unit", unit if mask >> other & 1 else unit.pruned()))
        self.delivered += self.delivery.take([unit])

    def tells(self) -> tuple[int, int, int]:
        return self.sent, self.clock, self.delivery.lines.agreed

    def summary(self) -> tuple[object, ...]:
        lines = [
            (line.contiguous, line.heard, line.line, line.received_everywhere, line._cleared, tuple(line._owed))
            for line in self.delivery.lines.sites
        ]
        units = [sorted((u.sequence, u.kind) for u in stream.units()) for stream in self.delivery.streams]
        return (lines, units, [stream.walked for stream in self.delivery.streams], self.clock, self.members)


@dataclass(frozen=True)
class State:
    logs: tuple[tuple[Heard, ...], ...]
    under_way: frozenset[Frame] = frozenset()


class PruningCrash:
    """``late``: the owed site joins while the source sends; ``holder``: another site got the content, and crashes."""

    def __init__(self, *, late: bool, holder: bool, sends: int = 1) -> None:
        self.late, self.count, self.sends = late, 3 + holder, sends
        self.members = (0 if late else 1 << OWED) | (1 << HOLDER if holder else 0)
        self.site = lru_cache(maxsize=None)(self._site)

    def _site(self, index: int, log: tuple[Heard, ...]) -> Site:
        site = Site(index, Delivery(Lines.of(self.count)), Pruner(index), self.members)
        for heard in log:
            site.hear(heard)
        return site

    def sites(self, state: State) -> list[Site]:
        return [self.site(index, log) for index, log in enumerate(state.logs)]

    def initial(self) -> Iterable[State]:
        return [State(((),) * self.count)]

    def identity(self, state: State) -> bytes:
        under_way = sorted((to, kind, unit.site, unit.sequence, unit.lamport) for to, kind, unit in state.under_way)
        return repr((under_way, [site.summary() for site in self.sites(state)])).encode()

    def may_end(self, state: State) -> bool:
        return self.problem(state) is None

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        sites = self.sites(state)
        if sites[SOURCE].sent < self.sends:
            yield "source sends", self._hear(state, SOURCE, ("send", b"u"))
        if not sites[BYSTANDER].sent:
            yield "bystander sends", self._hear(state, BYSTANDER, ("send", b"v"))
        if self.late and not sites[OWED].sent:
            yield "join", self._hear(state, OWED, ("send", JOIN))
        for frame in sorted(state.under_way, key=repr):
            to, kind, unit = frame
            after = State(state.logs, state.under_way - {frame})
            yield f"{to} gets {kind} {unit.site}:{unit.sequence}", self._hear(after, to, (kind, unit))
        for site in sites:
            yield from self._told(state, site, sites)
        yield from self._cleared(state, sites)

    def _told(self, state: State, site: Site, sites: list[Site]) -> Iterable[tuple[str, State]]:
        """All others hear it: what is lost with a view is only that some did not."""
        sequence, clock, line = site.tells()
        others = [other for other in sites if other is not site]
        known = [other.delivery.lines.sites[site.index] for other in others]
        if any(each.heard < clock or each.received_everywhere < line for each in known):
            after = state
            for other in others:
                after = self._hear(after, other.index, ("told", site.index, sequence, clock, line))
            yield f"{site.index} tells its lines", after

    def _cleared(self, state: State, sites: list[Site]) -> Iterable[tuple[str, State]]:
        source = sites[SOURCE]
        line, sequences = source.pruner._named(source.delivery.lines.heard)
        owed = tuple((each, source.pruner._owed[each]) for each in sequences)
        for other in sites[1:]:
            if other.delivery.lines.sites[SOURCE]._cleared < line:
                yield f"{other.index} is cleared", self._hear(state, other.index, ("cleared", SOURCE, line, owed))

    def _hear(self, state: State, index: int, heard: Heard) -> State:
        log = (*state.logs[index], heard)
        logs = (*state.logs[:index], log, *state.logs[index + 1 :])
        return State(logs, state.under_way | set(self.site(index, log).leaving))

    # --- the view ends ---------------------------------------------------------------------------------------------

    def problem(self, state: State) -> str | None:
        sites = self.sites(state)
        survivors = [sites[BYSTANDER], sites[OWED]]
        recoveries = [Recovery(site.delivery, me=site.index, lamport=site.clock) for site in survivors]
        holdings = {each.me: each.holding() for each in recoveries}
        sent = [unit for each in recoveries for unit in each.begin(holdings)]
        for each in recoveries:
            each.take(sent)
            if not each.is_complete:
                return f"{each.me} waits for ever"
            each.commit()
        ends = [each.conclude(frozenset(holdings)) for each in recoveries]
        for_both = [
            {unit.position for unit in (*site.delivered, *end.before) if bytes(unit.body) in (b"v", JOIN)}
            for site, end in zip(survivors, ends)
        ]
        if for_both[0] != for_both[1]:
            return "the signal stands at different places"
        concluded = ends[1]
        before = [*sites[OWED].delivered, *concluded.before]
        whole = [unit for unit in (*before, *concluded.after) if unit.kind is not UnitKind.PRUNED]
        elsewhere = [unit for site in sites for unit in site.delivered if bytes(unit.body) == b"u"]
        joined = [unit.position for unit in whole if bytes(unit.body) == JOIN]
        if self.late and not joined:
            return None
        for lost in elsewhere:
            owed = not self.late or lost.position > joined[0]
            later = [unit for unit in before if unit.kind is not UnitKind.PRUNED and unit.position > lost.position]
            if owed and later and lost not in whole:
                return f"message {lost.sequence} was delivered elsewhere, and here only a later one before the signal"
        return None
