"""From what the checks found to verdicts: one row per run and label.

A survey of all runs comes first. What it leaves in doubt is looked at exactly: only these runs, only these properties.

Implements: [DESIGN 4], verdicts. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline.conformance.given import given
from isotone.pipeline.conformance.layers import judge_layers
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.registry import CHECKS, Check
from isotone.pipeline.conformance.survey.judging import EVERYTHING, RUN
from isotone.pipeline.conformance.survey.past import clear_causal
from isotone.pipeline.conformance.survey.table import survey, suspects
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS, NETWORK
from isotone.pipeline.conformance.whole_runs import LABELS_MAX, WHOLE_ROWS_MAX, judge_whole_runs
from isotone.pipeline.little import as_one, rows_of
from isotone.pipeline.schema import WITNESS
from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.spec.verdicts import State

BATCHES = 6
BATCHES_AT_ONCE = 3
"""Planning a query keeps one thread of the driver busy and the workers idle, so some queries are under way together."""
_SIDES = {Boundary.CLIENTS: CLIENTS, Boundary.DAEMONS: DAEMONS, Boundary.NETWORK: NETWORK}
_FOUND = ("run", "boundary", "id", "is_exercised", "is_unknown", "witness")


def judge(silver: DataFrame, *, whole_rows_max: int = WHOLE_ROWS_MAX) -> DataFrame:
    """All verdicts of all runs: run, label, state, witness, place.

    Runs of up to so many rows are judged by the plain checker, each in a task; the others by queries.
    """
    silver = as_one(silver)
    if not whole_rows_max:
        return judge_large_runs(silver)
    counts = {row["run"]: row["count"] for row in silver.groupBy("run").count().collect()}
    large = sorted(run for run, count in counts.items() if count > whole_rows_max)
    if not large:
        return judge_whole_runs(silver).orderBy("run", "place").localCheckpoint(eager=True)
    if len(large) == len(counts):
        return judge_large_runs(silver)
    is_large = F.col("run").isin(*large)
    found = judge_whole_runs(silver.where(~is_large)).unionByName(judge_large_runs(silver.where(is_large)))
    return found.orderBy("run", "place").localCheckpoint(eager=True)


def judge_large_runs(silver: DataFrame) -> DataFrame:
    """The same by queries over all rows of all these runs at once."""
    silver = given(silver)
    surveyed = clear_causal(silver, survey(silver))
    found = surveyed.found
    doubts = found.where("is_doubtful").select("run", "boundary", "id", "is_exercised")
    ids = {id for row in doubts.agg(F.collect_set("id").alias("ids")).collect() for id in row["ids"]}
    runs = found.where(F.col("id") == RUN).select("run", "is_lossy", "quiet", "components")
    clear = found.where("is_exercised AND NOT is_doubtful").select(
        *_FOUND[:4], F.lit(False).alias("is_unknown"), F.lit(None).cast(WITNESS).alias("witness")
    )
    if EVERYTHING in ids:  # of such runs all is looked at exactly
        whole = F.broadcast(doubts.where(F.col("id") == EVERYTHING).select("run"))
        clear = clear.join(whole, on="run", how="left_anti")
    if ids:
        wanted = tuple(CHECKS) if EVERYTHING in ids else sorted(ids & CHECKS.keys())
        exact = judge_exactly(suspects(silver, surveyed), wanted)
        clear = clear.unionByName(_only(exact, doubts))
    found = _verdicts(runs, clear)
    for layer in judge_layers(silver, runs, LABELS_MAX):
        found = found.unionByName(layer)
    return found.orderBy("run", "place").localCheckpoint(eager=True)


def _only(exact: DataFrame, doubts: DataFrame) -> DataFrame:
    """Of what the exact look found, what was in doubt; what the survey knew to be exercised stays so."""
    blank = {"is_unknown": F.lit(False), "witness": F.lit(None).cast(WITNESS)}
    known = doubts.where("is_exercised").withColumns(blank).select(*_FOUND)
    both = _wanted(exact, doubts).unionByName(known)
    return both.groupBy("run", "boundary", "id").agg(
        F.max("is_exercised").alias("is_exercised"),
        F.max("is_unknown").alias("is_unknown"),
        F.min("witness").alias("witness"),
    )


def _wanted(exact: DataFrame, doubts: DataFrame) -> DataFrame:
    doubts = doubts.select("run", "boundary", "id")
    wanted = F.broadcast(doubts.withColumnsRenamed({"run": "_run", "boundary": "_boundary", "id": "_id"}))
    same = (F.col("id") == F.col("_id")) & (F.col("boundary") == F.col("_boundary"))
    every = F.col("_id") == EVERYTHING
    return exact.join(wanted, on=(F.col("run") == F.col("_run")) & (same | every), how="left_semi")


def judge_exactly(rows: DataFrame, ids: Sequence[str]) -> DataFrame:
    """These properties without a survey; some checks together are one query, with a row per run and boundary."""
    normal = Normal(rows)
    checks = list(dict.fromkeys(CHECKS[id] for id in ids))
    normal.prepare(checks)
    batches = [each for place in range(BATCHES) if (each := checks[place::BATCHES])]
    with ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
        outcomes = [each for each in pool.map(partial(_outcomes, normal), batches) if each is not None]
    if not outcomes:
        return rows_of(
            rows.sparkSession,
            [],
            f"run string, boundary int, id string, is_exercised boolean, is_unknown boolean, witness {WITNESS}",
        )
    return reduce(DataFrame.unionByName, outcomes)


def _outcomes(normal: Normal, checks: list[Check]) -> DataFrame | None:
    """What these checks found, under each id that they judge."""
    found = [outcome for check in checks if (outcome := _outcome(normal, check)) is not None]
    return reduce(DataFrame.unionByName, found).localCheckpoint(eager=True) if found else None


def _outcome(normal: Normal, check: Check) -> DataFrame | None:
    ids = F.array(*(F.lit(id) for id, each in CHECKS.items() if each is check))
    findings = check(normal)
    if findings is None:
        return None
    is_unknown = F.col("is_unknown") if "is_unknown" in findings.columns else F.lit(False)
    told = findings.select("run", "boundary", F.explode(ids).alias("id"), is_unknown.alias("is_unknown"), "witness")
    return told.withColumn("is_exercised", F.lit(True)).select(*_FOUND)


def _verdicts(runs: DataFrame, found: DataFrame) -> DataFrame:
    wanted = runs.crossJoin(F.broadcast(_labels(runs.sparkSession)))
    judged = wanted.join(found, on=["run", "id", "boundary"], how="left")
    state = _state()
    witness = F.when(state == State.VIOLATED.value, F.col("witness"))
    return judged.select("run", "label", state.alias("state"), witness.alias("witness"), "place")


def _labels(spark: SparkSession) -> DataFrame:
    rows = [
        (each.id.removeprefix("EVS-"), side, each.label(boundary), each.form is Form.LIVENESS)
        for boundary, side in _SIDES.items()
        for each in PROPERTIES
        if boundary in each.boundaries and each.id.removeprefix("EVS-") in CHECKS
    ]
    placed = [(*row, place) for place, row in enumerate(rows)]
    return rows_of(spark, placed, "id string, boundary int, label string, is_liveness boolean, place int")


def _state() -> Column:
    """As `isotone.spec.check.tally` has it."""
    lively = F.col("is_liveness")
    unquiet = lively & F.coalesce(~F.col("quiet"), F.lit(False))
    unstable = lively & (F.col("components").isNull() | F.col("quiet").isNull())
    return (
        F.when(F.col("witness").isNotNull() & ~unquiet & ~unstable, State.VIOLATED.value)
        .when(F.col("is_lossy") | unquiet | F.coalesce("is_unknown", F.lit(False)), State.NOT_JUDGED.value)
        .when(unstable | F.col("is_exercised").isNull(), State.NOT_EXERCISED.value)
        .otherwise(State.HOLDS.value)
    )
