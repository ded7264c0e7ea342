from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.trace import reader
from isotone.trace.events import Gap, Row, Truncated
from isotone.trace.jsonl import write_jsonl
from isotone.trace.layout import PartHeader
from isotone.trace.parquet import write_parquet
from isotone.trace.reader import read, read_runs, trace_files
from isotone.trace.records import END, frame
from isotone.trace.rotation import rotate
from isotone.trace.spool import begin_spool
from isotone.trace.writer import Level, TraceWriter
from tests.trace.rows import delivered, sends, sent


def write_record(directory: Path, rows: list[Row], *, run: str = "r", rotate_bytes: int | None = None) -> None:
    writer = TraceWriter(directory, run, rows[0].node, rows[0].incarnation, level=Level.FULL, rotate_bytes=rotate_bytes)
    for row in rows:
        writer.append(row)
    writer.close()


def test_a_file_keeps_its_order_across_nodes(tmp_path: Path) -> None:
    """The simulator's order has sends before deliveries even where all happens at one time."""
    rows = [sent("d2", 0, at=5), delivered("d1", 0, "d2", 1, at=5), sent("d1", 1, 1, at=4)]
    write_jsonl(tmp_path / "x.jsonl", "r", rows)
    assert list(read([tmp_path / "x.jsonl"])) == rows
    write_parquet(tmp_path / "x.parquet", "r", rows)
    assert list(read([tmp_path / "x.parquet"])) == rows


def test_a_file_out_of_order_is_put_in_order(tmp_path: Path) -> None:
    rows = [sent("d1", 0, at=1, incarnation=2), sent("d1", 1, at=9), sent("d2", 0, at=5), sent("d1", 0, at=4)]
    write_jsonl(tmp_path / "x.jsonl", "r", rows)
    assert list(read([tmp_path])) == [rows[3], rows[2], rows[1], rows[0]]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_large_file_is_read_as_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """In its order, without holding it; or put in order; or, if it cannot be read to its end, not at all."""
    write = write_jsonl if suffix == "jsonl" else write_parquet
    in_order = [sent("d2", 0, at=5), delivered("d1", 0, "d2", 1, at=5), sent("d1", 1, 1, at=4)]
    for name, rows in (("order", in_order), ("turned", [*sends(4)[2:], *sends(2)])):
        write(tmp_path / f"{name}.{suffix}", "r", rows)
    cut = (tmp_path / f"order.{suffix}").read_bytes()
    (tmp_path / f"cut.{suffix}").write_bytes(cut[:-30] if suffix == "jsonl" else cut.replace(b"d2", b"d3", 1))
    small = {path.stem: _all_of(path) for path in tmp_path.iterdir()}
    assert (small["order"][0], small["turned"][0], small["cut"]) == (in_order, sends(4), ([], 1))
    monkeypatch.setattr(reader, "LOADED_BYTES_MAX", 0)
    assert {path.stem: _all_of(path) for path in tmp_path.iterdir()} == small


def _all_of(path: Path) -> tuple[list[Row], int]:
    """The rows of the file, and how often it was said that it cannot be read."""
    told: list[Path] = []
    runs = list(read_runs([path], skip_unreadable=lambda path, _: told.append(path)))
    return [row for _, rows in runs for row in rows], len(told)


def test_a_mix_of_files_is_one_run_each_row_once(tmp_path: Path) -> None:
    write_record(tmp_path, sends(6))
    write_record(tmp_path, sends(6, "d2"), rotate_bytes=100)
    write_jsonl(tmp_path / "x.jsonl", "r", sends(4, "d3") + sends(2, "d1"))
    write_parquet(tmp_path / "y.parquet", "r", sends(6, "d3"))
    rows = list(read([tmp_path]))
    for node in ("d1", "d2", "d3"):
        assert [row for row in rows if row.node == node] == sends(6, node)
    assert len(rows) == 18
    assert [row.at for row in rows] == sorted(row.at for row in rows)


