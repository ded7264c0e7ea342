"""Fault schedules: drawn from a seed, applied in any part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from isotone.core.choice import Choice
from isotone.sim.faults import (
    FAMILIES,
    Crash,
    Cut,
    Fault,
    Heal,
    KillClient,
    MendDisk,
    Partition,
    Pause,
    Restart,
    Resume,
    SlowDisk,
    apply_fault,
    draw_faults,
    injected,
)
from isotone.sim.registry import system_named
from isotone.sim.system import Setting, draw_plan

CLIENTS = {"d1": ("c1",), "d2": ("c1", "c2"), "d3": ()}
END = 6_000_000


def drawn(seed: int, families: Sequence[str] = tuple(FAMILIES), count: int = 12) -> tuple[Fault, ...]:
    return draw_faults(Choice(seed), families=families, clients=CLIENTS, count=count, end=END)


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


@pytest.mark.parametrize("seed", range(30))
def test_a_schedule_has_as_many_faults_as_asked_for_in_the_order_of_time(seed: int) -> None:
    faults = drawn(seed)
    assert injected(faults) >= 12
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 <= fault.at <= END for fault in faults)


@pytest.mark.parametrize("seed", range(30))
def test_every_crash_is_followed_by_a_restart_and_every_pause_by_a_resume(seed: int) -> None:
    stopped: dict[str, type[Fault]] = {}
    for fault in drawn(seed):
        match fault:
            case Crash(node=node) | Pause(node=node):
                assert node not in stopped, "only what runs is crashed or paused"
                stopped[node] = Restart if isinstance(fault, Crash) else Resume
            case Restart(node=node) | Resume(node=node):
                assert stopped.pop(node) is type(fault)
    assert not stopped


@pytest.mark.parametrize("seed", range(30))
def test_a_partition_has_every_node_on_one_of_at_least_two_sides(seed: int) -> None:
    for fault in drawn(seed, ["partition"]):
        if isinstance(fault, Partition):
            assert len(fault.sides) >= 2
            assert sorted(node for side in fault.sides for node in side) == sorted(CLIENTS)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_family_alone_draws_only_its_own_faults(name: str) -> None:
    kinds = {
        "partition": {Partition, Heal},
        "cut": {Cut, Heal},
        "crash": {Crash, Restart},
        "pause": {Pause, Resume},
        "kill": {KillClient},
        "move": {Crash, Restart},
        "disk": {SlowDisk, MendDisk},
        "cascade": {Partition, Heal, Crash, Restart, Cut},
        "blink": {Cut, Heal, Crash, Restart},
    }
    assert {type(fault) for fault in drawn(3, [name])} <= kinds[name]
    assert injected(drawn(3, [name])) > 0


@pytest.mark.parametrize("seed", range(10))
def test_a_cascade_strikes_again_about_when_sides_merge(seed: int) -> None:
    first, *rest = drawn(seed, ["cascade"], count=1)
    healed = next(fault.at for fault in rest if isinstance(fault, Heal))
    again = [fault.at - healed for fault in rest if isinstance(fault, Partition | Crash | Cut)]
    assert (isinstance(first, Partition) and 200_000 <= healed - first.at <= 1_000_000) or healed == END
    assert 1 <= len(again) <= 3 and 0 <= min(again) <= 800_000
    assert all(later - earlier <= 300_000 for earlier, later in pairwise(again))


def test_no_families_draw_no_faults() -> None:
    assert drawn(1, []) == ()


def test_some_faults_follow_each_other_closely() -> None:
    gaps = []
    for seed in range(20):
        moments = [fault.at for fault in drawn(seed) if not isinstance(fault, Heal | Restart | Resume)]
        gaps += [later - earlier for earlier, later in pairwise(moments)]
    assert sum(gap < 5_000 for gap in gaps) > len(gaps) // 10


class Heard:
    """Writes down what was applied."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> object:
        return lambda *given, **named: self.calls.append((name, *given, *named.values()))


def test_each_fault_is_applied_by_its_own_call() -> None:
    heard = Heard()
    for fault in (
        Partition(1, (("a",), ("b",))),
        Cut(2, "a", "b", True),
        Heal(3),
        Crash(4, "a"),
        Restart(5, "a", elsewhere=True),
        Pause(6, "b"),
        Resume(7, "b"),
        KillClient(8, "a", "c"),
        SlowDisk(9, "a", 500),
        MendDisk(10, "a"),
    ):
        apply_fault(fault, heard)  # type: ignore[arg-type]
    assert heard.calls == [
        ("partition", (("a",), ("b",))),
        ("cut", "a", "b", True),
        ("heal",),
        ("crash", "a"),
        ("restart", "a", True),
        ("pause", "b"),
        ("resume", "b"),
        ("kill_client", "a", "c"),
        ("slow_disk", "a", 500),
        ("slow_disk", "a", None),
    ]


def test_a_run_never_lacks_faults_that_change_views() -> None:
    """Seed 769 once drew pauses and kills almost alone."""
    system = system_named("evs")
    for seed in (4, 769, 1831):
        faults = draw_plan(system, Setting(), seed).faults
        assert sum(isinstance(fault, Partition | Cut | Crash) for fault in faults) >= 5
