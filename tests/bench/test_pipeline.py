"""The traces that the pipeline is measured with are what they are said to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.bench.pipeline_trace import HOT, HotGroup, Load, write_trace
from isotone.spec.check import check
from isotone.spec.verdicts import State
from isotone.trace.events import Delivered, ViewDelivered
from isotone.trace.reader import read

LOAD = Load(deliveries=20_000, change_every=20, messages=(2, 5))


def test_it_breaks_nothing_and_exercises_nearly_all() -> None:
    source = HotGroup(LOAD)
    rows = list(source)
    states = {label: verdict.state for label, verdict in check(rows).verdicts.items()}
    assert State.VIOLATED not in states.values()
    assert sum(state is State.HOLDS for state in states.values()) > 40
    assert LOAD.deliveries <= source.deliveries < LOAD.deliveries * 1.1
    assert source.rows == len(rows) - 2


def test_one_group_is_hot_and_views_change() -> None:
    rows = list(HotGroup(LOAD))
    groups = [row.entry.groups for row in rows if isinstance(row.entry, Delivered)]
    assert sum(HOT in each for each in groups) > len(groups) / 2
    assert len({name for each in groups for name in each}) == LOAD.groups
    assert len({row.entry.view for row in rows if isinstance(row.entry, ViewDelivered)}) > 20


def test_what_is_planted_is_one_row() -> None:
    source = HotGroup(Load(deliveries=20_000, change_every=20, messages=(2, 5), planted=True))
    broken = {label: each.violation for label, each in check(list(source)).verdicts.items() if each.violation}
    assert list(broken) == ["EVS-2.6"]
    assert source.planted in broken["EVS-2.6"].witness


@pytest.mark.parametrize("part_rows", [100, 65_536])
def test_files_hold_what_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_rows: int) -> None:
    monkeypatch.setattr("isotone.bench.pipeline_trace.PART_ROWS", part_rows)
    written = write_trace(tmp_path, "load", LOAD)
    found = {(row.node, row.incarnation, row.index): row for row in read([tmp_path])}
    assert found == {(row.node, row.incarnation, row.index): row for row in HotGroup(LOAD)}
    assert len(found) == written.rows + 2
