"""The survey: long valid runs are judged by it alone, and what is wrong in one row is looked at by few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product, starmap
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.bench.pipeline_trace import HotGroup, Load, write_trace
from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.conformance.survey import table
from isotone.pipeline.conformance.survey.bundles import bundles
from isotone.pipeline.conformance.survey.companies import bare, judge_companies
from isotone.pipeline.conformance.survey.facts import INSTALLED, LEFT, Facts, Side, Stay, View, ViewId, decode, encode
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.judging import EVERYTHING, JUDGED, judge_run
from isotone.pipeline.conformance.survey.past import clear_causal
from isotone.pipeline.conformance.survey.people import CLIENTS, DAEMONS, home, lasting_name
from isotone.pipeline.conformance.survey.run import Boundary, Held, Loose
from isotone.pipeline.conformance.survey.safe import Way, judge_safe
from isotone.pipeline.conformance.survey.steps import told
from isotone.pipeline.conformance.survey.table import Survey, survey, suspects
from isotone.pipeline.conformance.survey.views import comparable
from isotone.pipeline.conformance.terms import NETWORK
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.silver import silver
from isotone.spec.check import check
from isotone.spec.verdicts import State
from isotone.trace.events import Crashed, Delivered, Gap, Row, Sent, Truncated
from isotone.trace.jsonl import read_jsonl
from isotone.trace.parquet import write_parquet

TRACES = Path(__file__).parents[1] / "traces"
replace = msgspec.structs.replace
ABOVE = f"boundary != {NETWORK}"
"""Of the network: a node whose last rows are lost has not received what others have, and that is looked at."""
PAIR = ("#a#d1#1#1", "#b#d2#1#1")

LONG = {
    "good": Load(deliveries=30_000, change_every=20, clients_per_node=2, messages=(1, 6)),
    "broken": Load(deliveries=30_000, change_every=20, clients_per_node=2, messages=(1, 6), planted=True),
}
CUT = Load(deliveries=4000, nodes=4, change_every=20, clients_per_node=2, messages=(1, 6))


class Surveyed(NamedTuple):
    """All runs of `_runs` read and surveyed together, for each query takes its time."""

    rows: DataFrame
    survey: Survey

    def doubts(self, found: DataFrame | None = None) -> set[tuple[str, str]]:
        """Which property of which run."""
        some = self.survey.found if found is None else found
        return {(row["run"], row["id"]) for row in some.where("is_doubtful").collect()}


def _runs() -> dict[str, list[Row]]:
    known = _known()
    return {"known": known, "unknown": _unknown(known), "cut": list(_broken_off(list(HotGroup(CUT))))}


@pytest.fixture(scope="module")
def surveyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Surveyed:
    place = tmp_path_factory.mktemp("surveyed")
    for run, load in LONG.items():
        write_trace(place, run, load)
    for run, rows in _runs().items():
        write_parquet(place / f"{run}.parquet", run, rows)
    silver_rows = silver(read_bronze(spark, [place]).rows).localCheckpoint(eager=True)
    return Surveyed(silver_rows, survey(silver_rows))


def test_one_bad_row_among_many_is_found_and_nothing_else(surveyed: Surveyed) -> None:
    assert {(run, id) for run, id in surveyed.doubts() if run in LONG} == {("broken", "2.6")}
    rows = surveyed.rows.where(F.col("run").isin(*LONG))
    of_long = F.col("run").isin(*LONG)
    mine = Survey(*(each.where(of_long) for each in surveyed.survey if each is not None))
    looked_at = Counter(row["run"] for row in suspects(rows, mine).select("run").collect())
    assert set(looked_at) == {"broken"}
    assert looked_at["broken"] < rows.where("run = 'broken'").count() / 2
    judged = {(row["run"], row["label"]): row for row in judge(rows, whole_rows_max=0).collect()}
    for run, load in LONG.items():
        plain = check(list(HotGroup(load)))
        for label, verdict in plain.verdicts.items():
            row = judged[(run, label)]
            witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"] or ())
            expected = verdict.violation.witness if verdict.violation else ()
            assert (row["state"], witness) == (verdict.state.value, expected), (run, label)


def _known() -> list[Row]:
    """A question and its answer in the wrong order at a third node.

    With another causal message of the second sender at its end, so that its own order could have been wrong.
    """
    rows = list(read_jsonl(TRACES / "2.12.2" / "broken-clients.jsonl").rows())
    *_, first, _, _ = rows
    assert isinstance(first.entry, Sent)
    sent = replace(first.entry, first_sequence=2)
    had = next(row.entry for row in rows if isinstance(row.entry, Delivered) and row.entry.service is Service.CAUSAL)
    delivered = replace(had, first_sequence=2, lamport=3)
    return [*rows, Row("d2", 1, 4, 4, sent), Row("d3", 1, 4, 4, delivered)]


def _unknown(known: list[Row]) -> list[Row]:
    """The same, but the answer is sent before the question is heard."""
    unknown = list(known)
    places = [place for place, row in enumerate(known) if row.node == "d2" and row.index in (2, 3)]
    entries = [known[place].entry for place in reversed(places)]
    for place, entry in zip(places, entries, strict=True):
        unknown[place] = replace(known[place], entry=entry)
    return unknown


def test_messages_that_overtook_others_unknowingly_are_cleared(surveyed: Surveyed) -> None:
    cleared = clear_causal(surveyed.rows, surveyed.survey)
    before, after = ({run for run, id in surveyed.doubts(each) if id == "2.12.2"} for each in (None, cleared.found))
    assert (before, after) == ({"known", "unknown"}, {"known"})
    runs = _runs()
    assert check(runs["known"]).verdicts["EVS-2.12.2"].state is State.VIOLATED
    assert check(runs["unknown"]).verdicts["EVS-2.12.2"].state is State.HOLDS


def _broken_off(rows: list[Row]) -> Iterator[Row]:
    """One node was killed in the middle, and of the others the last rows are not there yet."""
    lengths = Counter((row.node, row.incarnation) for row in rows)
    crashed = {(row.node, row.incarnation) for row in rows if isinstance(row.entry, Crashed)}
    going_on = [record for record in lengths if record[0] and record not in crashed]
    ends = {**lengths, **{record: lengths[record] - 3 * place for place, record in enumerate(going_on)}}
    ends[going_on[0]] = lengths[going_on[0]] // 2
    for row in rows:
        end = ends[(row.node, row.incarnation)]
        if row.index < end:
            yield row
        elif row.index == end:
            yield replace(row, entry=Truncated("torn"))


def test_records_that_break_off_put_nothing_in_doubt(surveyed: Surveyed) -> None:
    found = surveyed.survey.found.where("run = 'cut'").where(ABOVE).collect()
    assert [row["id"] for row in found if row["is_doubtful"]] == []
    assert [row["is_lossy"] for row in found if row["is_lossy"] is not None] == [True]
    assert {verdict.state for verdict in check(_runs()["cut"]).verdicts.values()} == {State.NOT_JUDGED}


def test_loose_bundles_are_counted_before_they_come_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (list(read_jsonl(TRACES / name / "broken-clients.jsonl").rows()) for name in ("2.17", "2.18"))
    odd = [replace(row, entry=Gap(1)) if (row.node, row.index) == ("d2", 2) else row for row in many]
    for run, rows in (("few", few), ("many", many), ("odd", odd)):
        write_parquet(tmp_path / f"{run}.parquet", run, rows)
    monkeypatch.setattr(table, "LOOSE_MAX", 2)
    read = told(silver(read_bronze(spark, [tmp_path]).rows)).localCheckpoint(eager=True)
    here = table.gathered(read, bundles(read).localCheckpoint(eager=True)).localCheckpoint(eager=True)
    assert {row["run"] for row in here.where("is_crowded").collect()} == {"many"}
    assert Counter(row["run"] for row in here.where("is_send IS NOT NULL").collect()) == {"few": 2}
    judged = here.groupBy("run").applyInArrow(judge_run, JUDGED).where("is_doubtful").collect()
    assert {(row["run"], row["id"]) for row in judged} == {("few", "2.17"), ("many", EVERYTHING), ("odd", EVERYTHING)}


def _id(epoch: int, lamport: int = 0, following: int = 0) -> ViewId:
    behind = (following, "d2", 1) if following else (0, "", 0)
    return (epoch, "d1", 1, *behind, lamport, "d1" if lamport else "", 1 if lamport else 0)


def _stays(process: str, count: int) -> list[Stay]:
    """One view after the other, with a signal in each and something behind it."""
    ids = [_id(epoch) for epoch in range(count + 1)]
    return [
        Stay(
            process,
            "g",
            10 * place,
            place,
            (process,),
            place - 1 if place else None,
            0,
            INSTALLED,
            10 * place + 10,
            ids[place + 1],
            PAIR,
            signal=10 * place + 5,
            high_late=(10 * place + 9, "d1", 1),
        )
        for place in range(count)
    ]


class _Heard(tuple[Any, ...]):
    """Counts how often somebody goes through it."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        _Heard.looks += 1
        return super().__iter__()


