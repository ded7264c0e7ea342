"""Views that end anywhere, parted at random, with attempts that break: every property of EVS-S about their end holds.

Each check is shown to catch a version of the recovery that breaks it, and the fast rules are compared with dumb ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.farewell import Farewell, LastWalk, Progress
from isotone.evs.ordering.holding import Holding
from isotone.evs.ordering.lines import SiteLine
from isotone.evs.ordering.recovery import Concluded, Recovery
from isotone.evs.ordering.stamper import Stamper
from isotone.evs.ordering.union import Union
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit, UnitKind
from tests.evs.ordering.ended_view import Attempt, Id, Member, World, cascaded, frozen, grown, id_of, recovery_of
from tests.evs.ordering.ended_view_checks import violations

SEEDS = 200
SEARCHED = 400


@pytest.mark.parametrize("prunes", [False, True])
def test_every_property_holds_at_the_end_of_a_view(prunes: bool) -> None:
    """Reference: [Spread 6.2, Theorems 6.6 to 6.14]."""
    for seed in range(SEEDS):
        assert not violations(grown(seed, prunes=prunes)), f"seed {seed}"
        assert not violations(cascaded(seed, prunes=prunes)), f"seed {seed}, cascaded"


def test_the_views_are_hard_enough() -> None:
    """Holes, missing content, units on both sides of the signal, commitments that outlive an attempt: all occur."""
    seen: Counter[str] = Counter()
    for seed in range(100):
        world = grown(seed, prunes=True)
        for member in world.members:
            recovery = recovery_of(member)
            union = recovery._union
            assert union is not None
            seen["hole"] += any(union.hole(site) for site in range(len(world.sites)))
            seen["lost"] += any(
                unit.kind is UnitKind.PRUNED and union.stable < unit.lamport <= union.agreed
                for units in recovery._units
                for unit in units.values()
                if not union.has_content(unit.site, unit.sequence)
            )
            seen["before"] += len(recovery.conclude(member.committed).before)
            seen["after"] += len(member.log) - member.before
            seen["outlived"] += bool(member.committed - member.together)
    assert all(seen[each] > 20 for each in ("hole", "lost", "before", "after", "outlived")), seen


# --- each check catches something ------------------------------------------------------------------------------------


def without_commit_set(monkeypatch: pytest.MonkeyPatch) -> None:
    conclude = Recovery.conclude
    monkeypatch.setattr(Recovery, "conclude", lambda self, committed: conclude(self, frozenset()))


def commit_set_of_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    conclude = Recovery.conclude

    def forgetting(self: Recovery, committed: frozenset[int]) -> Concluded:
        assert self._union is not None
        return conclude(self, committed & frozenset(self._union.holdings))

    monkeypatch.setattr(Recovery, "conclude", forgetting)


def without_even_oneself(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Farewell.__init__

    def nobody(
        self: Farewell, union: Union, units: Sequence[Unit], progress: Progress, committed: frozenset[int]
    ) -> None:
        del committed
        init(self, union, units, progress, frozenset())

    monkeypatch.setattr(Farewell, "__init__", nobody)


def change_union(monkeypatch: pytest.MonkeyPatch, change: Callable[[Union], None]) -> None:
    init = Union.__init__

    def changed(self: Union, holdings: Mapping[int, Holding], *, sites: int) -> None:
        init(self, holdings, sites=sites)
        change(self)

    monkeypatch.setattr(Union, "__init__", changed)


def safe_on_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(union: Union) -> None:
        union.stable = union.agreed

    change_union(monkeypatch, change)


def a_foreign_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(union: Union) -> None:
        union.agreed += 4096

    change_union(monkeypatch, change)


def lines_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parts before and after by its own lines."""

    def parted(self: Farewell) -> tuple[Sequence[Unit], Sequence[Unit]]:
        return [], self._units

    monkeypatch.setattr(Farewell, "_parted", parted)


def no_commitment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recovery, "commit", lambda self: None)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    init = LastWalk.__init__

    def without_early(self: LastWalk, progress: Progress, units: Sequence[Unit]) -> None:
        init(self, msgspec.structs.replace(progress, early=[frozenset() for _ in progress.early]), units)

    monkeypatch.setattr(LastWalk, "__init__", without_early)


