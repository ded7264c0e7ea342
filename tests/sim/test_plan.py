"""Plans as values: drawn, written, read back."""

from __future__ import annotations

import json

import pytest

from isotone.core.choice import Choice
from isotone.core.errors import InputError
from isotone.sim.faults import FAMILIES, Crash, draw_faults
from isotone.sim.plan import (
    PLAN_VERSION,
    SCALES,
    NodePlan,
    Plan,
    Size,
    Topology,
    decode_plan,
    draw_topology,
    encode_plan,
)
from isotone.sim.workload import ClientStep, ConnectStep, draw_workload


def plan_of(seed: int, size: Size = Size.SMALL) -> Plan:
    choice, scale = Choice(seed), SCALES[size]
    topology = draw_topology(choice.derive("topology"), scale)
    faults = draw_faults(
        choice.derive("faults"),
        families=list(FAMILIES),
        clients=topology.clients,
        count=scale.faults_min,
        end=scale.faults_end_us,
    )
    steps = draw_workload(choice.derive("workload"), topology, faults, scale)
    return Plan(PLAN_VERSION, seed, "evs", "oracle", size, topology, scale.faults_end_us, faults, steps)


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_reads_back_as_it_was_written(seed: int) -> None:
    plan = plan_of(seed)
    assert decode_plan(encode_plan(plan), ClientStep) == plan


def test_a_plan_is_plain_json_with_a_line_per_fault() -> None:
    plan = plan_of(1)
    data = encode_plan(plan)
    assert json.loads(data)["faults"][0]["kind"]
    assert sum(b'"kind"' in line for line in data.splitlines()) == len(plan.faults) + len(plan.steps)


def test_the_topology_keeps_to_the_ranges_of_its_scale() -> None:
    for size in Size:
        scale = SCALES[size]
        for seed in range(20):
            topology = draw_topology(Choice(seed), scale)
            assert scale.nodes[0] <= len(topology.nodes) <= scale.nodes[1]
            assert scale.groups[0] <= len(topology.groups) <= scale.groups[1]
            for node in topology.nodes:
                assert scale.clients_per_node[0] <= len(node.clients) <= scale.clients_per_node[1]


def test_the_number_of_nodes_can_be_given() -> None:
    assert len(draw_topology(Choice(1), SCALES[Size.SMALL], 9).nodes) == 9


def test_another_version_is_a_clear_error() -> None:
    data = encode_plan(plan_of(1)).replace(b'"version": 1', b'"version": 99')
    with pytest.raises(InputError, match="version 99"):
        decode_plan(data, ClientStep)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff\x00", b'{"version": 1, "system": "evs"}'])
def test_what_is_no_plan_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(InputError, match="not a plan"):
        decode_plan(data, ClientStep)


def test_a_step_of_an_unknown_kind_is_a_clear_error() -> None:
    data = encode_plan(plan_of(1)).replace(b'"kind":"send"', b'"kind":"shout"')
    with pytest.raises(InputError, match="not a plan"):
        decode_plan(data, ClientStep)


@pytest.mark.parametrize("part", ["faults", "steps"])
def test_a_plan_that_names_an_unknown_node_is_a_clear_error(part: str) -> None:
    topology = Topology((NodePlan("d1", "s1", ("c1",)),), ("g1",))
    stray = {"faults": (Crash(at=1, node="nobody"),), "steps": (ConnectStep(at=1, node="nobody", client="c1"),)}
    parts = {"faults": (), "steps": (), part: stray[part]}
    plan = Plan(PLAN_VERSION, 1, "evs", "oracle", Size.SMALL, topology, 10, **parts)
    with pytest.raises(InputError, match="nobody"):
        decode_plan(encode_plan(plan), ClientStep)
