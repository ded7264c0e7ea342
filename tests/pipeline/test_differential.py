"""Both engines on the same traces, property by property: the same state, and the same events as witness.

One job over all runs: the hand-made traces, synthetic and simulated runs, and spoilt ones; a few of all these with a
row lost, or with records that break off.
``ISOTONE_TRACES=500 pytest -s tests/pipeline/test_differential.py`` records more of the simulated ones, damages more
records, and says how many verdicts were compared.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isotone.core.choice import Choice
from isotone.pipeline.bronze import problems, read_bronze
from isotone.pipeline.conformance.registry import CHECKS
from isotone.pipeline.conformance.survey import packets
from isotone.pipeline.conformance.verdicts import judge
from isotone.pipeline.silver import silver
from isotone.sim.plan import Scale, Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import Report, check
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.spec.corel_properties import corel_labels
from isotone.spec.properties import BY_ID, PROPERTIES, Boundary, Form
from isotone.trace.events import Crashed, Ended, Gap, LinkCounted, Row, Stabilised, Truncated
from isotone.trace.jsonl import read_jsonl
from tests.corel import test_checks as corel
from tests.pipeline import test_survey_packets as networks
from tests.pipeline.files import write_together
from tests.spec.corruptions import CORRUPTIONS, corrupt, renumbered
from tests.spec.mutation.as_daemons import as_daemons
from tests.spec.mutation.kinds import KINDS, Corrupted
from tests.spec.mutation.record import Recording
from tests.spec.mutation.runner import spoil
from tests.spec.mutation.runs import recorded
from tests.spec.naive_corel.judge import about_servers

TRACES = Path(__file__).parents[1] / "traces"
SIMULATED = int(os.environ.get("ISOTONE_TRACES", "10"))
IS_SOAK = SIMULATED > 10
DAMAGED_EVERY = 4 if IS_SOAK else 16
SEEDS = range(1, 40)
SHORT = Scale(
    sends_min=40,
    faults_min=5,
    faults_end_us=1_000_000,
    nodes=(3, 4),
    sites=(1, 2),
    clients_per_node=(1, 2),
    groups=(1, 2),
)
"""Of the runs on our own stacks, and of those that are spoilt: sorting their rows takes most of this test's time."""
SHAPE = {
    "bundles": 30,
    "nodes": 3,
    "clients_per_node": 2,
    "groups": 2,
    "messages_min": 1,
    "messages_max": 3,
    "change_every": 5,
    "lag_max": 8,
    "daemons": True,
}
COUNTED = Row("a", 1, 0, 0, LinkCounted("a#1", "n", "l", "ring", ("b#1",), 9, 8, 1, 900, 800, 1, 0))
Outcome = dict[str, tuple[str, tuple[tuple[str, int, int], ...]]]
LABELS = [
    each.label(boundary)
    for boundary in (Boundary.CLIENTS, Boundary.DAEMONS, Boundary.NETWORK)
    for each in PROPERTIES
    if boundary in each.boundaries and each.form is not Form.DEFINITION and each.id.removeprefix("EVS-") in CHECKS
]
COREL = list(corel_labels())


def _runs() -> Iterator[tuple[str, list[Row]]]:
    choice = Choice("pipeline/differential")
    for place, path in enumerate(sorted(TRACES.glob("*/*.jsonl"))):
        rows = list(read_jsonl(path).rows())
        yield f"{path.parent.name}/{path.stem}", rows
        if place % DAMAGED_EVERY == 0:
            yield f"lost/{path.parent.name}/{path.stem}", _with_loss(rows, choice)
        if place % DAMAGED_EVERY == 2:
            yield f"cut/{path.parent.name}/{path.stem}", _cut(rows, choice, 2)
    for kind in CORRUPTIONS:
        yield f"synthetic/{kind}", _spoilt_synthetic(kind)
    for name in networks.CHANGES:
        yield f"network/{name}", networks.spoilt(name)
    yield from _swarm()
    yield "counted", renumbered([*recorded(1), COUNTED])
    for seed in range(1, 5):
        yield f"cut/{seed}", _cut(recorded(seed), choice, 40)
    for place, kind in enumerate(KINDS):
        found = next(found for seed in SEEDS if (found := _spoilt(kind, seed)) is not None)
        rows = as_daemons(found.rows, "g1") if place % 2 else found.rows
        yield f"spoilt/{kind}", rows
        if place % DAMAGED_EVERY == 0:
            yield f"cut/spoilt/{kind}", _cut(rows, choice, 40)
    yield from _replicas(choice)