class _Run(Boundary):
    """Counts how often somebody asks for an id."""

    looks = 0

    def id_of(self, stay: Stay) -> ViewId:
        self.looks += 1
        return super().id_of(stay)


def _work(count: int) -> tuple[int, int]:
    """What it takes to judge so many views, each with a bundle that one of two had."""
    records = []
    for process, node in zip(PAIR, ("d1", "d2"), strict=True):
        heard = _Heard(("g", place, {PAIR[0]: None}) for place in range(count))
        views = tuple(View("g", place, _id(place), PAIR) for place in range(count + 1))
        side = Side(is_seen=True, views=views, stays=tuple(_stays(process, count)), heard=heard)
        records.append(Facts(node, 1, sides=(side, Side())))
    _Heard.looks = 0
    run, here = _Run(CLIENTS, records), ("d1", 1)
    loose = [
        Loose(
            PAIR[0],
            place,
            "g",
            5,
            (10 * place + 1, "d1", 1),
            [Held(PAIR[0], here, stay.at + 1, False, stay)],
            (here, stay.at + 1, place, True),
        )
        for place, stay in enumerate(run.by_place[(PAIR[0], "g")])
    ]
    judge_companies(run, loose, Found(), is_settled=True)
    judge_safe(run, loose, Found(), is_settled=True)
    return run.looks, _Heard.looks