def sorted_otherwise(key: Callable[[Unit], tuple[int, ...]]) -> Callable[[pytest.MonkeyPatch], None]:
    def change(monkeypatch: pytest.MonkeyPatch) -> None:
        init = Farewell.__init__

        def unsorted(
            self: Farewell,
            union: Union,
            units: Sequence[Unit],
            progress: Progress,
            committed: frozenset[int],
        ) -> None:
            init(self, union, units, progress, committed)
            self._units = sorted(units, key=key)

        monkeypatch.setattr(Farewell, "__init__", unsorted)

    return change


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Recovery.begin

    def hasty(self: Recovery, holdings: Mapping[int, Holding]) -> list[Unit]:
        sent = begin(self, holdings)
        self._lacking = 0
        return sent

    def ignored(self: Recovery, units: Sequence[Unit]) -> None:
        del units

    monkeypatch.setattr(Recovery, "begin", hasty)
    monkeypatch.setattr(Recovery, "take", ignored)


def forged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that were sent again come with other bodies."""
    take = Recovery.take

    def altered(self: Recovery, units: Sequence[Unit]) -> None:
        take(self, [msgspec.structs.replace(each, body=b"y") for each in units])

    monkeypatch.setattr(Recovery, "take", altered)


def cut_on_reports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut is passed when everybody has received it, whatever has not come of what they had stamped before."""
    report = SiteLine.report
    monkeypatch.setattr(SiteLine, "report", lambda self, sequence, line: report(self, 0, line))


def behind_no_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stamper, "_last_cut", lambda self: BEFORE_ALL)


def behind_what_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stamper, "_last_cut", lambda self: self.delivery.last_cut)


def not_held_behind_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    try_early = Delivery._try_early

    def hasty(self: Delivery, unit: Unit, out: list[Unit]) -> None:
        last, self.last_cut = self.last_cut, (1 << 62, 0)
        try_early(self, unit, out)
        self.last_cut = last

    monkeypatch.setattr(Delivery, "_try_early", hasty)


def causal_after_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for its past is looked at when the walk rests, and not at each cut."""
    walk, retry = Delivery._walk, Delivery._retry_causal

    def walking(self: Delivery, out: list[Unit]) -> None:
        self._retry_causal = lambda out: None  # type: ignore[method-assign]
        walk(self, out)
        del self._retry_causal
        retry(self, out)

    monkeypatch.setattr(Delivery, "_walk", walking)


def nothing_ahead_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastWalk, "_go_ahead", lambda self, out: None)


def ahead_of_any_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go = LastWalk._may_go_ahead

    def hasty(self: LastWalk, unit: Unit) -> bool:
        return may_go(self, msgspec.structs.replace(unit, behind=BEFORE_ALL))

    monkeypatch.setattr(LastWalk, "_may_go_ahead", hasty)


CUT = "2.18 one side of a cut"
BROKEN = [
    (cut_on_reports_alone, CUT),
    (behind_no_cut, CUT),
    (behind_what_is_delivered, CUT),
    (not_held_behind_a_cut, CUT),
    (causal_after_the_cut, CUT),
    (nothing_ahead_at_the_end, CUT),
    (ahead_of_any_cut, CUT),
    (without_commit_set, "2.7 virtual synchrony"),
    (without_commit_set, "2.13.4 no holes of one's own after it"),
    (commit_set_of_one_attempt, "2.14.3 safe after the signal"),
    (without_even_oneself, "2.15 self delivery"),
    (safe_on_agreed, "2.14.2 safe before the signal"),
    (a_foreign_line, "2.13.3 no holes before the signal"),
    (lines_of_ones_own, "2.8.2 signals together"),
    (no_commitment, "2.14.3 safe after the signal"),
    (forgetful, "2.5 duplication"),
    (sorted_otherwise(lambda unit: (unit.site, unit.sequence)), "2.13.2 agreed order"),
    (sorted_otherwise(lambda unit: (unit.site, unit.sequence)), "2.12.2 causal"),
    (sorted_otherwise(lambda unit: (-unit.lamport,)), "2.11.2 FIFO"),
    (impatient, "2.7 virtual synchrony"),
    (forged, "2.6 integrity"),
]


@pytest.mark.parametrize(("change", "name"), BROKEN)
def test_a_broken_recovery_is_caught(
    change: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    assert any(name in found(seed) for seed in range(SEARCHED))


def found(seed: int) -> set[str]:
    """A broken daemon may also tell what others refuse."""
    try:
        return violations(grown(seed)) | violations(cascaded(seed))
    except RemoteProtocolError:
        return set()


# --- the dumb version ------------------------------------------------------------------------------------------------


@dataclass
class Dumb:
    """One daemon's state as sets, with the truth about all units at hand."""

    world: World
    content: dict[Id, Unit]
    known: list[int]
    delivered: set[Id]
    agreed: int
    stable: int
    committed_line: int = 0

    def copy(self) -> Dumb:
        return Dumb(
            self.world, dict(self.content), self.known, self.delivered, self.agreed, self.stable, self.committed_line
        )


