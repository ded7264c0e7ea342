"""Causal order on Spark: which runs are read in order at all, and that what is said of the others is so.

One job over all runs: hand-made ones, one for each way in which an order can be broken unseen by the rest of the
conditions, and damaged ones. ``ISOTONE_TRACES=500 pytest -s tests/pipeline/test_causal.py`` damages more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest
from pyspark.sql import SparkSession

from isotone.core.choice import Choice
from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.conformance.causal import rows_of_stretches, sort_runs, told_of
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS
from isotone.pipeline.silver import silver
from isotone.sim.plan import Scale, Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import State, check
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.spec.properties import Boundary
from isotone.trace import events as trace
from isotone.trace.events import Entry, Row
from tests.pipeline.files import write_together
from tests.spec.corruptions import CORRUPTIONS, DELIVERIES, SENDS, corrupt, renumbered
from tests.spec.mutation.as_daemons import as_daemons

replace = msgspec.structs.replace
WANTED = int(os.environ.get("ISOTONE_TRACES", "20"))
DAMAGED = 60 if WANTED <= 20 else 10 * WANTED
SMALL = Scale(
    sends_min=30,
    faults_min=3,
    faults_end_us=800_000,
    nodes=(3, 4),
    sites=(1, 2),
    clients_per_node=(1, 2),
    groups=(1, 2),
)
SHAPE = {
    "bundles": 30, "nodes": 3, "clients_per_node": 2, "groups": 2, "messages_min": 1, "messages_max": 2,
    "change_every": 12, "lag_max": 8, "daemons": True,
}  # fmt: skip
LABELS = {CLIENTS: "EVS-2.12.2", DAEMONS: "EVS-2.12.2@S"}
NODES = ("d1", "d2", "d3", "d4")
A, B, C, D = (f"#{name}#{node}#1#1" for name, node in zip("abcd", NODES, strict=True))
HOME = dict(zip((A, B, C, D), NODES, strict=True))
WEAK, CAUSAL = Service.RELIABLE, Service.CAUSAL
GAP = ("d4", trace.Gap(1))
Told = tuple[str, Entry]
Outcome = tuple[str, tuple[tuple[str, int, int], ...]]


# --- runs by hand ----------------------------------------------------------------------------------------------------


def _sent(client: str, first: int, service: Service, count: int = 1) -> Told:
    return HOME[client], trace.Sent(client, first, service, ("g",), (1,) * count, (7,) * count)


def _had(client: str, sender: str, first: int, service: Service, lamport: int) -> Told:
    content = (service, ("g",), (1,), (7,))
    return HOME[client], trace.Delivered((client,), sender, first, *content, lamport, f"{HOME[sender]}#1")


def _run(*told: Told) -> list[Row]:
    members = (A, B, C, D)
    view = GroupViewId(DaemonViewId(1, DaemonId("d1", 1)))
    views = [(HOME[each], trace.ViewDelivered((each,), "g", view, members, (each,), "network")) for each in members]
    return renumbered([Row(node, 1, 0, at, entry) for at, (node, entry) in enumerate([*views, *told])])


KNOWN = [_sent(A, 1, WEAK), _had(B, A, 1, WEAK, 1), _sent(B, 1, CAUSAL)]
"""B answers a question of A."""
BROKEN: dict[str, list[Told]] = {
    "below the floor": [*KNOWN, _had(C, B, 1, CAUSAL, 2), _had(C, A, 1, WEAK, 1)],
    "of one sender": [_sent(A, 1, WEAK), _sent(A, 2, CAUSAL), _had(C, A, 2, CAUSAL, 2), _had(C, A, 1, WEAK, 1)],
    "a stamp below what its node had": [
        _sent(A, 1, WEAK), _had(B, A, 1, WEAK, 9), _sent(B, 1, WEAK), _had(C, B, 1, WEAK, 4), _sent(C, 1, CAUSAL),
        _had(D, C, 1, CAUSAL, 6), _had(D, A, 1, WEAK, 9),
    ],
    "stamps that fall with the sequence": [
        _sent(A, 1, WEAK), _sent(A, 2, WEAK), _had(B, A, 2, WEAK, 2), _sent(B, 1, CAUSAL),
        _had(C, B, 1, CAUSAL, 3), _had(C, A, 1, WEAK, 9),
    ],
    "two stamps of one bundle": [*KNOWN, _had(C, B, 1, CAUSAL, 3), _had(C, A, 1, WEAK, 9)],
    "a part of a bundle": [
        _sent(A, 1, WEAK), _sent(A, 2, CAUSAL, 2), _had(C, A, 3, CAUSAL, 2), _had(C, A, 1, WEAK, 1),
    ],
    "sent twice": [*KNOWN, _sent(B, 1, CAUSAL), _had(C, B, 1, CAUSAL, 2), _had(C, A, 1, WEAK, 1)],
}  # fmt: skip
"""In each, one condition alone tells that something may be broken."""
KEPT: dict[str, list[Told]] = {
    "in order": [
        *KNOWN, _had(C, A, 1, WEAK, 1), _had(C, B, 1, CAUSAL, 2), _sent(B, 2, CAUSAL), _had(C, B, 2, CAUSAL, 3),
    ],
    "the question is lost": [*KNOWN[1:], _had(C, B, 1, CAUSAL, 2), _had(C, A, 1, WEAK, 1)],
    "the answer is lost": [*KNOWN[:-1], _had(C, B, 1, CAUSAL, 2), _had(C, A, 1, WEAK, 1)],
    "that it knew is lost": [KNOWN[0], KNOWN[2], _had(C, B, 1, CAUSAL, 2), _had(C, A, 1, WEAK, 1)],
}  # fmt: skip


ROUNDS, WRONG_ROUNDS = 300, (100, 200)


def _rounds() -> list[Told]:
    """Questions and answers, twice in the wrong order at a third."""
    told = []
    for number in range(1, ROUNDS + 1):
        asked, answered = 2 * number - 1, 2 * number
        told += [_sent(A, number, WEAK), _had(B, A, number, WEAK, asked), _sent(B, number, CAUSAL)]
        both = [_had(C, A, number, WEAK, asked), _had(C, B, number, CAUSAL, answered)]
        told += reversed(both) if number in WRONG_ROUNDS else both
    return told


# --- damaged runs ----------------------------------------------------------------------------------------------------


@cache
def _good() -> list[list[Row]]:
    system, found = system_named("evs"), list[list[Row]]()
    for seed in range(1, 7):
        rows: list[Row] = []
        play_plan(system, draw_plan(system, Setting(size=Size.SMALL), seed, SMALL), rows.append)
        found += [rows, as_daemons(rows, "g1")]
    return found + [list(Synthetic(Shape(seed=seed, **SHAPE))) for seed in range(1, 5)]  # type: ignore[arg-type]


def _lossy(rows: list[Row], choice: Choice, most: int = 4) -> list[Row]:
    """Some rows are not there, and gaps say so."""
    places = choice.sample([place for place, row in enumerate(rows) if row.node], 1 + choice.below(most))
    lost = {place: replace(rows[place], entry=trace.Gap(1)) for place in places}
    return renumbered([lost.get(place, row) for place, row in enumerate(rows)])


def _overtake(rows: list[Row], choice: Choice) -> list[Row]:
    """Two deliveries of one record that stand near each other change places."""
    places = [place for place, row in enumerate(rows) if isinstance(row.entry, DELIVERIES)]
    place = choice.pick(places)
    row = rows[place]
    near = [each for each in places if (rows[each].node, rows[each].incarnation) == (row.node, row.incarnation)]
    at = near.index(place)
    other = choice.pick(near[max(0, at - 4) : at + 5])
    swapped = list(rows)
    swapped[place], swapped[other] = rows[other], rows[place]
    return renumbered(swapped)


def _send_again(rows: list[Row], choice: Choice) -> list[Row]:
    place = choice.pick([place for place, row in enumerate(rows) if isinstance(row.entry, SENDS)])
    return renumbered([*rows[: place + 1], rows[place], *rows[place + 1 :]])


def _damaged(number: int) -> list[Row]:
    choice = Choice(f"causal/{number}")
    good = _good()
    rows = good[number % len(good)]
    for _ in range(1 + choice.below(3)):
        match choice.below(5):
            case 0:
                rows = _send_again(rows, choice)
            case 1:
                rows = corrupt(rows, choice.pick(list(CORRUPTIONS)), choice) or rows
            case _:
                rows = _overtake(rows, choice)
    return _lossy(rows, choice) if choice.chance(0.75) else rows


@cache
def _runs() -> dict[str, list[Row]]:
    found = {f"broken/{name}": _run(GAP, *told) for name, told in BROKEN.items()}
    found |= {f"whole/{name}": _run(*told) for name, told in BROKEN.items()}
    found |= {f"kept/{name}": _run(GAP, *told) for name, told in KEPT.items()}
    found |= {"rounds": _run(*_rounds()), "rounds with a gap": _run(GAP, *_rounds())}
    found |= {f"damaged/{number}": _damaged(number) for number in range(DAMAGED)}
    for place, rows in enumerate(_good()):
        found[f"good/{place}"] = rows
        found[f"lossy/{place}"] = _lossy(rows, Choice(f"lossy/{place}"), 20)
    return found


# --- both engines ----------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What Spark said of each run and boundary, and which runs it read in order."""

    outcomes: dict[tuple[str, int], Outcome]
    whole: set[str]
    stretches: set[str]
    rows: dict[str, Counter[int]]
    """Of each stretch, how many are messages."""

    @property
    def streamed(self) -> set[str]:
        return self.whole | self.stretches


