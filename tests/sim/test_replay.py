"""Runs again: from a seed, from a file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from isotone.core.errors import InputError, MachineError
from isotone.sim.plan import Size
from isotone.sim.replay import plan_of, read_plan, replay, write_plan
from isotone.sim.system import Setting
from isotone.trace.events import Row

SMALL = Setting(size=Size.SMALL)


def test_a_seed_and_the_file_of_its_plan_are_the_same_run(tmp_path: Path) -> None:
    plan = plan_of("9", SMALL)
    write_plan(tmp_path / "deep" / "plan.json", plan)
    again = plan_of(str(tmp_path / "deep" / "plan.json"), Setting())
    assert again == plan
    first: list[Row] = []
    second: list[Row] = []
    before, after = replay(plan, sink=first.append), replay(again, sink=second.append)
    assert first == second
    assert msgspec.structs.replace(before, cpu_seconds=0) == msgspec.structs.replace(after, cpu_seconds=0)


def test_a_plan_without_its_repairs_still_runs_to_a_live_end() -> None:
    plan = plan_of("4", SMALL)
    harmful = tuple(fault for fault in plan.faults if type(fault).__name__ not in {"Heal", "Restart", "Resume"})
    assert len(harmful) < len(plan.faults)
    assert replay(msgspec.structs.replace(plan, faults=harmful)).violations == ()


def test_any_part_of_a_plan_is_a_plan() -> None:
    plan = plan_of("6", SMALL)
    assert replay(msgspec.structs.replace(plan, steps=plan.steps[1::2], faults=plan.faults[::-2])).violations == ()
    assert replay(msgspec.structs.replace(plan, steps=())).violations == ()


def test_a_file_that_is_not_there_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_plan(tmp_path / "nothing.json")


def test_a_place_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot write"):
        write_plan(tmp_path / "file" / "plan.json", plan_of("1", SMALL))


@pytest.mark.parametrize(("drawn", "read"), [("oracle", "transport"), ("transport", "oracle")])
def test_a_stack_does_not_take_the_steps_of_another(tmp_path: Path, drawn: str, read: str) -> None:
    plan = plan_of("1", Setting(stack=drawn, size=Size.SMALL, nodes="2"))
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan
    write_plan(tmp_path / "plan.json", msgspec.structs.replace(plan, stack=read))
    with pytest.raises(InputError, match=f"the stack {read} has no step"):
        read_plan(tmp_path / "plan.json")
