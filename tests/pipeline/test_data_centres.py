"""Records of data centres: Spark finds what the plain checkers find, on the path of large runs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.bronze import problems, read_bronze
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.silver import silver
from isotone.spec.check import check
from isotone.spec.hab_properties import HAB_PROPERTIES
from isotone.trace.events import Ended, Row, Stabilised
from isotone.trace.parquet import write_parquet
from tests.hab.test_checker_hab import BROKEN, GOOD, Script

LABELS = [each.id for each in HAB_PROPERTIES]
JUDGED = ("HAB-VALIDITY", "HAB-FENCED", "HAB-ASSUME-ACCURACY", "HAB-ASSUME-COMPLETE")
"""Of a safety property, of one that is owed at the end, and of those that look at when something was."""

Outcome = dict[str, tuple[str, tuple[tuple[str, int, int], ...]]]


def rows_of(script: Script, alive: tuple[str, ...]) -> list[Row]:
    """As a run that came to rest with these processes."""
    rows: list[Row] = []
    indexes: dict[str, int] = {}
    for at, (node, entry) in enumerate((*script, ("", Stabilised((alive,))), ("", Ended(quiet=True)))):
        indexes[node] = indexes.get(node, -1) + 1
        rows.append(Row(node, 1 if node else 0, indexes[node], at, entry))
    return rows


def runs() -> dict[str, list[Row]]:
    broken = {label: rows_of(*BROKEN[label]) for label in JUDGED}
    return {"good": rows_of(GOOD, ("a1", "b1", "c1")), **broken}


def plain(rows: list[Row]) -> Outcome:
    found = check(rows).verdicts
    return {
        label: (found[label].state.value, violation.witness if (violation := found[label].violation) else ())
        for label in LABELS
    }


def test_spark_finds_what_the_plain_checkers_find(spark: SparkSession, tmp_path: Path) -> None:
    for number, (run, rows) in enumerate(runs().items()):
        write_parquet(tmp_path / f"{number}.parquet", run, rows)
    bronze = read_bronze(spark, [tmp_path])
    assert problems(bronze) == ()
    expected = {run: plain(each) for run, each in runs().items()}
    assert {run: violated(told) for run, told in expected.items()} == {"good": [], **{each: [each] for each in JUDGED}}
    found: dict[str, Outcome] = {}
    for row in judge(silver(bronze.rows), whole_rows_max=0).where(F.col("label").startswith("HAB-")).collect():
        witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"] or ())
        found.setdefault(row["run"], {})[row["label"]] = (row["state"], witness)
    assert found == expected


def violated(told: Outcome) -> list[str]:
    return [label for label, (state, _) in told.items() if state == "violated"]
