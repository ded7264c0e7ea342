"""The form of a metric: many single measurements become one row per run, metric, dimension and key.

Percentiles are exact. A measurement may stand for many (the messages of a bundle, its receivers): its weight says how
many. So all metrics are one union and one group-by.

Implements: [DESIGN 5], metrics. Deviations: none.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

MEASURED = ("run", "metric", "unit", "dimension", "key", "place", "width")
"""What a row of the table is about: ``place`` orders the keys of a dimension, ``width`` is a step's length in it."""
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
METRICS = (
    "run string, metric string, unit string, dimension string, key string, place double, width double, count bigint, "
    "total double, mean double, least double, p50 double, p90 double, p99 double, p999 double, most double, "
    "quantiles array<double>"
)
ALL = "all"
"""The dimension of what is not divided."""


def dimension(name: str, key: Column, place: Column | None = None, width: Column | None = None) -> Column:
    """One way to divide measurements: the column ``of`` has one or more of these."""
    nothing = F.lit(None).cast("double")
    return F.struct(
        F.lit(name).alias("dimension"),
        key.cast("string").alias("key"),
        (nothing if place is None else place.cast("double")).alias("place"),
        (nothing if width is None else width.cast("double")).alias("width"),
    )


def undivided() -> Column:
    """The dimension of all together."""
    return dimension(ALL, F.lit(""))


def measured(
    rows: DataFrame, metric: Column | str, unit: Column | str, value: Column, weight: Column, *dimensions: Column
) -> DataFrame:
    """These rows as measurements, once for each dimension."""
    name = F.lit(metric) if isinstance(metric, str) else metric
    of_what = F.lit(unit) if isinstance(unit, str) else unit
    kept = rows.select(
        "run",
        name.alias("metric"),
        of_what.alias("unit"),
        F.explode(F.array(*dimensions)).alias("of"),
        value.cast("double").alias("value"),
        weight.cast("bigint").alias("weight"),
    )
    return kept.select("run", "metric", "unit", "of.*", "value", "weight")


def summed(*measurements: DataFrame) -> DataFrame:
    """The table: one row per run, metric, dimension and key."""
    rows = reduce(DataFrame.unionByName, measurements).where("value IS NOT NULL AND weight > 0 AND key IS NOT NULL")
    told = F.percentile("value", list(QUANTILES), F.col("weight"))
    total = F.sum(F.col("value") * F.col("weight"))
    found = rows.groupBy(*MEASURED).agg(
        F.sum("weight").alias("count"), total.alias("total"), told.alias("quantiles")
    )  # fmt: skip
    named = {"least": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "most": 1.0}
    picked = [F.get("quantiles", F.lit(QUANTILES.index(share))).alias(name) for name, share in named.items()]
    mean = (F.col("total") / F.col("count")).alias("mean")
    return found.select(*MEASURED, "count", "total", mean, *picked, "quantiles")
