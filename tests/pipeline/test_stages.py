"""Tables that follow their trace files: the same files change nothing, more files add rows, a kill is made up for."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from isotone.core.errors import MachineError
from isotone.pipeline import schema, stages
from isotone.pipeline.bronze import Bronze, kept
from isotone.pipeline.stages import bytes_of_runs, refresh
from isotone.pipeline.tables import Manifest, _write_manifest, manifests, read_notes, read_table, writing
from isotone.trace.events import Connected, Recovered, Row
from isotone.trace.jsonl import write_jsonl
from isotone.trace.layout import PARQUET_SUFFIX, part_path
from isotone.trace.parquet import write_parquet, write_part
from isotone.trace.records import frame
from isotone.trace.spool import begin_spool, encode_row
from tests.pipeline import test_records as records


def _rows(node: str) -> list[Row]:
    return [Row(node, 1, 0, 0, Recovered(f"{node}#1")), Row(node, 1, 1, 1, Connected(f"#c#{node}#1#1"))]


def _count(spark: SparkSession, out: Path) -> dict[str, int]:
    return {row["run"]: row["count"] for row in read_table(spark, out / "silver").groupBy("run").count().collect()}


def test_tables_follow_their_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    write_parquet(traces / "a1.parquet", "a", _rows("d1"))
    write_parquet(traces / "b.parquet", "b", _rows("d1"))
    (traces / "c.parquet").write_bytes(b"no")
    (traces / "d.jsonl").symlink_to("nowhere")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stages, "judge", die)
        with pytest.raises(KeyboardInterrupt):
            refresh(spark, [traces], out, measuring=False)
    monkeypatch.setattr(stages, "judge", _verdicts)
    done = refresh(spark, [traces], out, measuring=False)
    assert done.runs == ("a", "b")
    assert [Path(each.path).name for each in done.problems] == ["c.parquet", "d.jsonl"]
    assert _count(spark, out) == {"a": 2, "b": 2}
    before = manifests(out / "silver")
    assert refresh(spark, [traces], out, measuring=False).runs == ()
    assert manifests(out / "silver") == before
    write_parquet(traces / "a2.parquet", "a", _rows("d2"))
    assert refresh(spark, [traces], out, measuring=False).runs == ("a",)
    assert _count(spark, out) == {"a": 4, "b": 2}
    assert manifests(out / "silver")["b"] == before["b"]
    shutil.rmtree(out / "silver" / "data" / before["b"].directory)  # by whoever: it is made anew
    monkeypatch.setattr(stages, "JUDGES", "those of a later version")
    assert refresh(spark, [traces], out, measuring=False).runs == ("a", "b")
    assert _count(spark, out) == {"a": 4, "b": 2}
    with writing(out), pytest.raises(MachineError, match="another process"):
        refresh(spark, [traces], out)
    with writing(out) as held:
        assert refresh(spark, [traces], out, measuring=False, held=held).runs == ()


def _verdicts(silver):  # type: ignore[no-untyped-def]
    """Judging is tested elsewhere."""
    nothing = f"CAST(null AS {schema.WITNESS}) AS witness"
    return (
        silver.select("run")
        .distinct()
        .selectExpr("run", "'EVS-2.1' AS label", "'holds' AS state", nothing, "0 AS place")
    )


def _refresh(spark: SparkSession, traces: Path, out: Path) -> stages.Refreshed:
    return refresh(spark, [traces], out, judging=False, measuring=False)


def test_tables_and_the_files_they_are_made_from(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One story, for each refresh takes its time."""
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    torn = records.spool(traces, "a", 0, records.rows(0, 2))
    torn.write_bytes(torn.read_bytes() + frame(b"\x93\x03\x00\x01"))
    first = records.write(traces, "b", 0, records.rows(0, 2), records.CLOSED)
    write_jsonl(traces / "c.jsonl", "c", [])
    done = _refresh(spark, traces, out)
    assert [Path(each.path) for each in done.problems] == [torn]
    assert _count(spark, out) == {"a": 3, "b": 2, "c": 1}
    again = _refresh(spark, traces, out)
    assert (again.problems, again.runs) == (done.problems, ())  # a damaged part is named as often as one asks
    assert refresh(spark, [first], out, judging=False, measuring=False).present == ("b",)

    # What comes while a file is read is read the next time; and a part without rows belongs to its run too.
    new = records.spool(traces, "d", 0, records.rows(0, 1))

    def keep_and_grow(bronze: Bronze, *, rows_too: bool) -> Bronze:
        found = kept(bronze, rows_too=rows_too)
        new.write_bytes(begin_spool(records.header("d", 0)) + b"".join(map(encode_row, records.rows(0, 5))))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(stages, "kept", keep_and_grow)
        refresh(spark, [new], out, judging=False, measuring=False)
    assert _count(spark, out)["d"] == 2
    grown = records.spool(traces, "b", 1, [])
    _refresh(spark, traces, out)
    assert _count(spark, out) == {"a": 3, "b": 3, "c": 1, "d": 6}

    # A run whose files are gone keeps what it has.
    first.unlink()
    grown.write_bytes(grown.read_bytes() + encode_row(records.rows(2, 3)[0]))
    kept_on = _refresh(spark, traces, out)
    assert kept_on.problems == done.problems
    assert kept_on.notes == ("run 'b': 1 files that it was made from are gone; their rows are kept",)
    assert _count(spark, out)["b"] == 4


def _silver(spark: SparkSession, out: Path) -> list[tuple[object, ...]]:
    found = read_table(spark, out / "silver").select("node", "incarnation", "index", "kind", "at", "file", "clients")
    return sorted((tuple(row) for row in found.collect()), key=str)


