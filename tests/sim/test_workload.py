"""The EVS workload: everything that clients can do occurs, and there is enough of it."""

from __future__ import annotations

from collections import Counter

import pytest

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.choice import Choice
from isotone.core.names import is_private_group
from isotone.core.services import Service
from isotone.sim.faults import FAMILIES, Fault, KillClient, draw_faults
from isotone.sim.plan import SCALES, Size, Step, Topology, draw_topology
from isotone.sim.workload import ConnectStep, DisconnectStep, JoinStep, LeaveStep, SendStep, draw_workload


def drawn(seed: int, size: Size = Size.STANDARD) -> tuple[Topology, tuple[Fault, ...], tuple[Step, ...]]:
    choice, scale = Choice(seed), SCALES[size]
    topology = draw_topology(choice.derive("topology"), scale)
    faults = draw_faults(
        choice.derive("faults"),
        families=list(FAMILIES),
        clients=topology.clients,
        count=scale.faults_min,
        end=scale.faults_end_us,
    )
    return topology, faults, draw_workload(choice.derive("workload"), topology, faults, scale)


def sends(steps: tuple[Step, ...]) -> list[SendStep]:
    return [step for step in steps if isinstance(step, SendStep)]


@pytest.mark.parametrize("size", list(Size))
def test_there_are_enough_sends(size: Size) -> None:
    for seed in range(3):
        _, _, steps = drawn(seed, size)
        assert len(sends(steps)) >= SCALES[size].sends_min


def test_steps_are_in_the_order_of_time_and_name_what_is_there() -> None:
    topology, _, steps = drawn(1)
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    for step in steps:
        assert step.client in topology.clients[step.node]  # type: ignore[attr-defined]


def test_everything_that_a_client_can_do_occurs() -> None:
    kinds: Counter[str] = Counter()
    services: set[Service] = set()
    for seed in range(5):
        topology, _, steps = drawn(seed)
        kinds.update(type(step).__name__ for step in steps)
        for step in sends(steps):
            services.add(step.service)
            kinds["empty message"] += 0 in step.lengths
            kinds["one message"] += len(step.lengths) == 1
            kinds["many messages"] += len(step.lengths) > 20
            kinds["private"] += any(map(is_private_group, step.groups))
            kinds["several groups"] += sum(group in topology.groups for group in step.groups) > 1
            kinds["private and group"] += len({is_private_group(group) for group in step.groups}) == 2
    assert services == set(Service)
    named = [step.__name__ for step in (ConnectStep, DisconnectStep, JoinStep, LeaveStep, SendStep)]
    named += ["empty message", "one message", "many messages", "private", "several groups", "private and group"]
    assert all(kinds[name] for name in named), kinds


def test_no_bundle_is_too_big() -> None:
    for seed in range(5):
        for step in sends(drawn(seed)[2]):
            assert 1 <= len(step.lengths) <= 50
            assert sum(step.lengths) <= BUNDLE_BYTES_MAX


def test_a_client_comes_back_after_a_kill() -> None:
    for seed in range(10):
        _, faults, steps = drawn(seed)
        for kill in [fault for fault in faults if isinstance(fault, KillClient)]:
            later = [step for step in steps if isinstance(step, ConnectStep) and step.at > kill.at]
            if any((step.node, step.client) == (kill.node, kill.client) for step in later):
                return
    pytest.fail("no killed client ever connects again")


def test_some_sends_come_after_the_last_fault() -> None:
    _, _, steps = drawn(2)
    assert any(step.at > SCALES[Size.STANDARD].faults_end_us for step in sends(steps))