def test_runs_come_apart(tmp_path: Path) -> None:
    write_record(tmp_path, sends(2), run="one")
    write_record(tmp_path, sends(3), run="two/../odd")
    write_jsonl(tmp_path / "x.jsonl", "one", sends(1, "d2"))
    found = {run: list(rows) for run, rows in read_runs([tmp_path])}
    assert {run: len(rows) for run, rows in found.items()} == {"one": 3, "two/../odd": 3}
    with pytest.raises(InputError, match=r"one run is needed, found 'one', 'two/\.\./odd'"):
        read([tmp_path])
    with pytest.raises(InputError, match="one run is needed, found none"):
        read([])


def test_incarnations_in_their_order(tmp_path: Path) -> None:
    for incarnation in (10, 9, 2):
        write_record(tmp_path, sends(2, incarnation=incarnation))
    assert [row.incarnation for row in read([tmp_path])] == [2, 2, 9, 9, 10, 10]


def test_a_part_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    write_record(tmp_path, sends(30), rotate_bytes=400)
    parts = sorted((tmp_path / "r").iterdir())
    assert len(parts) > 4
    lost = [row.index for row in read([parts[2]]) if isinstance(row.entry, type(sent("d1", 0).entry))]
    parts[2].unlink()
    rows = list(read([tmp_path]))
    (gap,) = [row for row in rows if isinstance(row.entry, Gap)]
    assert (gap.index, gap.entry) == (lost[0], Gap(len(lost)))
    assert [row for row in rows if row is not gap] == [row for row in sends(30) if row.index not in lost]


def test_parts_may_be_named_in_any_order(tmp_path: Path) -> None:
    write_record(tmp_path, sends(30), rotate_bytes=400)
    assert list(read(sorted((tmp_path / "r").iterdir(), reverse=True))) == sends(30)


def test_a_last_part_that_is_missing_is_a_truncation(tmp_path: Path) -> None:
    write_record(tmp_path, sends(30), rotate_bytes=400)
    sorted((tmp_path / "r").iterdir())[-1].unlink()
    last = list(read([tmp_path]))[-1]
    assert isinstance(last.entry, Truncated)


def test_damage_in_a_part_that_others_follow_is_a_gap(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "r", "d1", 1, level=Level.FULL, rotate_bytes=400)
    for row in sends(12):
        writer.append(row)
    first, *_ = sorted((tmp_path / "r").iterdir())
    first.write_bytes(first.read_bytes()[:-3])
    writer.append(sent("d1", 12))
    rotate(first)
    rows = list(read([tmp_path]))
    assert [type(row.entry).__name__ for row in rows].count("Gap") == 1
    assert isinstance(rows[-1].entry, Truncated) and "unfinished" not in rows[-1].entry.reason


def test_damage_that_no_row_follows_is_a_truncation_though_a_later_part_was_closed(tmp_path: Path) -> None:
    write_record(tmp_path, sends(3))
    (spool,) = (tmp_path / "r").iterdir()
    header = PartHeader("r", "d1", 1, 1, "full", "boot")
    spool.with_name("d1-1-000001.spool").write_bytes(begin_spool(header) + frame(END))
    assert list(read([tmp_path])) == sends(3)
    spool.write_bytes(spool.read_bytes()[:-30])
    *rows, last = read([tmp_path])
    assert rows == sends(2)
    assert isinstance(last.entry, Truncated) and "unfinished record" in last.entry.reason


def test_a_spool_that_is_rotated_while_it_is_read(tmp_path: Path) -> None:
    write_record(tmp_path, sends(5))
    (spool,) = (tmp_path / "r").iterdir()
    listed = read_runs([spool])
    (_, rows), *_ = listed
    rotate(spool)
    assert list(rows) == sends(5)
    assert list(read([spool])) == sends(5)


