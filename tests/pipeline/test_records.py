"""Records in parts, doubled, cut and empty: one job over all, and the plain reader's rows run by run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isotone.core.errors import InputError
from isotone.pipeline import bronze as bronze_module
from isotone.pipeline.bronze import kept, read_bronze
from isotone.pipeline.silver import silver
from isotone.trace.columns import columns_of
from isotone.trace.events import Connected, Ended, Entry, Gap, Recovered, Row, Stabilised
from isotone.trace.jsonl import write_jsonl
from isotone.trace.layout import PARQUET_SUFFIX, SPOOL_SUFFIX, PartHeader, Tail, part_path
from isotone.trace.parquet import require_pyarrow, write_parquet, write_part
from isotone.trace.process import this_boot, this_process
from isotone.trace.reader import read_runs
from isotone.trace.records import frame
from isotone.trace.spool import begin_spool, encode_row

Told = tuple[str, int, int, str, tuple[str, ...], str]
CLOSED, OPEN = Tail(closed=True), Tail(closed=False)
GONE = f"{this_process().partition(' ')[0]} 999999999 1"
"""A writer that is not there any more."""


def entry(index: int) -> Entry:
    return Recovered("d1#1") if index == 0 else Connected(f"#c{index}#d1#1#{index}")


def rows(first: int, last: int, *, at: int = 0, entry_at: Callable[[int], Entry] = entry) -> list[Row]:
    return [Row("d1", 1, index, at + index, entry_at(index)) for index in range(first, last)]


def header(run: str, part: int, incarnation: int = 1) -> PartHeader:
    return PartHeader(run, "d1", incarnation, part, "full", boot=this_boot(), writer=GONE)


def write(place: Path, run: str, part: int, some: list[Row], tail: Tail = OPEN) -> Path:
    path = part_path(place, header(run, part), PARQUET_SUFFIX)
    path.parent.mkdir(exist_ok=True)
    write_part(path, header(run, part), some, lambda: tail)
    return path


def spool(place: Path, run: str, part: int, some: list[Row]) -> Path:
    path = part_path(place, header(run, part), SPOOL_SUFFIX)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(begin_spool(header(run, part)) + b"".join(map(encode_row, some)))
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


# --- cases: what is written of a run ---------------------------------------------------------------------------------


def dead(place: Path, run: str) -> None:
    """Everything was read and its writer is gone: a crash."""
    write(place, run, 0, rows(0, 3))


def dead_and_its_last_part_unreadable(place: Path, run: str) -> None:
    write(place, run, 0, rows(0, 3))
    cut(write(place, run, 1, rows(3, 5)))


def damaged_part_then_nothing_new(place: Path, run: str) -> None:
    """How the second part ended is not made good by a third that is closed and has no rows."""
    write(place, run, 0, rows(0, 2))
    write(place, run, 1, rows(2, 3), Tail(closed=False, problem="torn"))
    write(place, run, 2, [], CLOSED)


def damaged_part_then_more(place: Path, run: str) -> None:
    """But by one that goes on: what was lost is a gap then."""
    write(place, run, 0, rows(0, 2), Tail(closed=False, problem="torn"))
    write(place, run, 1, rows(4, 6), CLOSED)


def part_and_whole(place: Path, run: str) -> None:
    """The whole file has the row at which the part ends."""
    write(place, run, 0, rows(0, 3))
    write_parquet(place / run / "whole.parquet", run, rows(2, 5))


def part_and_a_whole_further_on(place: Path, run: str) -> None:
    write(place, run, 0, rows(0, 3))
    write_jsonl(place / run / "whole.jsonl", run, rows(5, 7))


def part_and_spool(place: Path, run: str) -> None:
    write(place, run, 0, rows(0, 3))
    spool(place, run, 0, rows(0, 4))


def two_stories(place: Path, run: str) -> None:
    """Rows of one id that contradict each other."""
    (place / run).mkdir()
    other = [Connected(f"#x{index}#d1#1#{index}") for index in range(9)]
    write_parquet(place / run / "a.parquet", run, rows(0, 3, at=70, entry_at=lambda index: other[index]))
    write_parquet(place / run / "b.parquet", run, rows(0, 4))
    write(place, run, 0, rows(1, 6, entry_at=lambda index: other[index + 2]), CLOSED)


def hole_of_the_driver(place: Path, run: str) -> None:
    (place / run).mkdir()
    driver = [Row("", 0, 1, 0, Stabilised((("d1",),))), Row("", 0, 4, 0, Ended(quiet=True))]
    write_parquet(place / run / "a.parquet", run, [*rows(0, 2), *driver])


def gap_that_says_too_much(place: Path, run: str) -> None:
    """Written by hand: the next row has the next index."""
    (place / run).mkdir()
    write_jsonl(place / run / "a.jsonl", run, [*rows(0, 1), Row("d1", 1, 1, 1, Gap(5)), *rows(2, 4)])


def twice_in_one_file(place: Path, run: str) -> None:
    (place / run).mkdir()
    write_parquet(place / run / "a.parquet", run, rows(0, 2))
    write_parquet(place / run / "b.parquet", run, [*rows(3, 5), *rows(4, 5)])


def out_of_order_in_a_part(place: Path, run: str) -> None:
    """Read up to there."""
    write(place, run, 0, [*rows(0, 4), *rows(2, 3)])


def in_groups(path: Path) -> None:
    """The same file in row groups of two rows, so that several tasks read it (`found`)."""
    arrow = require_pyarrow()
    arrow.parquet.write_table(arrow.parquet.read_table(path), path, row_group_size=2)


def out_of_order_in_one_of_several_tasks(place: Path, run: str) -> None:
    """What stands behind the first wrong row counts no more, whoever reads it."""
    in_groups(write(place, run, 0, [*rows(0, 4), *rows(5, 6), *rows(4, 5), *rows(6, 10)], CLOSED))


def out_of_order_between_tasks(place: Path, run: str) -> None:
    in_groups(write(place, run, 0, [*rows(0, 4), *rows(3, 4), *rows(6, 9)], CLOSED))


def no_rows(place: Path, run: str) -> None:
    (place / run).mkdir()
    write_jsonl(place / run / "a.jsonl", run, [])


def no_rows_in_a_part(place: Path, run: str) -> None:
    write(place, run, 0, [], CLOSED)


def half_a_spool(place: Path, run: str) -> None:
    """A row that no version wrote; what stands before it counts."""
    path = spool(place, run, 0, rows(0, 3))
    path.write_bytes(path.read_bytes() + frame(b"\x93\x03\x00\x01"))


CASES = [
    dead, dead_and_its_last_part_unreadable, damaged_part_then_nothing_new, damaged_part_then_more, part_and_whole,
    part_and_a_whole_further_on, part_and_spool, hole_of_the_driver, gap_that_says_too_much,
    twice_in_one_file, out_of_order_in_a_part, out_of_order_in_one_of_several_tasks, out_of_order_between_tasks,
    no_rows, no_rows_in_a_part, half_a_spool,
]  # fmt: skip


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("records")
    for case in CASES:
        case(place, case.__name__)
    return place


@pytest.fixture(scope="module")
def found(spread: SparkSession, traces: Path) -> dict[str, list[Told]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bronze_module, "GROUPS_PER_TASK", 1)
        bronze = kept(read_bronze(spread, [traces]), rows_too=False)
    told: dict[str, list[Told]] = {}
    for row in silver(bronze.rows, bronze.notes).collect():
        place = (row["node"], row["incarnation"], row["index"], row["kind"])
        told.setdefault(row["run"], []).append((*place, tuple(row["clients"] or ()), row["reason"] or ""))
    return told


def plain(traces: Path, run: str) -> list[Told]:
    told = []
    [(_, some)] = read_runs([traces / run], skip_unreadable=lambda path, error: None)
    for row in some:
        columns = columns_of(row.entry)
        clients, reason = tuple(columns.get("clients", ())), columns.get("reason", "")
        told.append((row.node, row.incarnation, row.index, columns["kind"], clients, reason))
    return sorted(told)


@pytest.mark.parametrize("run", [case.__name__ for case in CASES])
def test_a_record_is_that_of_the_plain_reader(found: dict[str, list[Told]], traces: Path, run: str) -> None:
    told = [each for each in sorted(found[run]) if each[3] != "_run"]
    assert [_bare(each) for each in told] == [_bare(each) for each in plain(traces, run)]


def _bare(told: Told) -> Told:
    """What was wrong with a row is said in other words on the other side."""
    return (*told[:5], told[5].partition(".parquet: ")[0].partition(".spool: ")[0])


def test_rows_that_contradict_each_other_are_refused_by_both(spark: SparkSession, tmp_path: Path) -> None:
    two_stories(tmp_path, "two_stories")
    with pytest.raises(InputError, match="which do not agree"):
        plain(tmp_path, "two_stories")
    read = read_bronze(spark, [tmp_path])
    with pytest.raises(InputError, match=r"which do not agree: \S+a.parquet and \S+b.parquet"):
        silver(read.rows, read.notes).collect()


def test_a_run_without_rows_is_known(found: dict[str, list[Told]]) -> None:
    assert found["no_rows"] == found["no_rows_in_a_part"] == [("", 0, 0, "_run", (), "")]


def test_the_cases_are_different(traces: Path) -> None:
    """What each of them is there for does happen in the plain reader."""
    ends = {case.__name__: [each[3] for each in plain(traces, case.__name__)][-1:] for case in CASES}
    assert ends["dead"] == ["crash"]
    assert ends["dead_and_its_last_part_unreadable"] == ["truncated"]
    assert json.dumps(plain(traces, "damaged_part_then_nothing_new")).count("torn") == 1
    assert [each[3] for each in plain(traces, "damaged_part_then_more")].count("gap") == 1
    assert ends["part_and_whole"] == ["connect"]
    assert ends["no_rows"] == []
