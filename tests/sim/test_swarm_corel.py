"""The swarm over COReL on the oracle: no property is broken, every one and every quorum rule is exercised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import get_args

import pytest

from isotone.core.contract import Action, Write
from isotone.core.errors import LocalProtocolError
from isotone.corel.learning import PARCELS_ASKED, Learner
from isotone.corel.ledger import Ledger
from isotone.corel.promises import is_contradicted
from isotone.corel.quorum import Rule, is_dynamic
from isotone.corel.recover import forced_record
from isotone.corel.snapshot import PIECE_BYTES_MAX
from isotone.corel.wire import State
from isotone.sim import corel_raid
from isotone.sim.corel_alone import BOUND
from isotone.sim.corel_node import RuleStep
from isotone.sim.corel_servers import Servers
from isotone.sim.corel_terms import Terms, draw_terms
from isotone.sim.plan import Size, encode_plan
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, play_plan, run_plan
from isotone.sim.swarm import run_swarm
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import Report, check
from isotone.spec.corel_properties import corel_labels
from isotone.trace.corel import DiskLost, Fenced, OrderDue, Reconfigured, ReplicaStarted, StateInstalled
from isotone.trace.events import Row
from tests.spec.naive_corel.judge import disagreements

SMALL = Setting(system="corel", stack="oracle", size=Size.SMALL)
STANDARD = Setting(system="corel", stack="oracle")
SEEDS_SMALL = range(1, 41)
SEEDS_STANDARD = range(1, 21)
SEEDS_ALONE = range(1, 121)

FULL_SMALL = Setting(system="corel", stack="full", size=Size.SMALL)
FULL_STANDARD = Setting(system="corel", stack="full")
SEEDS_FULL_SMALL = range(1, 53)
SEEDS_FULL_STANDARD = range(3, 11)

RUNS = {
    "oracle": ((SMALL, SEEDS_SMALL), (STANDARD, SEEDS_STANDARD)),
    "full": ((FULL_SMALL, SEEDS_FULL_SMALL), (FULL_STANDARD, SEEDS_FULL_STANDARD)),
}
"""60 of each stack."""


KEPT = (DiskLost, Fenced, OrderDue, Reconfigured, ReplicaStarted, StateInstalled)
"""Entries of a run that tests look at."""


@pytest.fixture(autouse=True, scope="module")
def both_checkers() -> Iterator[None]:
    """Every run here is judged by the dumb checkers too; a run on which they disagree is broken."""

    def check_both(rows: list[Row]) -> Report:
        assert (found := disagreements(rows)) == {}, found
        return check(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isotone.sim.run.check", check_both)
        yield


@dataclass
class Played:
    """One run: its verdicts, and what happened in it."""

    result: RunResult
    rows: list[Row] = field(default_factory=list)  # the kept entries only
    copied: set[str] = field(default_factory=set)  # servers whose disk was set back to an older copy
    accused: set[str] = field(default_factory=set)  # servers that another one found to have been set back
    refused: list[str] = field(default_factory=list)  # why survivors could not force a primary


@cache
def played(setting: Setting, seed: int) -> Played:
    """A run is played and judged once, whoever looks at it."""
    rows: list[Row] = []
    copied: set[str] = set()
    accused: set[str] = set()
    refused: list[str] = []

    def keep(row: Row) -> None:
        if isinstance(row.entry, KEPT):
            rows.append(row)

    def contradicted(state: State, witness: State) -> bool:
        found = is_contradicted(state, witness)
        accused.update({state.server} if found else set())
        return found

    def lose(servers: Servers, name: str, back_us: int, copy: Sequence[Write] = ()) -> None:
        copied.update({name} if copy else set())
        lose_disk(servers, name, back_us, copy)

    def forced_or_refused(ledgers: dict[str, Ledger], survivors: tuple[str, ...]) -> bytes:
        try:
            return forced_record(ledgers, survivors)
        except LocalProtocolError as error:
            refused.append(str(error))
            raise

    lose_disk = Servers._lose_disk
    system = system_named("corel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isotone.corel.rounds.is_contradicted", contradicted)
        patch.setattr(Servers, "_lose_disk", lose)
        patch.setattr(corel_raid, "forced_record", forced_or_refused)
        result = run_plan(system, draw_plan(system, setting, seed), sink=keep)
    return Played(result, rows, copied, accused, refused)


@cache
def results() -> tuple[RunResult, ...]:
    """60 seeds on the oracle."""
    return tuple(played(setting, seed).result for setting, seeds in RUNS["oracle"] for seed in seeds)


@cache
def full_results() -> tuple[RunResult, ...]:
    """60 seeds on our own daemons."""
    return tuple(played(setting, seed).result for setting, seeds in RUNS["full"] for seed in seeds)


def test_no_property_is_broken() -> None:
    broken = {result.seed: result.violations for result in results() if result.violations}
    assert not broken


def test_no_property_is_broken_where_whoever_lacks_anything_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs have a server that is far behind; here one message is far enough to fetch it ahead."""
    for module in ("rounds", "learning"):
        monkeypatch.setattr(f"isotone.corel.{module}.LAG_MAX", 0)
    begun: Counter[bool] = Counter()
    begin = Learner.begin

    def counted(learner: Learner, *, ahead: tuple[str, ...] = ()) -> list[Action]:
        begun[bool(ahead)] += 1
        return begin(learner, ahead=ahead)

    monkeypatch.setattr(Learner, "begin", counted)
    found = [*run_swarm(SMALL, range(1, 21), workers=1), *run_swarm(STANDARD, range(1, 11), workers=1)]
    assert not {result.seed: result.violations for result in found if result.violations}
    assert begun[True] > 30


