"""Figure 10 of [Flows] as a sweep: each point at each seed is a Spark task, and Spark takes the means over the seeds.

Implements: [Flows 4.1], [DESIGN 5] (sweep). Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from isotone.sim.flows.figures import phase_points, phase_row
from isotone.trace.parquet import require_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POINT = "nodes long, mttf_s double, detection_s double, seed long, probes long"
MEASURED = (
    f"{POINT}, layers long, phase_s double, phases long, views_per_s double, cpu_per_virtual_s double, cpu_s double"
)


def phase_sweep(spark: SparkSession, daemons: int, seeds: Sequence[int], probes: int) -> DataFrame:
    """One row for each point and seed; the largest first, so that no task is left over at the end."""
    points = [(*point, seed, probes) for point in phase_points(daemons) for seed in seeds]
    points.sort(key=lambda point: -point[0])
    jobs = spark.createDataFrame(points, POINT).repartitionByRange(
        len(points), F.desc("nodes"), "mttf_s", "detection_s", "seed"
    )
    return jobs.mapInArrow(_play, MEASURED)


def _play(batches: Iterable[Any]) -> Iterator[Any]:
    arrow = require_pyarrow()
    for batch in batches:
        for point in batch.to_pylist():
            row = phase_row(*point.values())
            spent = row["cpu_per_virtual_s"] * (0.5 * row["layers"] + 0.3) * point["probes"]
            told = {name: row[name] for name in ("layers", "phase_s", "phases", "views_per_s", "cpu_per_virtual_s")}
            yield arrow.RecordBatch.from_pylist([{**point, **told, "cpu_s": spent}])


def means(measured: DataFrame) -> DataFrame:
    """By size and mean time to failure, over the seeds."""
    return (
        measured.groupBy("nodes", "mttf_s", "detection_s")
        .agg(
            F.first("layers").alias("layers"),
            F.round(F.avg("phase_s"), 3).alias("phase_s"),
            F.sum("phases").alias("phases"),
            F.round(F.avg("views_per_s"), 1).alias("views_per_s"),
            F.round(F.avg("cpu_per_virtual_s"), 3).alias("cpu_per_virtual_s"),
            F.round(F.sum("cpu_s"), 1).alias("cpu_s"),
        )
        .orderBy(
            "nodes",
            F.when(F.col("mttf_s") == 0, F.lit(float("inf"))).otherwise(F.col("mttf_s")).desc(),
            F.desc("detection_s"),
        )
    )


def figure_rows(found: DataFrame) -> list[dict[str, Any]]:
    """As `isotone sim figure flows-10` has them."""
    return [{**row.asDict(), "mttf_s": row["mttf_s"] or "never"} for row in found.collect()]
