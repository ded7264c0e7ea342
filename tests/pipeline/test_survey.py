"""The survey: long valid runs are judged by it alone, and what is wrong in one row is looked at by few."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from isotone.bench.pipeline_trace import HotGroup, Load, write_trace
from isotone.core.services import Service
from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.conformance.survey.facts import Facts, Side, Stay, View, decode, encode
from isotone.pipeline.conformance.survey.past import clear_causal
from isotone.pipeline.conformance.survey.people import CLIENTS, DAEMONS, home, lasting_name
from isotone.pipeline.conformance.survey.table import survey, suspects
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.silver import silver
from isotone.spec.check import check
from isotone.spec.verdicts import State
from isotone.trace.events import Delivered, Row, Sent
from isotone.trace.jsonl import read_jsonl
from isotone.trace.parquet import write_parquet

TRACES = Path(__file__).parents[1] / "traces"

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


def _more(rows: list[Row]) -> list[Row]:
    """Another causal message of the second sender, at its end; so that its own order could have been wrong."""
    *_, first, _, _ = rows
    assert isinstance(first.entry, Sent)
    sent = msgspec.structs.replace(first.entry, first_sequence=2)
    had = next(row.entry for row in rows if isinstance(row.entry, Delivered) and row.entry.service is Service.CAUSAL)
    delivered = msgspec.structs.replace(had, first_sequence=2, lamport=3)
    return [*rows, Row("d2", 1, 4, 4, sent), Row("d3", 1, 4, 4, delivered)]


def test_messages_that_overtook_others_unknowingly_are_cleared(spark: SparkSession, tmp_path: Path) -> None:
    known = _more(list(read_jsonl(TRACES / "2.12.2" / "broken-clients.jsonl").rows()))
    unknown = list(known)
    places = [place for place, row in enumerate(known) if row.node == "d2" and row.index in (2, 3)]
    entries = [known[place].entry for place in reversed(places)]  # the answer is sent before the question is heard
    for place, entry in zip(places, entries, strict=True):
        unknown[place] = msgspec.structs.replace(known[place], entry=entry)
    for run, told in (("known", known), ("unknown", unknown)):
        write_parquet(tmp_path / f"{run}.parquet", run, told)
    rows = silver(read_bronze(spark, [tmp_path]).rows).localCheckpoint(eager=True)
    surveyed = survey(rows)
    before, after = (
        {row["run"] for row in each.found.where("id = '2.12.2' AND is_doubtful").collect()}
        for each in (surveyed, clear_causal(rows, surveyed))
    )
    assert (before, after) == ({"known", "unknown"}, {"known"})
    assert check(known).verdicts["EVS-2.12.2"].state is State.VIOLATED
    assert check(unknown).verdicts["EVS-2.12.2"].state is State.HOLDS


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
