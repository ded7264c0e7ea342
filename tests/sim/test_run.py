"""One run: what counts as broken, as not live, and what is judged all the same."""

from __future__ import annotations

from isotone.core.contract import Action, Event, SetTimer, Started, TimerFired
from isotone.sim.plan import Plan, Size
from isotone.sim.process import Boot
from isotone.sim.run import RunResult, play_plan, run_plan
from isotone.sim.swarm import run_seed
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, Setting, draw_plan
from isotone.sim.world import World
from isotone.trace.events import Ended, Row, Stabilised
from tests.sim.planted_system import LyingSystem, PlantedRun, PlantedSystem

SETTING = Setting(system="planted", stack="none", size=Size.SMALL, faults="none")


class Ticking:
    """Never quiet."""

    def handle(self, event: Event) -> list[Action]:
        return [SetTimer("tick", 1_000)] if isinstance(event, Started | TimerFired) else []


class RestlessSystem(PlantedSystem):
    """Sets timers for ever."""

    def build(self, world: World, plan: Plan) -> PlantedRun:
        world.add_process("d1", lambda boot: {"service": Ticking()})
        return super().build(world, plan)


class LameRun(PlantedRun):
    """Never gets where it should."""

    def live(self) -> list[str]:
        return ["d1 never saw a view", "d2 never did either"]


class LameSystem(PlantedSystem):
    """Is quiet, but not live."""

    def build(self, world: World, plan: Plan) -> PlantedRun:
        return LameRun(world, plan, self.victim)


class DeadSystem(PlantedSystem):
    """Cannot even be built."""

    def build(self, world: World, plan: Plan) -> PlantedRun:
        def program(boot: Boot) -> dict[str, Ticking]:
            raise ValueError(f"no program for {boot.daemon}")

        world.add_process("d1", program)
        return super().build(world, plan)


def result_of(system: PlantedSystem) -> RunResult:
    return run_plan(system, draw_plan(system, SETTING, 1))


def test_a_run_without_trouble_holds() -> None:
    result = result_of(PlantedSystem())
    assert result.verdicts == {RUN_ASSERT: "holds", RUN_LIVE: "holds"}
    assert result.violations == ()
    assert 0 <= result.bounds["live"] <= 1


def test_a_run_that_never_becomes_quiet_is_not_live() -> None:
    result = result_of(RestlessSystem())
    assert result.verdicts[RUN_LIVE] == "violated"
    assert "still busy" in result.violations[0].explanation
    assert result.bounds["live"] == 1


def test_a_quiet_run_that_did_not_get_there_is_not_live_and_says_what_is_missing() -> None:
    result = result_of(LameSystem())
    assert result.verdicts == {RUN_ASSERT: "holds", RUN_LIVE: "violated"}
    (violation,) = result.violations
    assert violation.explanation == "d1 never saw a view; d2 never did either"


def test_an_exception_is_told_with_its_place_and_liveness_is_not_judged() -> None:
    result = result_of(DeadSystem())
    assert result.verdicts == {RUN_ASSERT: "violated", RUN_LIVE: "not_judged"}
    (violation,) = result.violations
    assert violation.property == RUN_ASSERT
    assert "ValueError: no program for d1#1" in violation.explanation
    assert "test_run.py" in violation.explanation


def test_the_record_says_when_the_run_was_stable_and_that_it_ended() -> None:
    system, rows = PlantedSystem(), []
    plan = draw_plan(system, SETTING, 1)
    play_plan(system, plan, rows.append)
    assert [type(row.entry) for row in rows] == [Stabilised, Ended]
    assert rows[0].entry == Stabilised((plan.topology.names,))


def test_a_run_counts_what_happened_in_it() -> None:
    rows: list[Row] = []
    result = run_seed(Setting(size=Size.SMALL), 4)
    assert result.messages > result.sends >= 200
    assert result.faults >= 4
    assert result.events > result.rows > 0 == len(rows)
    assert result.view_changes >= 2
    assert sum(result.choices.values()) > 0


def test_a_broken_promise_is_told_once_with_its_witness() -> None:
    result = result_of(LyingSystem())
    assert result.verdicts["EVS-2.6"] == "violated"
    (violation,) = result.violations
    assert violation.property == "EVS-2.6"
    assert violation.witness == (("d1", 0, 2),)
    assert violation.explanation