def test_no_property_is_broken_on_our_own_daemons() -> None:
    broken = {result.seed: result.violations for result in full_results() if result.violations}
    assert not broken


@pytest.mark.parametrize(("stack", "seed"), [("oracle", 85), ("oracle", 420), ("full", 146), ("full", 935)])
def test_seeds_that_have_found_something(stack: str, seed: int) -> None:
    """Learners: one that knew as little as the one that it asked; one that knew of a proposal and did not say so.

    And ones that were removed: one had said good-bye, and then others forced a primary without it; one never said it.
    """
    system = system_named("corel")
    assert run_plan(system, draw_plan(system, Setting(system="corel", stack=stack), seed)).violations == ()


def test_every_property_is_exercised() -> None:
    for ran in (results(), full_results()):
        for label in corel_labels():
            assert any(result.verdicts[label] == "holds" for result in ran), label


def terms(setting: Setting, seeds: range) -> list[Terms]:
    system = system_named("corel")
    return [draw_terms(seed, draw_plan(system, setting, seed).topology.names, setting.stack) for seed in seeds]


@pytest.mark.parametrize("stack", ["oracle", "full"])
def test_everything_is_drawn(stack: str) -> None:
    """Every quorum rule; learners, snapshots, order proposals, pairs that meet, a disk without room."""
    drawn = [each for setting, seeds in RUNS[stack] for each in terms(setting, seeds)]
    assert {type(each.quorum) for each in drawn} == set(get_args(Rule))
    assert {each.proposals for each in drawn} == {each.gossip for each in drawn} == {True, False}
    assert {bool(each.full_disk) for each in drawn} == {bool(each.snapshot_every) for each in drawn} == {True, False}
    assert {each.hanging for each in drawn} == {True, False}
    assert {each.sniper for each in drawn} == ({True, False} if stack == "oracle" else {False})
    assert {each.raid for each in drawn} == ({True, False} if stack == "oracle" else {False})
    assert stack != "oracle" or max(each.snapshot_bytes for each in drawn) > PIECE_BYTES_MAX * PARCELS_ASKED


def test_growth_and_proposals_are_no_rarity_on_our_own_daemons() -> None:
    held = Counter(label for result in full_results() for label in corel_labels() if result.verdicts[label] == "holds")
    assert held["COR-CONFIGURATION"] >= 10 and held["COR-PROPOSAL"] >= 3


def test_servers_are_added_and_removed() -> None:
    rows = [row for seed in SEEDS_SMALL for row in played(SMALL, seed).rows]
    sizes = Counter(len(row.entry.servers) for row in rows if isinstance(row.entry, Reconfigured))
    installed = [row for row in rows if isinstance(row.entry, StateInstalled)]
    assert len(sizes) > 2 and installed


def test_a_quorum_is_lost_and_others_come_behind_the_fence() -> None:
    """In the runs that draw it: survivors come back behind a fence, the others before it, and newcomers learn it."""
    system = system_named("corel")
    rows: list[Row] = []
    for seed in range(1, 61):
        plan = draw_plan(system, STANDARD, seed)
        if draw_terms(seed, plan.topology.names).raid:
            rows += played(STANDARD, seed).rows
    started = [row.entry for row in rows if isinstance(row.entry, ReplicaStarted)]
    assert {entry.fence for entry in started} == {0, 1}
    assert any(isinstance(row.entry, Fenced) for row in rows)
    grown = [row.entry for row in rows if isinstance(row.entry, Reconfigured)]
    survivors = {entry.server for entry in started if entry.fence}
    assert any(set(entry.servers) & survivors and len(entry.servers) > 1 for entry in grown)


def test_a_stranger_is_offered_as_a_survivor_and_refused() -> None:
    runs = [played(STANDARD, seed) for seed in (62, 97, 101, 116, 130)]
    assert not {run.result.seed for run in runs if run.result.violations}
    assert any(run.refused for run in runs)