def _spoilt(kind: str, seed: int) -> Corrupted | None:
    return spoil(kind, _small(seed), Choice(f"differential/{seed}/{kind}"))


@cache
def _small(seed: int) -> Recording:
    system, rows = system_named("evs"), list[Row]()
    play_plan(system, draw_plan(system, Setting(size=Size.SMALL), seed, SHORT), rows.append)
    return Recording(rows)


def _spoilt_synthetic(kind: str) -> list[Row]:
    """From the first run in which this finds a place."""
    for seed in SEEDS:
        run = Synthetic(Shape(seed=seed, **SHAPE))  # type: ignore[arg-type]
        if (spoilt := corrupt(list(run), kind, Choice(f"{kind}/{seed}"))) is not None:
            return spoilt
    raise AssertionError(f"nowhere to {kind}")


def _replicas(choice: Choice) -> Iterator[tuple[str, list[Row]]]:
    """Runs of COReL, good ones and one that breaks each promise, at ends of all kinds."""
    whole = [*corel.rows(**corel.good()), *_end(quiet=True)]
    yield "corel/good", whole
    yield "corel/not quiet", [*corel.rows(**corel.good()), *_end(quiet=False)]
    yield "corel/lost", _with_loss(whole, choice)
    yield "corel/counted", renumbered([*whole, COUNTED])
    for label, rows in corel.BROKEN.items():
        yield f"corel/{label}", rows
    for name, (_, rows) in corel.ALSO_BROKEN.items() if IS_SOAK else ():
        yield f"corel/{name}", rows
    system = system_named("corel")
    rows = []
    play_plan(system, draw_plan(system, Setting(size=Size.SMALL), 1), rows.append)
    yield "corel/1", renumbered(about_servers(rows))


def _end(*, quiet: bool) -> list[Row]:
    return [Row("", 0, index, 0, entry) for index, entry in enumerate([Stabilised((corel.ABX,)), Ended(quiet)])]


def _swarm() -> Iterator[tuple[str, list[Row]]]:
    """Recorded traces of swarms, on every stack."""
    on_a_stack = SIMULATED // 5
    for seed in range(1, SIMULATED - 2 * on_a_stack + 1):
        yield f"oracle/{seed}", recorded(seed)
    system = system_named("evs")
    for stack in ("transport", "full"):
        for seed in range(1, on_a_stack + 1):
            rows: list[Row] = []
            play_plan(system, draw_plan(system, Setting(size=Size.SMALL, stack=stack), seed, SHORT), rows.append)
            yield f"{stack}/{seed}", rows


def _with_loss(rows: list[Row], choice: Choice) -> list[Row]:
    place = choice.pick([place for place, row in enumerate(rows) if row.node])
    lost = rows[place]
    record = (lost.node, lost.incarnation)
    if choice.chance(0.5):
        gap = Row(*record, 0, 0, Gap(1))
        return renumbered([*rows[:place], gap, *rows[place + 1 :]])
    rest = [row for row in rows[place + 1 :] if (row.node, row.incarnation) != record]
    return renumbered([*rows[:place], Row(*record, 0, 0, Truncated("torn")), *rest])


