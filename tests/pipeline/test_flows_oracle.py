"""What the rings of recorded runs produced equals what Spark computes from the nodes' values, for all programs."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from isotone.flows.library import PROGRAMS
from isotone.pipeline.flow_rules import decisions_of, wrong_contributions, wrong_decisions, wrong_outputs
from isotone.pipeline.flows import differences, expected, parts_of, results_of, sources
from isotone.sim.flows.run import draw_terms
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.trace import flows as trace
from isotone.trace.events import Row

SETTING = Setting(system="flows", stack="rings", size=Size.SMALL)


def recorded(program: str) -> list[Row]:
    """A run at least two rings deep; all that was recorded of flows."""
    return list(_recorded(program))


@cache
def _recorded(program: str) -> tuple[Row, ...]:
    system = system_named("flows")
    for seed in range(1, 100):
        terms = draw_terms(seed)
        plan = draw_plan(system, SETTING, seed)
        deep = max(node.site.count(".") for node in plan.topology.nodes) >= 1
        if terms.program == program and deep and terms.ranges_max == 100:
            rows: list[Row] = []
            play_plan(system, plan, rows.append)
            return tuple(rows)
    raise AssertionError(program)


def rules_of(rows: list[Row]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(r.entry.rules for r in rows if isinstance(r.entry, trace.FlowStarted)))
    return found


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_rings_and_spark_agree(spark: SparkSession, program: str) -> None:
    rows = recorded(program)
    results = results_of(spark, rows).cache()
    wanted = expected(sources(parts_of(spark, rows), results), rules_of(rows)).cache()
    assert results.count() >= 10 and wanted.agg({"nodes": "max"}).first()[0] >= 2  # type: ignore[index]
    assert differences(results, wanted).collect() == []
    (last,) = results.orderBy(F.desc("number"), F.desc("round"), "place").limit(1).collect()
    is_last = (F.col("number") == last["number"]) & (F.col("round") == last["round"]) & (F.col("place") == 0)
    spoilt = results.withColumn("amount", F.when(is_last, F.lit(99)).otherwise(F.col("amount")))
    found = [(each["number"], each["round"], each["place"]) for each in differences(spoilt, wanted).collect()]
    assert found == [(last["number"], last["round"], 0)], "a wrong result is noticed"


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_nodes_and_root_compute_what_spark_computes(spark: SparkSession, program: str) -> None:
    """From the nodes' inputs to what they hear: client rules, root rules over the aggregates, what comes down."""
    rows = recorded(program)
    rules = rules_of(rows)
    decisions = decisions_of(spark, rows, rules)
    assert decisions.count() >= 5
    assert wrong_contributions(spark, rows, rules).collect() == []
    assert wrong_decisions(decisions, rules).collect() == []
    assert wrong_outputs(spark, rows, decisions, rules).collect() == []


def test_spark_notices_a_wrong_vote_and_a_wrong_decision(spark: SparkSession) -> None:
    rows = recorded("commit")
    vote = next(place for place, row in enumerate(rows) if is_vote(row))
    made = max(place for place, row in enumerate(rows) if isinstance(row.entry, trace.Decided))
    spoil(rows, vote, values='[["s", -1, 77, 77], ["s", -1]]')
    spoil(rows, made, flows=json.dumps({**json.loads(rows[made].entry.flows), "D": ["d", 0, [99, 99], []]}))  # type: ignore[attr-defined]
    rules = rules_of(rows)
    decisions = decisions_of(spark, rows, rules)
    assert len(wrong_contributions(spark, rows, rules).collect()) == 1
    assert len(wrong_decisions(decisions, rules).collect()) == 1
    assert wrong_outputs(spark, rows, decisions, rules).collect()


def is_vote(row: Row) -> bool:
    return isinstance(row.entry, trace.Contributed) and row.entry.origin.startswith("input ")


def spoil(rows: list[Row], place: int, **values: str) -> None:
    row = rows[place]
    rows[place] = Row(row.node, row.incarnation, row.index, row.at, msgspec.structs.replace(row.entry, **values))
