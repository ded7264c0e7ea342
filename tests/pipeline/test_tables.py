"""Tables by run: replaced as a whole, and never half there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from isotone.core.errors import InputError, MachineError
from isotone.pipeline import tables
from isotone.pipeline.gold import verdict_rows
from isotone.pipeline.report.page import write_report
from isotone.pipeline.tables import (
    Manifest,
    manifests,
    place_of,
    read_notes,
    read_table,
    reading,
    sweep,
    write_runs,
    writing,
)


def _rows(spark: SparkSession, *pairs: tuple[str, int]) -> DataFrame:
    return spark.createDataFrame(list(pairs), "run string, value int")


def _content(spark: SparkSession, table: Path) -> list[tuple[str, int]]:
    return sorted((row["run"], row["value"]) for row in read_table(spark, table).collect())


def test_a_run_is_replaced_and_others_stay(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1), ("a", 2), ("b/c=d e", 3)))
    assert _content(spark, tmp_path) == [("a", 1), ("a", 2), ("b/c=d e", 3)]
    write_runs(tmp_path, _rows(spark, ("a", 5)), inputs={"a": ("x.parquet",)})
    assert _content(spark, tmp_path) == [("a", 5), ("b/c=d e", 3)]
    assert manifests(tmp_path)["a"].rows == 1
    assert manifests(tmp_path)["a"].inputs == ("x.parquet",)
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_one_run_is_read_alone(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1), ("b", 2)))
    assert [row["value"] for row in read_table(spark, tmp_path, ["b"]).collect()] == [2]


_SWEPT = "1000000 --stack full --faults partition,cut,crash,pause,loss,delay,skew,full,link,leave,join,slow,drop,late "
AWKWARD = (
    "",
    "__HIVE_DEFAULT_PARTITION__",
    "x" * 300,
    "x" * 299 + "y",
    f"{_SWEPT}--nodes 5..9 --sites 4 sends=10000 fault_count=20 clients=12",
    "Läufe/東京 🚀",
    "_hidden",
    ".",
    "../up",
    "a*?[b]{c}\\d:e%2F",
    "A",
    "a",
    "2026-01-02",
)


def test_a_run_may_have_any_name(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be the name of a file is not used as one; of Java, under LC_ALL=C, that is all but ASCII."""
    given: list[str] = []

    def noted(table: Path, aside: Path, manifest: Manifest, notes: bytes | None) -> None:
        given.extend(path.name for path in aside.iterdir())
        commit(table, aside, manifest, notes)

    commit = tables._commit
    monkeypatch.setattr(tables, "_commit", noted)
    rows = [(run, place) for place, run in enumerate((*AWKWARD, "good"))]
    write_runs(tmp_path, _rows(spark, *rows), notes={run: run.encode() for run, _ in rows})
    assert _content(spark, tmp_path) == sorted(rows)
    made = manifests(tmp_path)
    assert [read_notes(tmp_path, made[run]) for run, _ in rows] == [run.encode() for run, _ in rows]
    alone = ("", AWKWARD[2], AWKWARD[5])  # then it is written otherwise
    for run in alone:
        write_runs(tmp_path, _rows(spark, (run, -1)), inputs={run: ()})
    assert _content(spark, tmp_path) == sorted((run, -1 if run in alone else place) for run, place in rows)
    names = [path.name for path in (*(tmp_path / "data").iterdir(), *(tmp_path / "manifests").iterdir())]
    assert len(names) == 2 * len(rows)
    assert all(name.isascii() and len(name) < 150 for name in (*names, *given))
    assert len({place_of(run).lower() for run in made}) == len(rows)  # for who knows no capital letters