def test_spools_that_are_rotated_while_others_are_opened(tmp_path: Path) -> None:
    for node in ("d1", "d2", "d3"):
        write_record(tmp_path, sends(3, node))
    listed = trace_files([tmp_path])
    found = [next(listed)]
    rotated = [rotate(tmp_path / "r" / f"d{number}-1-000000.spool") for number in (2, 3)]
    found += listed
    assert found[1:] == rotated
    assert list(read(found)) == list(read([tmp_path]))


def test_unreadable_files_are_named_or_skipped(tmp_path: Path) -> None:
    write_record(tmp_path, sends(2))
    bad = [tmp_path / "r" / name for name in ("bad.jsonl", "bad.parquet", "d9-1-000000.spool")]
    for path in bad:
        path.write_bytes(b"hello")
        with pytest.raises(InputError, match=path.name):
            list(read([path]))
    with pytest.raises(InputError, match=r"bad\.jsonl"):
        list(read([tmp_path]))
    skipped: list[Path] = []
    assert list(read([tmp_path], skip_unreadable=lambda path, error: skipped.append(path))) == sends(2)
    assert skipped == bad


def test_files_that_turn_out_unreadable_on_the_way(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", "r", sends(2))
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write("nonsense")
    write_record(tmp_path, sends(40, "d2"), rotate_bytes=100_000)
    (part,) = (tmp_path / "r").iterdir()
    data = bytearray(part.read_bytes())
    data[4:200] = bytes(196)
    part.write_bytes(data)
    skipped: list[str] = []
    rows = list(read([tmp_path], skip_unreadable=lambda path, error: skipped.append(path.name)))
    assert skipped == ["x.jsonl", "d2-1-000000.parquet"]
    assert [type(row.entry) for row in rows] == [Truncated]
    with pytest.raises(InputError, match=r"x\.jsonl:5"):
        list(read([tmp_path]))


def test_what_is_read_and_what_is_not(tmp_path: Path) -> None:
    for name in ("a.jsonl", ".b.parquet", "c.txt", ".d.parquet.tmp"):
        (tmp_path / name).touch()
    (tmp_path / "e.spool").mkdir()
    assert [path.name for path in trace_files([tmp_path])] == ["a.jsonl"]
    with pytest.raises(InputError, match=r"c\.txt: a trace is named"):
        list(trace_files([tmp_path / "c.txt"]))
    with pytest.raises(InputError, match="nowhere"):
        list(read([tmp_path / "nowhere.spool"]))


def test_parts_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row comes before the last file is opened."""
    write_record(tmp_path, sends(30), rotate_bytes=400)
    rows = read([tmp_path])
    first = next(iter(rows))
    assert first == sent("d1", 0)
    last = sorted((tmp_path / "r").iterdir())[-1]
    last.write_bytes(b"changed")
    with pytest.raises(InputError, match=last.name):
        list(rows)


def test_a_file_of_json_lines_that_was_cut_ends_truncated(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_jsonl(path, "r", sends(3) + sends(2, "d2"))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    rows = list(read([path]))
    cut = [Row("d1", 1, 3, 2, Truncated("the file was cut")), Row("d2", 1, 1, 0, Truncated("the file was cut"))]
    assert rows == [*sends(3), *sends(1, "d2"), *cut]


def test_damaged_parquet_is_skipped_like_any_other(tmp_path: Path) -> None:
    write_record(tmp_path, sends(2))
    write_parquet(tmp_path / "r" / "bad.parquet", "r", sends(2, "d2"))
    data = (tmp_path / "r" / "bad.parquet").read_bytes()
    (tmp_path / "r" / "bad.parquet").write_bytes(data.replace(b"isotone_run\x18\x01r", b"isotone_run\x18\x01\xff"))
    skipped: list[str] = []
    assert list(read([tmp_path], skip_unreadable=lambda path, error: skipped.append(path.name))) == sends(2)
    assert skipped == ["bad.parquet"]