def _live(place: Path, incarnation: int) -> Path:
    """A part of d4 by a process that may still be there."""
    about = records.header("r", 0, incarnation)
    about = msgspec.structs.replace(about, node="d4", writer="")
    path = part_path(place, about, PARQUET_SUFFIX)
    some = [Row("d4", incarnation, index, index, Recovered(f"d4#{incarnation}")) for index in range(2)]
    write_part(path, about, some, lambda: records.OPEN)
    return path


def test_of_files_that_are_gone_the_rows_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    """One story: what reading all files would have given; a record whose end nobody saw; tables of an older form."""
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    first = records.write(traces, "r", 0, records.rows(0, 3))
    second = records.write(traces, "r", 1, records.rows(4, 5))  # row 3 is lost
    third = records.write(traces, "r", 2, records.rows(5, 6))
    whole = traces / "r" / "whole.parquet"
    write_parquet(whole, "r", [*records.rows(2, 3), *_rows("d2")])
    live = _live(traces, 1)
    _refresh(spark, traces, out)
    records.spool(traces, "r", 3, records.rows(6, 8))
    _refresh(spark, traces, tmp_path / "all")
    for path in (first, second, third, whole, live):
        path.unlink()
    _live(traces, 2)  # on the same start of the machine: the first died alone, but it may have written more
    done = _refresh(spark, traces, out)
    assert (len(done.notes), done.problems) == (1, ())
    kept_on, read = ([row for row in _silver(spark, each) if row[0] != "d4"] for each in (out, tmp_path / "all"))
    assert kept_on == read
    kinds = [row[3] for row in kept_on]
    assert (kinds.count("gap"), kinds.count("crash"), len(kinds)) == (1, 1, 11)
    ends = {row[1]: row[3] for row in _silver(spark, out) if row[0] == "d4"}
    assert ends == {1: "truncated", 2: "truncated"}

    records.spool(traces, "r", 4, records.rows(8, 9))
    done = _refresh(spark, traces, out)
    assert done.notes == ("run 'r': 5 files that it was made from are gone; their rows are kept",)
    made = manifests(out / "silver")["r"]
    notes = read_notes(out / "silver", made) or b""
    for told in (str(made.inputs), notes.decode()):  # what has long been gone is told of as one
        assert [str(path) in told for path in (first, third, whole, live)] == [False, True, True, True]
        assert told.count(str(second)) == told.count(f"{second}.merged") > 0
    grown = [row for row in _silver(spark, out) if row[0] != "d4"]
    assert {row[:5] for row in kept_on if row[3] != "crash"} < {row[:5] for row in grown}
    assert (len(grown), {row[5] for row in grown[:2]}) == (len(kept_on) + 1, {f"{second}.merged"})

    [manifest] = (out / "silver" / "manifests").glob("*.json")
    manifest.write_bytes(manifest.read_bytes().replace(b'"format":3', b'"format":2'))
    told = [_refresh(spark, traces, out).notes]
    records.spool(traces, "r", 5, records.rows(9, 10))
    told.append(_refresh(spark, traces, out).notes)
    assert ["older form" in each for notes in told for each in notes] == [True]  # and once
    lost = [row[3] for row in _silver(spark, out) if row[0] == ""]
    assert lost == ["truncated"]  # so nothing is judged as if it were whole


def test_a_file_that_fails_when_it_is_read_again_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    write_parquet(traces / "a1.parquet", "a", _rows("d1"))
    write_parquet(traces / "a2.parquet", "a", _rows("d2"))

    def keep_and_fail(bronze: Bronze, *, rows_too: bool) -> Bronze:
        found = kept(bronze, rows_too=rows_too)
        (traces / "a2.parquet").write_bytes(b"PAR1")
        return found

    monkeypatch.setattr(stages, "kept", keep_and_fail)
    done = _refresh(spark, traces, out)
    assert [Path(each.path).name for each in done.problems] == ["a2.parquet"]
    assert _count(spark, out) == {"a": 2}


def test_how_much_is_to_be_read_is_known_before(tmp_path: Path) -> None:
    """Of a run of which more comes, all of it; so it gets a session of the right size."""
    out, traces = tmp_path / "out", tmp_path / "traces"
    inputs = (f"70:1:{traces}/r/1.parquet", f"5:1:{traces}/r/2.parquet")
    other = Manifest("other", "x", 0, "", (f"9:1:{traces}/other/1.parquet",))
    for manifest in (Manifest("r", "x", 0, "", inputs), other):
        _write_manifest(out / "silver" / "manifests" / f"{manifest.run}.json", manifest)
    assert bytes_of_runs(out, [traces / "r" / "2.parquet"]) == 79  # nothing is judged yet
    for table, maker in (("verdicts", stages.JUDGES), ("metrics", stages.MEASURES)):
        judged = Manifest("other", "y", 0, "", ("x", maker))
        _write_manifest(out / table / "manifests" / "other.json", judged)
        _write_manifest(out / table / "manifests" / "r.json", msgspec.structs.replace(judged, run="r"))
    assert bytes_of_runs(out, [traces / "r" / "2.parquet"]) == 70
    assert bytes_of_runs(out, [traces / "new" / "1.parquet"]) == 0


def test_a_table_has_the_columns_that_are_written_down(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1)], "run string, place int")
    assert stages.formed(rows, "place bigint, run string").columns == ["place", "run"]
    for form in ("run string", "run string, place int, more int"):
        with pytest.raises(AssertionError):
            stages.formed(rows, form)