@dataclass
class DumbUnion:
    """The rules, as they are written, on everything that those who come along have."""

    told: list[Dumb]
    committed: frozenset[int]
    units: dict[Id, Unit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = self.told[0].world
        self.agreed = max(each.agreed for each in self.told)
        self.stable = max(each.stable for each in self.told)
        for each in self.told:
            self.units.update(each.content)
        self.hole = min((self.time_of(*each) for each in self.holes()), default=None)

    def holes(self) -> list[Id]:
        known = [
            (site, sequence)
            for each in self.told
            for site, last in enumerate(each.known)
            for sequence in range(1, last + 1)
        ]
        return [each for each in known if each not in self.units and not self.is_below(each)]

    def is_below(self, each: Id) -> bool:
        return self.world.units[each].lamport <= self.agreed

    def time_of(self, site: int, sequence: int) -> int:
        """At the first hole of a site, the unit before it is known to all."""
        committed = max(each.committed_line for each in self.told)
        before = self.world.units[site, sequence - 1].lamport if sequence > 1 else 0
        return 1 + max(self.agreed, committed, before)

    def is_before(self, unit: Unit) -> bool:
        stops: list[Position] = [
            each.position for each in self.units.values() if each.service is Service.SAFE and each.lamport > self.stable
        ]
        return unit.lamport <= self.agreed and all(unit.position < stop for stop in stops)

    def is_delivered(self, unit: Unit) -> bool:
        if self.is_below(id_of(unit)) or unit.service is Service.RELIABLE or unit.daemon in self.committed:
            return True
        if unit.service.is_agreed:
            return self.hole is None or unit.lamport < self.hole
        return self.session_is_delivered(unit) and (unit.service is Service.FIFO or self.past_is_delivered(unit))

    def session_is_delivered(self, unit: Unit) -> bool:
        names = self.world.session
        earlier = [
            other
            for me, other in self.world.units.items()
            if names[me] == names[id_of(unit)] and other.sequence < unit.sequence
        ]
        return all(self.is_there(other) for other in earlier)

    def past_is_delivered(self, unit: Unit) -> bool:
        weak = [
            other
            for (site, sequence), other in self.world.units.items()
            if sequence <= unit.weak_before[site] and not other.service.is_agreed
        ]
        holes = [(site, sequence) for site, sequence in self.holes() if sequence <= unit.weak_before[site]]
        agreed = self.hole is None or unit.agreed_before[0] < self.hole
        return agreed and not holes and all(self.is_there(other) for other in weak)

    def is_there(self, unit: Unit) -> bool:
        return self.is_below(id_of(unit)) or (id_of(unit) in self.units and self.is_delivered(unit))

    def walked(self) -> list[Unit]:
        """All that is delivered before the signal, from the beginning of the view."""
        below = [unit for me, unit in self.world.units.items() if self.is_below(me)]
        done: list[Unit] = []
        for unit in sorted(below, key=lambda unit: unit.position):
            if not self.is_before(unit):
                break
            if unit.is_cut:
                self.go_ahead(done)
            if unit not in done:
                done.append(unit)
        self.go_ahead(done)
        return done

    def go_ahead(self, done: list[Unit]) -> None:
        cut = max([unit.position for unit in done if unit.is_cut], default=BEFORE_ALL)
        agreed = max([unit.position for unit in done if unit.service.is_agreed], default=BEFORE_ALL)
        known = {**self.units, **{me: unit for me, unit in self.world.units.items() if self.is_below(me)}}
        names = self.world.session
        for me, unit in sorted(known.items(), key=lambda each: each[1].position):
            if unit in done or unit.service.is_agreed or unit.behind > cut:
                continue
            session = [each for each in self.world.units if names[each] == names[me] and each[1] < me[1]]
            past = [
                each
                for each in self.world.units
                if each[1] <= unit.weak_before[each[0]]
                and (each not in known or not self.world.units[each].service.is_agreed)
                and (each not in known or self.world.units[each].behind <= unit.behind)
            ]
            if unit.service.is_fifo and not all(self.world.units[each] in done for each in session):
                continue
            if unit.service.is_causal and not all(self.world.units[each] in done for each in past):
                continue
            if not unit.service.is_causal or unit.agreed_before <= agreed:
                done.append(unit)

    def concluded(self, mine: Dumb) -> Concluded:
        walked = self.walked()
        rest = sorted([unit for unit in self.units.values() if unit not in walked], key=lambda unit: unit.position)
        new = [unit for unit in walked if id_of(unit) in self.units and id_of(unit) not in mine.delivered]
        return Concluded(new, [unit for unit in rest if self.is_delivered(unit)])


@dataclass
class Doubled(Attempt):
    """Every attempt is done twice."""

    doubles: dict[int, Dumb] = field(default_factory=dict)
    told: dict[int, Dumb] = field(default_factory=dict)

    def begin(self, member: Member, holdings: dict[int, Holding]) -> list[Unit]:
        self.told[member.index] = self.doubles[member.index].copy()
        return super().begin(member, holdings)

    def exchange(self, member: Member, sent: list[Unit]) -> None:
        super().exchange(member, sent)
        mine = self.doubles[member.index]
        for each, unit in self.world.units.items():
            if recovery_of(member)._has_content(*each):
                mine.content[each] = unit
        mine.known = list(recovery_of(member)._known)

    def commit(self, member: Member) -> None:
        super().commit(member)
        mine, union = self.doubles[member.index], DumbUnion(list(self.told.values()), frozenset())
        top = max((unit.lamport for unit in union.units.values()), default=0)
        top = max(top, union.agreed, *(each.committed_line for each in self.told.values()))
        mine.agreed, mine.stable = union.agreed, union.stable
        mine.committed_line = top if union.hole is None else union.hole - 1

    def install(self, member: Member, commits: frozenset[int]) -> None:
        union = DumbUnion(list(self.told.values()), commits)
        concluded = recovery_of(member).conclude(commits)
        dumb = union.concluded(self.doubles[member.index])
        assert [id_of(unit) for unit in concluded.before] == [id_of(unit) for unit in dumb.before]
        assert [id_of(unit) for unit in concluded.after] == [id_of(unit) for unit in dumb.after]
        super().install(member, commits)


def double_of(world: World, member: Member) -> Dumb:
    lines = member.delivery.lines
    units = [unit for stream in member.delivery.streams for unit in stream.units()]
    known = [stream.known for stream in member.delivery.streams]
    content = {id_of(unit): unit for unit in units}
    return Dumb(world, content, known, set(member.ids), lines.agreed, lines.stable)


def test_a_dumb_version_says_the_same() -> None:
    for seed in range(150):
        world = frozen(f"dumb/{seed}", steps=60)
        doubles = {member.index: double_of(world, member) for member in world.members}
        world.attempt = partial(Doubled, doubles=doubles)
        world.recover(world.choice.between(1, 3))
        assert not violations(world)