def test_disks_are_lost_before_a_raid_and_behind_it() -> None:
    """Under every kind of rule; whoever goes on is none of those, and nothing else is lost than what was shown."""
    system = system_named("corel")
    before: set[str] = set()
    behind: set[str] = set()
    rules = set()
    for seed in range(1, 131):
        plan = draw_plan(system, STANDARD, seed)
        drawn = draw_terms(seed, plan.topology.names)
        if not (drawn.raid and drawn.lost):
            continue
        run = played(STANDARD, seed)
        assert run.result.violations == ()
        forced = [row for row in run.rows if isinstance(row.entry, ReplicaStarted) and row.entry.fence]
        assert forced and not {row.node for row in forced} & {*drawn.lost}
        struck = min(row.at for row in forced)
        lost = {row.node: row.at for row in run.rows if isinstance(row.entry, DiskLost)}
        assert lost.keys() == {*drawn.lost}
        before |= {f"{seed}/{node}" for node, at in lost.items() if at < struck}
        behind |= {f"{seed}/{node}" for node, at in lost.items() if at > struck}
        rules.add(is_dynamic(drawn.quorum))
    assert len(before) >= 3 and len(behind) >= 3 and rules == {True, False}


def test_disks_are_set_back_and_whoever_knows_better_notices() -> None:
    """And nobody is accused whose disk was not: in all these runs only those that were set back, or never."""
    runs = [played(SMALL, seed) for seed in range(1, 161)]  # 131: a configuration that was void behind the fence
    assert not {run.result.seed for run in runs if run.result.violations or not run.accused <= run.copied}
    assert sum(len(run.accused) for run in runs) >= 3


def test_a_quorum_alone_orders_within_the_bound() -> None:
    """Under every rule that lets somebody be left out; on both stacks."""
    system = system_named("corel")
    for ran in (results(), full_results()):
        alone = [result for result in ran if BOUND in result.bounds]
        assert len(alone) >= 6 and max(result.bounds[BOUND] for result in alone) <= 1
        assert all(result.verdicts["COR-LIVE"] == "holds" for result in alone)
    rules = set()
    for seed in SEEDS_ALONE:
        plan = draw_plan(system, SMALL, seed)
        due = {row.node: row.entry.servers for row in played(SMALL, seed).rows if isinstance(row.entry, OrderDue)}
        assert all({*servers} == due.keys() < {*plan.topology.names} for servers in due.values())
        if due:
            rules.add(type(draw_terms(seed, plan.topology.names).quorum))
    assert rules == set(get_args(Rule))


def test_all_are_live_within_the_bound() -> None:
    """Each within its own bound, and all within a minute."""
    assert max(result.bounds["live"] for result in (*results(), *full_results())) <= 1
    system = system_named("corel")
    runs = [(setting, seed) for each in RUNS.values() for setting, seeds in each for seed in seeds]
    took = {run: played(*run).result.bounds["live"] * system.live_within_us(draw_plan(system, *run)) for run in runs}
    assert max(took.values()) <= 60_000_000
    for setting in (SMALL, STANDARD):
        assert system.live_within_us(draw_plan(system, setting, 1)) <= 60_000_000


@pytest.mark.parametrize("seed", [3])
def test_a_run_is_a_function_of_its_plan(seed: int) -> None:
    system = system_named("corel")
    plan = draw_plan(system, SMALL, seed)
    assert plan_from(encode_plan(plan)) == plan
    first: list[Row] = []
    second: list[Row] = []
    play_plan(system, plan, first.append)
    play_plan(system, plan, second.append)
    assert first == second and first


@pytest.mark.parametrize("stack", ["oracle", "full"])
def test_few_and_many_servers_occur(stack: str) -> None:
    system = system_named("corel")
    plans = [draw_plan(system, setting, seed) for setting, seeds in RUNS[stack] for seed in seeds]
    sizes = {len(plan.topology.nodes) for plan in plans}
    assert len(plans) == 60 and {3, 9} <= sizes and min(sizes) == 3 and max(sizes) == 9


def test_a_server_alone_has_its_log() -> None:
    system = system_named("corel")
    assert run_plan(system, draw_plan(system, Setting("corel", "oracle", Size.SMALL, nodes="1"), 1)).violations == ()


def test_rules_are_changed_while_the_servers_stay() -> None:
    system = system_named("corel")
    changed = 0
    for seed in SEEDS_SMALL:
        if any(isinstance(step, RuleStep) for step in draw_plan(system, SMALL, seed).steps):
            rows = played(SMALL, seed).rows
            found = {row.entry.number: row.entry.servers for row in rows if isinstance(row.entry, Reconfigured)}
            changed += sum(found[number] == found.get(number - 1) for number in found)
    assert changed >= 2
