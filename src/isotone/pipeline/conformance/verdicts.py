"""From what the checks found to verdicts: one row per run and label.

Implements: [DESIGN 4], verdicts. Deviations: none.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.conformance.normal import Normal, normal_form
from isotone.pipeline.conformance.registry import CHECKS, Check
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS, NETWORK
from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.spec.verdicts import State

BATCHES = 6
BATCHES_AT_ONCE = 3
"""Planning a query keeps one thread of the driver busy and the workers idle, so some queries are under way together."""
_SIDES = {Boundary.CLIENTS: CLIENTS, Boundary.DAEMONS: DAEMONS, Boundary.NETWORK: NETWORK}


def judge(silver: DataFrame) -> DataFrame:
    """All verdicts of all runs: run, label, state, witness."""
    return judge_normal(normal_form(silver)).localCheckpoint(eager=True)


def judge_normal(normal: Normal) -> DataFrame:
    """The same from the normal form; some checks together are one query, with a row per run and boundary as outcome."""
    spark = normal.rows.sparkSession
    checks = list(dict.fromkeys(CHECKS.values()))
    batches = [checks[place::BATCHES] for place in range(BATCHES)]
    with ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
        outcomes = [each for each in pool.map(partial(_outcomes, normal), batches) if each is not None]
    found = reduce(DataFrame.unionByName, outcomes)
    wanted = normal.runs.crossJoin(F.broadcast(_labels(spark)))
    judged = wanted.join(found, on=["run", "id", "boundary"], how="left")
    state = _state()
    witness = F.when(state == State.VIOLATED.value, F.col("witness"))
    return judged.select("run", "label", state.alias("state"), witness.alias("witness"), "place").orderBy(
        "run", "place"
    )


def _outcomes(normal: Normal, checks: list[Check]) -> DataFrame | None:
    """What these checks found, under each id that they judge."""
    found = [outcome for check in checks if (outcome := _outcome(normal, check)) is not None]
    return reduce(DataFrame.unionByName, found).localCheckpoint(eager=True) if found else None


def _outcome(normal: Normal, check: Check) -> DataFrame | None:
    ids = F.array(*(F.lit(id) for id, each in CHECKS.items() if each is check))
    findings = check(normal)
    if findings is None:
        return None
    return findings.select(
        F.explode(ids).alias("id"), "run", "boundary", "witness", F.lit(True).alias("is_exercised")
    )  # fmt: skip


def _labels(spark: SparkSession) -> DataFrame:
    rows = [
        (each.id.removeprefix("EVS-"), side, each.label(boundary), each.form is Form.LIVENESS)
        for boundary, side in _SIDES.items()
        for each in PROPERTIES
        if boundary in each.boundaries and each.id.removeprefix("EVS-") in CHECKS
    ]
    placed = [(*row, place) for place, row in enumerate(rows)]
    return spark.createDataFrame(placed, "id string, boundary int, label string, is_liveness boolean, place int")


def _state() -> Column:
    """As `isotone.spec.check.tally` has it."""
    lively = F.col("is_liveness")
    unquiet = lively & F.coalesce(~F.col("quiet"), F.lit(False))
    unstable = lively & (F.col("components").isNull() | F.col("quiet").isNull())
    return (
        F.when(F.col("witness").isNotNull() & ~unquiet & ~unstable, State.VIOLATED.value)
        .when(F.col("is_lossy") | unquiet, State.NOT_JUDGED.value)
        .when(unstable | F.col("is_exercised").isNull(), State.NOT_EXERCISED.value)
        .otherwise(State.HOLDS.value)
    )