@pytest.mark.parametrize("name", ["g[1]{a,b}*?\\d", "c:1"])
def test_a_table_may_be_anywhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No part of its path is a pattern or an address; nor of a path from here."""
    monkeypatch.chdir(tmp_path)
    write_runs(tmp_path / name, _rows(spark, ("a", 1), ("b", 2)))
    assert _content(spark, tmp_path / name) == [("a", 1), ("b", 2)]
    write_runs(Path(name), _rows(spark, ("a", 3)), inputs={"a": ()})
    assert _content(spark, Path(name)) == _content(spark, tmp_path / name) == [("a", 3), ("b", 2)]
    with pytest.raises(InputError, match="a colon and one of"), writing(tmp_path / "c:1" / "g[1]"):
        raise AssertionError
    assert not (tmp_path / "c:1" / "g[1]").exists()


def test_a_manifest_that_an_earlier_version_named_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a/b", 1), ("c", 2)))
    for run, name in (("a/b", "a%2Fb.json"), ("c", "c.json")):
        (tmp_path / "manifests" / f"{place_of(run)}.json").rename(tmp_path / "manifests" / name)
    assert _content(spark, tmp_path) == [("a/b", 1), ("c", 2)]
    old = (tmp_path / "manifests" / "a%2Fb.json").read_bytes()
    write_runs(tmp_path, _rows(spark, ("a/b", 3)))
    assert _content(spark, tmp_path) == [("a/b", 3), ("c", 2)]
    names = {path.name for path in (tmp_path / "manifests").iterdir()}
    assert names == {f"{place_of('a/b')}.json", "c.json"}
    (tmp_path / "manifests" / "a%2Fb.json").write_bytes(old)  # as of a job that was killed before it was swept
    made = manifests(tmp_path)["a/b"]
    (tmp_path / "data" / "x").mkdir()
    (tmp_path / "manifests" / "a%2Fb.json").write_bytes(old.replace(b'"rows":1', b'"rows":0'))
    assert manifests(tmp_path)["a/b"] == made
    sweep(tmp_path)
    assert {path.name for path in (tmp_path / "manifests").iterdir()} == names
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_runs_of_two_versions_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1)))
    later = spark.createDataFrame([("b", 2, "x")], "run string, value int, more string")
    write_runs(tmp_path, later)
    found = read_table(spark, tmp_path).orderBy("run").collect()
    assert [row.asDict() for row in found] == [
        {"run": "a", "value": 1, "more": None},
        {"run": "b", "value": 2, "more": "x"},
    ]


def test_rows_of_runs_that_were_not_asked_for_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1), ("b", 2), ("c", 3)))
    write_runs(tmp_path, _rows(spark, ("a", 4), ("b", 5)), inputs={"a": ("x",), "c": ()})
    assert _content(spark, tmp_path) == [("a", 4), ("b", 2)]


@pytest.mark.parametrize("step", ["_commit", "_write_manifest"])
def test_a_job_that_dies_leaves_what_was_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1)))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tables, step, die)
        with pytest.raises(KeyboardInterrupt):
            write_runs(tmp_path, _rows(spark, ("a", 2), ("b", 3)))
    assert _content(spark, tmp_path) == [("a", 1)]
    write_runs(tmp_path, _rows(spark, ("a", 2), ("b", 3)))
    assert _content(spark, tmp_path) == [("a", 2), ("b", 3)]


def test_what_no_manifest_names_is_swept(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1)))
    (tmp_path / "data" / "a-left").mkdir()
    sweep(tmp_path)
    assert len(list((tmp_path / "data").iterdir())) == 1
    assert _content(spark, tmp_path) == [("a", 1)]


def test_rows_that_are_not_those_that_were_told_of_replace_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write_runs(tmp_path, _rows(spark, ("a", 1)), notes={"a": b"beside"})

    def check(counts: Mapping[str, int]) -> None:
        assert counts == {"a": 2}
        raise LookupError

    with pytest.raises(LookupError):
        write_runs(tmp_path, _rows(spark, ("a", 2), ("a", 3)), check=check)
    assert _content(spark, tmp_path) == [("a", 1)]
    assert read_notes(tmp_path, manifests(tmp_path)["a"]) == b"beside"


def test_a_run_whose_rows_were_removed_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "a.json").write_text('{"run":"a","directory":"x","rows":1,"schema":""}')
    assert manifests(tmp_path) == {}
    (tmp_path / "data" / "x").mkdir(parents=True)
    assert list(manifests(tmp_path)) == ["a"]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "some" / "out"
    with writing(out), pytest.raises(MachineError, match="another process reads or writes there"), writing(out):
        raise AssertionError
    with writing(out):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="Not a directory"), writing(tmp_path / "file" / "out"):
        raise AssertionError


def test_nobody_writes_while_somebody_reads(spark: SparkSession, tmp_path: Path) -> None:
    """What a report is made of must not be swept away beneath it, and is not read while it is replaced."""
    refused = pytest.raises(MachineError, match="another process reads or writes there")
    with reading(tmp_path), reading(tmp_path), refused, writing(tmp_path):
        raise AssertionError
    with writing(tmp_path):
        for read in (lambda: verdict_rows(spark, tmp_path), lambda: write_report(spark, tmp_path, tmp_path / "page")):
            with pytest.raises(MachineError, match="another process writes there"):
                read()
    with writing(tmp_path) as held:
        held.share()
        with reading(tmp_path), refused, writing(tmp_path):
            raise AssertionError
    with reading(tmp_path / "not there"):
        assert not (tmp_path / "not there").exists()


def test_no_runs_and_newer_formats_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs"):
        read_table(spark, tmp_path)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "a.json").write_text('{"run":"a","directory":"x","rows":1,"schema":"","format":9}')
    with pytest.raises(InputError, match="newer"):
        manifests(tmp_path)
