"""The shrinker on a system with a planted bug: what is left is what the bug needs, and it still fails."""

from __future__ import annotations

import msgspec
import pytest

from isotone.sim.faults import Crash, Cut, KillClient, Partition, Pause
from isotone.sim.plan import Plan, Size, decode_plan, encode_plan
from isotone.sim.run import RunResult, run_plan
from isotone.sim.shrink import ShrinkState, shrink, without_node
from isotone.sim.system import RUN_ASSERT, Setting, System, draw_plan
from tests.sim.planted_system import PlantedSystem, TickStep

SYSTEM = PlantedSystem()
SETTING = Setting(system="planted", stack="none", size=Size.STANDARD, nodes="4")


def failing_plans(count: int) -> list[Plan]:
    found = []
    for seed in range(100):
        plan = draw_plan(SYSTEM, SETTING, seed)
        if run_plan(SYSTEM, plan).violates(RUN_ASSERT):
            found.append(plan)
            if len(found) == count:
                return found
    pytest.fail("the planted bug is not found by a hundred seeds")


def test_what_is_left_is_one_partition_one_crash_and_one_step() -> None:
    for plan in failing_plans(3):
        assert len(plan.faults) > 10
        assert len(plan.steps) == 300
        shrunk = shrink(SYSTEM, plan, RUN_ASSERT)
        assert [type(fault) for fault in shrunk.faults] == [Partition, Crash]
        assert isinstance(shrunk.faults[1], Crash) and shrunk.faults[1].node == SYSTEM.victim
        assert len(shrunk.steps) == 1
        assert SYSTEM.victim in shrunk.topology.names
        assert len(shrunk.topology.nodes) <= 2
        assert shrunk.violates == RUN_ASSERT
        assert run_plan(SYSTEM, shrunk).violates(RUN_ASSERT)


def test_a_shrunk_plan_goes_through_a_file() -> None:
    shrunk = shrink(SYSTEM, failing_plans(1)[0], RUN_ASSERT)
    again = decode_plan(encode_plan(shrunk), TickStep)
    assert again == shrunk
    assert run_plan(SYSTEM, again).violates(RUN_ASSERT)


def test_the_number_of_runs_is_bounded_and_progress_is_told() -> None:
    plan, runs = failing_plans(1)[0], []

    def counted(system: System, candidate: Plan) -> RunResult:
        runs.append(candidate)
        return run_plan(system, candidate)

    told: list[ShrinkState] = []
    shrunk = shrink(SYSTEM, plan, RUN_ASSERT, runs_max=7, run=counted, progress=told.append)
    assert len(runs) == len(told) == 7
    assert run_plan(SYSTEM, shrunk).violates(RUN_ASSERT)


def test_a_plan_that_fails_for_another_reason_is_not_taken() -> None:
    plan = failing_plans(1)[0]
    told: list[ShrinkState] = []
    shrunk = shrink(SYSTEM, plan, "RUN-LIVE", runs_max=30, progress=told.append)
    assert shrunk == msgspec.structs.replace(plan, violates="RUN-LIVE")
    assert len(told) == 1, "the first run shows that there is nothing to shrink"


def test_few_runs_get_far_and_further_when_called_again() -> None:
    """The longer list has the first turn: no runs are spent on the faults before half of the steps are gone."""
    plan = failing_plans(1)[0]
    sizes = [len(plan.steps)]
    for _ in range(3):
        plan = shrink(SYSTEM, plan, RUN_ASSERT, runs_max=4)
        sizes.append(len(plan.steps))
    assert sizes[0] / 2 >= sizes[1] and sizes[1] / 2 >= sizes[2]
    assert run_plan(SYSTEM, plan).violates(RUN_ASSERT)


def test_a_node_is_left_out_with_all_that_names_it() -> None:
    plan = draw_plan(SYSTEM, SETTING, 5)
    smaller = without_node(plan, "d1")
    assert smaller.topology.names == ("d2", "d3", "d4")
    assert all(step.node != "d1" for step in smaller.steps)
    for fault in smaller.faults:
        match fault:
            case Partition(sides=sides):
                assert sorted(node for side in sides for node in side) == ["d2", "d3", "d4"]
            case Crash(node=node) | Pause(node=node) | KillClient(node=node):
                assert node != "d1"
            case Cut(source=source, target=target):
                assert "d1" not in (source, target)