def test_the_work_grows_with_the_views_and_not_with_their_square() -> None:
    (few, heard), (many, heard_again) = _work(50), _work(200)
    assert many < 5 * few
    assert heard_again == heard


def test_a_way_is_as_its_stays_say() -> None:
    choice = Choice("survey/way")
    for _ in range(50):
        side_views, stays, membership, at = [], list[Stay](), 0, 0
        ids = sorted({_id(choice.below(6), choice.below(4), choice.below(3)) for _ in range(12)})
        for place, id in enumerate(ids):
            at, left = at + 10, LEFT if choice.chance(0.4) else INSTALLED
            stays.append(Stay(PAIR[0], "g", at, place, (), None, membership, left, at + 10))
            membership = at + 10 if left == LEFT else membership
            side_views.append(View("g", place, id, PAIR))
        run = Boundary(CLIENTS, [Facts("d1", 1, sides=(Side(views=tuple(side_views), stays=tuple(stays)), Side()))])
        way = Way(run, stays)
        for view in starmap(_id, product(range(6), range(4), range(3))):
            assert way.step(view) == _step(run, stays, view)


def _step(run: Boundary, stays: list[Stay], view: ViewId) -> int | None:
    """The same, by going through all of them."""
    highest: dict[int, tuple[object, ...]] = {}
    for stay in stays:
        highest[stay.membership] = max(highest.get(stay.membership, ()), comparable(run.id_of(stay)))
    steps = [stay.at for stay in stays if bare(run.id_of(stay)) and run.id_of(stay)[:3] > view[:3]]
    steps += [
        stay.left_at
        for stay in stays
        if stay.left == LEFT and run.id_of(stay) >= view and highest[stay.membership] >= comparable(view)
    ]
    return min(steps, default=None)


def test_facts_travel_as_they_are() -> None:
    view = (7, "d1", 1, 0, "", 0, 3, "d2", 1)
    stay = Stay("#a#d1#1#1", "g", 4, -5, ("#a#d1#1#1",), None, 4, low=(3, "d2", 1), signal=9)
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
