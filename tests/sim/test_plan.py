"""Plans as values: drawn, written, read back."""

from __future__ import annotations

import json

import msgspec
import pytest

from isotone.core.choice import Choice
from isotone.core.errors import InputError
from isotone.core.services import Service
from isotone.sim.faults import FAMILIES, Crash, Cut, KillClient, Partition, draw_faults
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
    parse_seed,
)
from isotone.sim.workload import ClientStep, ConnectStep, JoinStep, SendStep, draw_workload


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


TWO = Topology((NodePlan("d1", "s1", ("c1",)), NodePlan("d2", "s1", ("c1",))), ("g1",))
USUAL = Plan(PLAN_VERSION, 1, "evs", "oracle", Size.SMALL, TWO, 1_000, (), ())


def one(name: str, site: str = "s1", clients: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> Topology:
    return Topology((NodePlan(name, site, clients),), groups)


def send(**changed: object) -> tuple[SendStep]:
    usual = SendStep(5, "d1", "c1", Service.AGREED, ("g1",), (3,))
    return (msgspec.structs.replace(usual, **changed),)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"seed": -1}, "its seed is not within 0"),
        ({"faults_end_us": -1}, "the end of its faults"),
        ({"faults_end_us": 10**18}, "the end of its faults"),
        ({"faults": (Crash(-5, "d1"),)}, "the fault at -5 us"),
        ({"faults": (Crash(1_001, "d1"),)}, "the fault at 1001 us"),
        ({"faults": (Partition(1, (("d1", "d2"), ("d1",))),)}, "share a node"),
        ({"faults": (Cut(1, "d1", "d1", False),)}, "between 'd1' and itself"),
        ({"faults": (KillClient(1, "d1", "zz"),)}, "d1 has no client 'zz'"),
        ({"steps": send(at=-5)}, "the step at -5 us"),
        ({"steps": send(at=10**18)}, "the step at 1000000000000000000 us"),
        ({"steps": send(client="nobody")}, "d1 has no client 'nobody'"),
        ({"steps": send(lengths=(-1,))}, "not within 0 and 16777216 bytes"),
        ({"steps": send(lengths=(16_777_217,))}, "not within 0 and 16777216 bytes"),
        ({"steps": send(lengths=(40_000, 40_000))}, "not within 0 and 65536 bytes"),
        ({"steps": send(lengths=())}, "has 0 messages"),
        ({"steps": send(groups=())}, "is for 0 groups"),
        ({"steps": send(groups=("a b",))}, "group name 'a b'"),
        ({"steps": (JoinStep(5, "d1", "c1", "g" * 100),)}, "a group name has 1 to 64"),
        ({"topology": one("d 1")}, "daemon name 'd 1'"),
        ({"topology": one("d1", site="")}, "a daemon name has 1 to 64"),
        ({"topology": one("d1", clients=("c1", "c1"))}, "two clients of d1"),
        ({"topology": one("d1", clients=("",))}, "a client name has 1 to 64"),
        ({"topology": one("d1", groups=("g", "g"))}, "two groups"),
        ({"topology": one("d1", groups=("g#",))}, "group name 'g#'"),
    ],
)
def test_what_no_run_can_be_made_from_is_a_clear_error(changed: dict[str, object], problem: str) -> None:
    plan = msgspec.structs.replace(USUAL, **changed)
    with pytest.raises(InputError, match="not a plan") as error:
        decode_plan(encode_plan(plan), ClientStep)
    assert problem in str(error.value)


@pytest.mark.parametrize("place", [b'"seed"', b'"nodes"', b'"at":5', b'"site"'])
def test_an_unknown_field_is_a_clear_error(place: bytes) -> None:
    data = encode_plan(msgspec.structs.replace(USUAL, steps=send()))
    assert place in data
    with pytest.raises(InputError, match="unknown field `bogus`"):
        decode_plan(data.replace(place, b'"bogus": 1, ' + place, 1), ClientStep)


def test_deep_nesting_and_broken_texts_are_clear_errors() -> None:
    deep = b'{"version": 1, "system": "evs", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for data in (deep, b'{"version": 1, "system": "\xff\xfe"}'):
        with pytest.raises(InputError, match="not a plan"):
            decode_plan(data, ClientStep)


def test_a_seed_is_written_in_digits() -> None:
    assert [parse_seed(text) for text in ("0", "17", str(2**63 - 1))] == [0, 17, 2**63 - 1]
    for text in ("", "-1", "1_0", " 1", "1\n", "٣", "1.0", str(2**63), "9" * 5_000):
        with pytest.raises(InputError, match="a seed is"):
            parse_seed(text)
