"""What only our own stack is told to do: it occurs on some seeds, and nowhere else."""

from __future__ import annotations

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.services import Service
from isotone.sim.evs_system import EvsSystem
from isotone.sim.full_workload import LARGE_MAX, NOTICED_US
from isotone.sim.plan import Plan, Size, encode_plan
from isotone.sim.registry import plan_from
from isotone.sim.system import Setting, draw_plan
from isotone.sim.workload import JoinStep, LeaveStep, SendStep

SEEDS = range(1, 41)
USUAL_FAULTS = "partition,cut,crash,pause,kill"


def planned(seed: int, stack: str = "full", faults: str = "all") -> Plan:
    return draw_plan(EvsSystem(), Setting(stack=stack, size=Size.SMALL, faults=faults), seed)


def large(plan: Plan) -> list[SendStep]:
    return [step for step in plan.steps if isinstance(step, SendStep) and sum(step.lengths) > BUNDLE_BYTES_MAX]


def test_some_seeds_send_a_few_large_messages_one_by_one() -> None:
    found = [large(planned(seed)) for seed in SEEDS]
    assert 8 <= sum(map(bool, found)) <= 24
    assert all(len(each) <= LARGE_MAX for each in found)
    steps = [step for each in found for step in each]
    assert all(len(step.lengths) == 1 and 70_000 <= step.lengths[0] <= 300_000 for step in steps)
    assert len({step.service for step in steps}) >= 4


def test_a_plan_with_a_large_message_reads_back() -> None:
    plan = next(plan for plan in map(planned, SEEDS) if large(plan))
    assert plan_from(encode_plan(plan)) == plan


def test_other_stacks_share_the_workload_but_not_this() -> None:
    more = 0
    for seed in SEEDS:
        oracle, full = planned(seed, "oracle"), planned(seed, faults=USUAL_FAULTS)
        assert not large(oracle)
        assert oracle.faults == full.faults and oracle.topology.clients == full.topology.clients
        left = list(full.steps)
        for step in oracle.steps:
            if step in left:
                left.remove(step)
            elif isinstance(step, SendStep) and step.service is Service.SAFE:
                left.remove(msgspec.structs.replace(step, service=Service.AGREED))
            else:
                assert isinstance(step, JoinStep | LeaveStep), "only members of a site without them are left out"
        more += bool(left)
        assert all(isinstance(step, SendStep | JoinStep | LeaveStep) for step in left)
    assert more >= len(SEEDS) // 2


def test_members_come_and_go_after_faults() -> None:
    restless = 0
    for seed in SEEDS:
        plan, usual = planned(seed, faults=USUAL_FAULTS), planned(seed, "oracle")
        leaves = [step for step in plan.steps if isinstance(step, LeaveStep) and step not in usual.steps]
        for step in leaves:
            assert any(0 <= step.at - fault.at <= NOTICED_US for fault in plan.faults)
        restless += len(leaves) > 5
    assert restless >= len(SEEDS) // 4