def _state(row: Any, *, is_lossy: bool) -> Outcome:
    """As the verdicts are made of findings."""
    if row is not None and row["witness"]:
        witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"])
        return State.VIOLATED.value, witness
    if is_lossy or (row is not None and row["is_unknown"]):
        return State.NOT_JUDGED.value, ()
    return (State.NOT_EXERCISED if row is None else State.HOLDS).value, ()


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    place = tmp_path_factory.mktemp("causal")
    write_together(place, _runs())
    normal = Normal(silver(read_bronze(spark, [place]).rows.localCheckpoint(eager=True)))
    runs = sort_runs(normal)
    found = {(row["run"], row["boundary"]): row for row in told_of(normal.rows, runs).collect()}
    lossy = {row["run"] for row in normal.runs.where("is_lossy").collect()}
    outcomes = {
        (run, side): _state(found.get((run, side)), is_lossy=run in lossy) for run in _runs() for side in LABELS
    }
    assert runs.stretches is not None
    whole, stretches = ({row["run"] for row in each.collect()} for each in (runs.whole, runs.stretches))
    rows: dict[str, Counter[int]] = {}
    for row in rows_of_stretches(normal.rows, runs.stretches).where("sender IS NOT NULL OR count > 0").collect():
        rows.setdefault(row["run"], Counter())[row["stretch"]] += 1
    return Judged(outcomes, whole, stretches, rows)