def _cut(rows: list[Row], choice: Choice, most: int) -> list[Row]:
    """As if the run went on: of every record the last rows are not there yet, or it was killed."""
    lengths = Counter((row.node, row.incarnation) for row in rows if row.node)
    ends = {record: length - choice.below(min(length, most + 1)) for record, length in lengths.items()}
    found = []
    for row in rows:
        end = ends.get((row.node, row.incarnation), len(rows))
        if row.index < end:
            found.append(row)
        if row.index == end - 1 and row.node and not isinstance(row.entry, Crashed):
            found.append(Row(row.node, row.incarnation, end, row.at, Truncated("torn")))
    return found


def _plain(report: Report) -> Outcome:
    return {
        label: (verdict.state.value, verdict.violation.witness if verdict.violation else ())
        for label, verdict in report.verdicts.items()
    }


@cache
def _expected() -> dict[str, Outcome]:
    return {run: _plain(check(rows)) for run, rows in _runs()}


@pytest.fixture(scope="module")
def judged(spread: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """One job over everything."""
    place = tmp_path_factory.mktemp("traces")
    write_together(place, dict(_runs()))
    bronze = read_bronze(spread, [place])
    bronze = bronze._replace(rows=bronze.rows.localCheckpoint(eager=True))
    assert problems(bronze) == ()
    found: dict[str, Outcome] = {}
    with pytest.MonkeyPatch.context() as patched:
        if not IS_SOAK:
            patched.setattr(packets, "STRETCH", networks.STRETCH)
        judged = judge(silver(bronze.rows), whole_rows_max=0).collect()
    assert len({(row["run"], row["label"]) for row in judged}) == len(judged)
    for row in judged:
        witness = tuple((each["node"], each["incarnation"], each["index"]) for each in row["witness"] or ())
        found.setdefault(row["run"], {})[row["label"]] = (row["state"], witness)
    return found


def test_hand_made_traces_have_their_witnesses_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """As `isotone check --engine spark` judges runs of their size: each in a task of its own."""
    wanted: dict[str, dict[str, list[tuple[str, int, int]]]] = {}
    runs: dict[str, list[Row]] = {}
    for path in TRACES.glob("*/*.jsonl"):
        file = read_jsonl(path)
        run = f"{path.parent.name}/{path.stem}"
        violates: dict[str, list[tuple[str, int, int]]] = file.header.get("violates", {})  # type: ignore[assignment]
        wanted[run] = {label: [tuple(event) for event in witness] for label, witness in violates.items()}
        runs[run] = list(file.rows())
    write_together(tmp_path, runs)
    found: dict[str, dict[str, list[tuple[str, int, int]]]] = {run: {} for run in wanted}
    for row in judge(silver(read_bronze(spark, [tmp_path]).rows)).collect():
        if row["state"] == "violated":
            events = [(each["node"], each["incarnation"], each["index"]) for each in row["witness"]]
            found[row["run"]][row["label"]] = events
    assert found == wanted


def test_all_runs_are_judged(judged: dict[str, Outcome]) -> None:
    states = Counter(state for outcome in judged.values() for state, _ in outcome.values())
    print(f"{len(judged)} traces, {SIMULATED} of them of swarms; verdicts: {dict(sorted(states.items()))}")
    assert set(judged) == set(_expected())
    assert all(list(outcome) == LABELS + (COREL if "corel/" in run else []) for run, outcome in judged.items())


@pytest.mark.parametrize("label", LABELS + COREL)
def test_both_engines_agree(judged: dict[str, Outcome], label: str) -> None:
    differing = {
        run: (outcome.get(label), judged[run].get(label))
        for run, outcome in _expected().items()
        if outcome.get(label) != judged[run].get(label)
    }
    assert differing == {}


@pytest.mark.parametrize("label", LABELS + COREL)
def test_the_runs_say_something(label: str) -> None:
    """Between them: agreement about what never happens would say nothing."""
    states = {outcome[label][0] for outcome in _expected().values() if label in outcome}
    assert {"holds", "violated"} <= states
    assert label in COREL or label.removesuffix("@S") in BY_ID
