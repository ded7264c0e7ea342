"""Every property of flows catches a broken record: a good run, with one thing changed in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from isotone.sim.flows.run import draw_terms
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.spec.check.flows import FlowChecker
from isotone.spec.flows_properties import FLOW_PROPERTIES, flow_labels
from isotone.spec.verdicts import State
from isotone.trace import flows as trace
from isotone.trace.events import Row

SETTING = Setting(system="flows", stack="rings", size=Size.SMALL)


@cache
def run_of(program: str) -> tuple[Row, ...]:
    """A run of this program in which nodes joined later and shares were dealt out, if the program has any."""
    for seed in range(1, 200):
        if draw_terms(seed).program != program:
            continue
        system = system_named("flows")
        rows: list[Row] = []
        play_plan(system, draw_plan(system, SETTING, seed), rows.append)
        dealt = any(isinstance(row.entry, trace.Dealt) for row in rows)
        if newcomers(rows) and (dealt or program != "multicast"):
            return tuple(rows)
    raise AssertionError(program)


def newcomers(rows: Any) -> list[int]:
    """Places of rows in which a candidate is let in, in a complete round that is no recovery."""
    entries = [(place, row.entry) for place, row in enumerate(rows)]
    complete = {
        (each.ring, each.number, each.round)
        for _, each in entries
        if isinstance(each, trace.Aggregated) and not each.recovers
    }
    seen: set[tuple[str, str]] = set()
    found: list[int] = []
    for place, each in entries:
        if isinstance(each, trace.Contributed) and each.standing == "admitted":
            if (each.ring, each.number, each.round) in complete and (each.ring, each.member) not in seen:
                found.append(place)
            seen.add((each.ring, each.member))
    return found


def violated(rows: list[Row]) -> set[str]:
    numbered: dict[tuple[str, int], int] = {}
    again: list[Row] = []
    for row in rows:
        key = (row.node, row.incarnation)
        index = numbered[key] = numbered.get(key, -1) + 1
        again.append(Row(row.node, row.incarnation, index, row.at, row.entry))
    verdicts = check(again).verdicts
    return {label for label in flow_labels() if verdicts[label].state is State.VIOLATED}


def changed(row: Row, **fields: Any) -> Row:
    return Row(row.node, row.incarnation, row.index, row.at, msgspec.structs.replace(row.entry, **fields))


def last_place(rows: list[Row], kind: type, where: Callable[[Any], bool] = lambda entry: True) -> int:
    return max(place for place, row in enumerate(rows) if isinstance(row.entry, kind) and where(row.entry))


@pytest.mark.parametrize("program", ["phases", "multicast", "commit", "health"])
def test_good_runs_break_nothing(program: str) -> None:
    assert violated(list(run_of(program))) == set()


def break_aggregation(rows: list[Row]) -> None:
    place = last_place(rows, trace.Aggregated)
    rows[place] = changed(rows[place], values="[99]")


def break_transformation(rows: list[Row]) -> None:
    place = last_place(rows, trace.Contributed, lambda each: each.origin.startswith("input"))
    rows[place] = changed(rows[place], values="[99]")


def break_dissemination(rows: list[Row]) -> None:
    place = last_place(rows, trace.Flowed)
    rows[place] = changed(rows[place], values='{"N":99}')


def break_strong(rows: list[Row]) -> None:
    place = last_place(rows, trace.Decided)
    rows[place] = changed(rows[place], aggregates="[0]", flows='{"L\'":0,"N":1}')


def break_weak(rows: list[Row]) -> None:
    place = last_place(rows, trace.FlowInput)
    rows[place] = changed(rows[place], values='{"L":0}')


def break_consistent(rows: list[Row]) -> None:
    place = last_place(rows, trace.Decided)
    rows.append(changed(rows[place], aggregates="[98]", flows='{"L\'":98,"N":99}'))


def break_in_order(rows: list[Row]) -> None:
    place = last_place(rows, trace.Contributed, lambda each: each.origin.startswith("input"))
    rows[place] = changed(rows[place], origin="input 1 0.0")


def break_guarded(rows: list[Row]) -> None:
    place = newcomers(rows)[-1]
    rows[place] = changed(rows[place], values="[-1]")


def break_regular(rows: list[Row]) -> None:
    place = newcomers(rows)[-1]
    rows[place] = changed(rows[place], standing="regular")


def break_history(rows: list[Row]) -> None:
    place = last_place(rows, trace.Decided)
    rows[place] = changed(rows[place], after="1.0")


def break_end(rows: list[Row]) -> None:
    place = last_place(rows, trace.FlowStarted)
    life = rows[place].entry.member  # type: ignore[attr-defined]
    rows[:] = [row for row in rows if not (isinstance(row.entry, trace.Flowed) and row.entry.member == life)]


def break_distribution(rows: list[Row]) -> None:
    place = last_place(rows, trace.Dealt)
    other = next(row for row in rows if isinstance(row.entry, trace.FlowStarted) and row.node != rows[place].node)
    rows.append(Row(other.node, other.incarnation, 0, rows[place].at, rows[place].entry))


BREAKS: dict[str, tuple[str, Callable[[list[Row]], None]]] = {
    "FLO-AGGREGATION": ("phases", break_aggregation),
    "FLO-TRANSFORMATION": ("phases", break_transformation),
    "FLO-DISSEMINATION": ("phases", break_dissemination),
    "FLO-DISTRIBUTION": ("multicast", break_distribution),
    "FLO-STRONG": ("phases", break_strong),
    "FLO-WEAK": ("phases", break_weak),
    "FLO-CONSISTENT": ("phases", break_consistent),
    "FLO-IN-ORDER": ("phases", break_in_order),
    "FLO-GUARDED": ("phases", break_guarded),
    "FLO-REGULAR": ("phases", break_regular),
    "FLO-HISTORY": ("phases", break_history),
    "FLO-END": ("phases", break_end),
}


def test_there_is_a_broken_record_for_every_property() -> None:
    assert set(BREAKS) == {each.id for each in FLOW_PROPERTIES}


@pytest.mark.parametrize("label", BREAKS)
def test_a_broken_record_is_caught(label: str) -> None:
    program, breaks = BREAKS[label]
    rows = list(run_of(program))
    breaks(rows)
    assert label in violated(rows)


def test_lost_rows_are_not_judged() -> None:
    checker = FlowChecker()
    for row in run_of("phases"):
        if isinstance(row.entry, trace.Contributed | trace.Aggregated):
            checker.feed(row)
    assert len(checker)
    verdicts = checker.finish(lossy=True, liveness=None, components=())
    assert {each.state for each in verdicts.values()} == {State.NOT_JUDGED}


def test_rules_in_the_trace_are_json() -> None:
    first = next(row.entry for row in run_of("commit") if isinstance(row.entry, trace.FlowStarted))
    assert json.loads(first.rules)["program"] == "commit"