@cache
def _expected() -> dict[tuple[str, int], Outcome]:
    found = {}
    for run, rows in _runs().items():
        report = check(rows, (Boundary.CLIENTS, Boundary.DAEMONS))
        for side, label in LABELS.items():
            verdict = report.verdicts[label]
            found[(run, side)] = (verdict.state.value, verdict.violation.witness if verdict.violation else ())
    return found


def test_both_engines_agree(judged: Judged) -> None:
    states = Counter(state for state, _ in judged.outcomes.values())
    read = f"{len(judged.whole)} read as a whole, {len(judged.stretches)} in stretches"
    print(f"{len(_runs())} runs, {read}; verdicts: {dict(sorted(states.items()))}")
    differing = {place: (told, judged.outcomes[place]) for place, told in _expected().items()}
    assert {place: both for place, both in differing.items() if both[0] != both[1]} == {}
    assert len(states) == len(State)


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("kind", ["broken", "whole"])
def test_what_is_broken_is_found_in_what_is_left_of_a_run(judged: Judged, kind: str, name: str) -> None:
    run = f"{kind}/{name}"
    assert run in judged.streamed
    assert _expected()[(run, CLIENTS)][0] == State.VIOLATED.value


@pytest.mark.parametrize("name", KEPT)
def test_what_the_rows_do_not_show_is_not_looked_for(judged: Judged, name: str) -> None:
    assert f"kept/{name}" not in judged.streamed


@pytest.mark.parametrize("run", ["rounds", "rounds with a gap"])
def test_only_stretches_around_what_is_wrong_are_read(judged: Judged, run: str) -> None:
    assert run not in judged.whole
    assert sorted(judged.rows[run].values()) == [5] * len(WRONG_ROUNDS)
    assert _expected()[(run, CLIENTS)][0] == State.VIOLATED.value


def test_good_runs_are_not_read_in_order_whatever_was_lost(judged: Judged) -> None:
    assert not {run for run in judged.streamed if run.startswith(("good/", "lossy/"))}
    good = {judged.outcomes[place][0] for place in judged.outcomes if place[0].startswith("good/")}
    lossy = {judged.outcomes[place][0] for place in judged.outcomes if place[0].startswith("lossy/")}
    assert good == {State.HOLDS.value, State.NOT_EXERCISED.value}
    assert lossy == {State.NOT_JUDGED.value}


def test_the_damage_says_something(judged: Judged) -> None:
    damaged = [run for run in _runs() if run.startswith("damaged/")]
    broken = {run for (run, _), (state, _) in _expected().items() if state == State.VIOLATED.value}
    assert len(broken.intersection(damaged)) > len(damaged) / 20
    assert broken <= judged.streamed
    assert len(judged.streamed.intersection(damaged)) < len(damaged)
