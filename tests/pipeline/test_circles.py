"""Where circles are looked for: in stretches of stamps, each by itself."""

from __future__ import annotations

from pyspark.sql import SparkSession

from isotone.pipeline.conformance.circles import _doubts

FORM = "run string, node string, incarnation int, index int, is_send boolean, stamp int"
TOLD = {"a": [(7, False), (5, True)], "b": [(9, False), (6, True)], "c": [(25, False), (20, True)], "d": [(30, True)]}
"""Of each node, deliveries and sends in their order: those of a and b overlap, that of c lies above, d is in order."""


def test_stretches_that_overlap_are_one(spark: SparkSession) -> None:
    rows = [
        ("r", node, 1, index, is_send, stamp)
        for node, told in TOLD.items()
        for index, (stamp, is_send) in enumerate(told)
    ]
    told = spark.createDataFrame([*rows, ("other", "a", 1, 0, False, 9), ("other", "a", 1, 1, True, 9)], FORM)
    found = _doubts(told.where("NOT is_send"), told.where("is_send")).collect()
    assert sorted((row["run"], row["low"], row["high"]) for row in found) == [
        ("other", 9, 9),
        ("r", 5, 9),
        ("r", 20, 25),
    ]
    assert len({(row["run"], row["stretch"]) for row in found}) == 3
