"""The survey: long valid runs are judged by it alone, and what is wrong in one row is looked at by few."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isotone.bench.pipeline_trace import HotGroup, Load, write_trace
from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.conformance.survey.facts import Facts, Side, Stay, View, decode, encode
from isotone.pipeline.conformance.survey.people import CLIENTS, DAEMONS, home, lasting_name
from isotone.pipeline.conformance.survey.table import survey, suspects
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.silver import silver
from isotone.spec.check import check

GOOD = Load(deliveries=30_000, change_every=20, clients_per_node=2, messages=(1, 6))
BROKEN = Load(deliveries=30_000, change_every=20, clients_per_node=2, messages=(1, 6), planted=True)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("long")
    write_trace(place, "good", GOOD)
    write_trace(place, "broken", BROKEN)
    return place


def test_one_bad_row_among_many_is_found_and_nothing_else(spark: SparkSession, traces: Path) -> None:
    rows = silver(read_bronze(spark, [traces]).rows).localCheckpoint(eager=True)
    surveyed = survey(rows)
    doubts = {(row["run"], row["id"]) for row in surveyed.found.where("is_doubtful").collect()}
    assert doubts == {("broken", "2.6")}
    looked_at = suspects(rows, surveyed)
    assert {row["run"] for row in looked_at.select("run").distinct().collect()} == {"broken"}
    assert looked_at.count() < rows.where("run = 'broken'").count() / 2
    found = {(row["run"], row["label"]): row for row in judge(rows).collect()}
    for run, load in (("good", GOOD), ("broken", BROKEN)):
        plain = check(list(HotGroup(load)))
        for label, verdict in plain.verdicts.items():
            row = found[(run, label)]
            witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"] or ())
            expected = verdict.violation.witness if verdict.violation else ()
            assert (row["state"], witness) == (verdict.state.value, expected), (run, label)


def test_facts_travel_as_they_are() -> None:
    view = (7, "d1", 1, 0, "", 0, 3, "d2", 1)
    stay = Stay("#a#d1#1#1", "g", 4, -5, ("#a#d1#1#1",), None, 4, view, low=(3, "d2", 1), signal=9)
    side = Side(
        is_seen=True,
        views=(View("g", -5, view, ("#a#d1#1#1",)),),
        stays=(stay,),
        heard=(("g", -5, {"#b#d2#1#1": (3, "d2", 1), "#c#d2#1#2": None}),),
        ended={"#a#d1#1#1": 12},
    )
    facts = Facts("d1", 1, components=(("d1", "d2"), ("d3",)), quiet=True, sides=(side, Side()))
    assert decode(encode(facts)) == facts


@pytest.mark.parametrize(
    ("boundary", "text", "expected", "name"),
    [
        (CLIENTS, "#a#d1#3#17", ("d1", 3), "#a#d1"),
        (CLIENTS, "#a#d1", ("", -1), "#a#d1"),
        (CLIENTS, "#a#d1#x#17", ("", -1), "#a#d1#x#17"),
        (DAEMONS, "d1#3", ("d1", 3), "d1"),
        (DAEMONS, "a#b#3", ("a#b", 3), "a#b"),
        (DAEMONS, "d1", ("", -1), ""),
    ],
)
def test_what_the_text_of_a_process_says(boundary: int, text: str, expected: tuple[str, int], name: str) -> None:
    assert home(boundary, text) == expected
    assert lasting_name(boundary, text) == name
