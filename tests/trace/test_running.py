"""Records that are still written: what is complete is judged, and nobody is accused for what is not written yet."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.core.choice import Choice
from isotone.sim.plan import Size
from isotone.sim.replay import plan_of, replay
from isotone.sim.system import Setting
from isotone.spec.check import check
from isotone.trace.events import Crashed, Delivered, Ended, Row, Truncated
from isotone.trace.record import NOT_CLOSED, STILL_WRITTEN
from isotone.trace.running import Life, complete_part
from isotone.trace.writer import TraceWriter
from tests.trace.rows import delivered, sends, sent

Records = dict[Life, list[Row]]
SEEDS = range(1, 9)


def ends_with(reason: str, row: Row) -> Row:
    return Row(row.node, row.incarnation, row.index + 1, row.at, Truncated(reason))


def test_a_delivery_without_its_send_is_left_out_with_all_behind_it() -> None:
    ahead = [*sends(2, "d2"), delivered("d2", 2, "d1", 1), delivered("d2", 3, "d1", 2), sent("d2", 4, 3)]
    behind = [*sends(1, "d1"), delivered("d1", 1, "d2", 2)]
    third = [delivered("d3", 0, "d2", 2), delivered("d3", 1, "d2", 3)]
    rows = [row for record in (ahead, behind, third) for row in (*record, ends_with(STILL_WRITTEN, record[-1]))]
    part = complete_part(lambda: rows)
    assert part is not None and part.limits == {("d1", 1): 2, ("d2", 1): 3, ("d3", 1): 1}
    assert (part.rows, part.left_out) == (9, 3), "what was sent behind a delivery that is left out, is left out too"
    assert list(part.rows_of(lambda: rows))[-1].entry == Ended(False)


def test_what_a_dead_writer_lost_is_not_made_up_for() -> None:
    rows = [*sends(1, "d1"), ends_with(NOT_CLOSED, sent("d1", 0)), delivered("d2", 0, "d1", 2)]
    assert complete_part(lambda: rows) is None
    rows.append(ends_with(STILL_WRITTEN, rows[-1]))
    part = complete_part(lambda: rows)
    assert part is not None and part.left_out == 0


def recorded(seed: int) -> Records:
    """A run by lives, without the rows about the run itself."""
    rows: list[Row] = []
    replay(plan_of(str(seed), Setting(size=Size.SMALL)), sink=rows.append)
    records: defaultdict[Life, list[Row]] = defaultdict(list)
    for row in rows:
        if row.node:
            records[row.node, row.incarnation].append(row)
    return dict(records)


def broken_off(records: Records, choice: Choice) -> Records:
    """The last lives are still written, each as far as chance has it."""
    found = {}
    for life, rows in records.items():
        is_last = life == max(each for each in records if each[0] == life[0])
        upto = choice.between(len(rows) // 2 + 1, len(rows)) if is_last else len(rows)
        found[life] = rows[:upto]
    return found


def of_all(records: Records) -> list[Row]:
    rows = sorted((row for record in records.values() for row in record), key=lambda row: row.at)
    ends = [ends_with(STILL_WRITTEN, record[-1]) for record in records.values() if not ended(record)]
    return [*rows, *ends]


def ended(record: list[Row]) -> bool:
    return isinstance(record[-1].entry, Crashed)


@pytest.mark.parametrize("seed", SEEDS)
def test_good_runs_that_are_still_written_accuse_nobody(seed: int) -> None:
    records = recorded(seed)
    choice = Choice(f"still written {seed}")
    for _ in range(10):
        rows = of_all(broken_off(records, choice))
        part = complete_part(lambda rows=rows: rows)  # type: ignore[misc]
        if part is None:
            continue
        report = check(part.rows_of(lambda rows=rows: rows))  # type: ignore[misc]
        assert not report.violations
        assert "holds" in {verdict.state.value for verdict in report.verdicts.values()}


def test_a_violation_in_the_complete_part_is_found(tmp_path: Path) -> None:
    records = recorded(5)
    life, record = next((life, rows) for life, rows in records.items() if any(_is_delivery(row) for row in rows))
    first = next(row for row in record if _is_delivery(row))
    shifted = [Row(row.node, row.incarnation, row.index + 1, row.at, row.entry) for row in record[first.index + 1 :]]
    twice = Row(first.node, first.incarnation, first.index + 1, first.at, first.entry)
    records[life] = [*record[: first.index + 1], twice, *shifted]
    writers = []
    for (node, incarnation), rows in records.items():
        writer = TraceWriter(tmp_path, "run", node, incarnation, rotate_bytes=None)
        for row in rows if incarnation < max(each for name, each in records if name == node) else rows[:-1]:
            writer.append(row)
        writer.flush()
        writers.append(writer)
    result = CliRunner().invoke(commands, ["check", str(tmp_path)])
    for writer in writers:
        writer.close()
    assert result.exit_code == 1 and "EVS-2.5" in result.stdout
    assert "run is still written: judged" in result.stderr


def _is_delivery(row: Row) -> bool:
    return isinstance(row.entry, Delivered)
