"""The dumb second version of COReL's checkers says of every run, good, broken or spoilt, what the checkers say."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from isotone.core.choice import Choice
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.spec.verdicts import State
from isotone.trace import corel as trace
from isotone.trace.events import Ended, Entry, Gap, Row
from isotone.trace.jsonl import read_jsonl
from tests.corel import test_checks as corel
from tests.spec.corruptions import renumbered
from tests.spec.naive_corel import FORMULAS, judge
from tests.spec.naive_corel.judge import about_servers, disagreements
from tests.spec.naive_corel.spoiling import KINDS, spoilt

TRACES = Path(__file__).parents[1] / "traces" / "corel"
SMALL = Setting(system="corel", stack="oracle", size=Size.SMALL)
RAIDS = (29, 35, 41, 46, 57, 62)  # an operator forces a primary
SEEDS = (*range(1, 31), *RAIDS[1:], 251)  # 251: a configuration that one server alone has told
SEEDS_SPOILT = (*range(1, 11), 19, 29, 62)  # 19: an order proposal that all accepted


def of_forced(node: str = "", place: int = 0, *entries: Entry, fence: int = 1) -> list[Row]:
    """The run in which c is forced, to its end; at one node other rows at one place, if it is named."""
    run = corel.forced(fence)
    if node:
        run[node][place : place + 1] = entries
    return corel.rows(**run, **{"": corel.FORCED_END})


BY_HAND = {
    "good": corel.rows(**corel.good()),
    "lost": corel.rows(**corel.lost()),
    "alone": corel.alone(),
    "good, to its end": corel.rows(**corel.good()) + corel.rows(**{"": corel.END}),
    "lost, to its end": corel.of_lost("b", 6, trace.DiskLost("b")),
    "broken off": corel.alone() + corel.rows(**{"": [*corel.END[:1], Ended(False)]}),
    "restored": corel.restored(),
    "restored with the same log": corel.restored(log="first"),
    "restored, and a name given again": corel.restored(resends=True),
    "a name given again by the same log": corel.restored(log="first", resends=True),
    "restored without a fence": corel.restored(fence=0),
    "forced": of_forced(),
    "forced without a fence": of_forced(fence=0),
    "what only the other side has": of_forced("x", 3, corel.green("x", 1, "a.1:1", primary=2)),
    "two orders on the old side": of_forced("b", 8, corel.green("b", 2, "b.9:9", primary=2)),
    "a survivor that lost a message": of_forced("c", 3, corel.started("c", life=2, servers=("c",), fence=1)),
    "another place behind the fence": of_forced("c", 7, corel.green("c", 2, "c.1:1", primary=2)),
    "a commit for one who never attempted": of_forced("c", 5, trace.PrimaryCommitted("c", 2, ("c", "x"))),
    "more white than green behind the fence": of_forced("c", 8, trace.Whitened("c", 2)),
    "a survivor's message that x lacks": of_forced("x", 3),
    "an old side that orders no more": of_forced("b", 7),
    "with a gap": [*corel.BROKEN["COR-AGREED"], Row("b", 1, 99, 0, Gap(3))],
    "content": corel.broken("a", 7, corel.green("a", 1, "a.1:1", digest=8)),
    **corel.BROKEN,
    **{name: run for name, (_, run) in corel.ALSO_BROKEN.items()},
}
MORE_BROKEN = {
    "a commit to other servers than attempted": (
        "COR-PHASES",
        corel.rows(
            a=[corel.started("a"), *corel.primary("a", 1, ("a", "b"))[:1], *corel.primary("a", 1, ("a",))[1:]],
            b=[corel.started("b")],
        ),
    ),
    "a commit before the server's own attempt": (
        "COR-PHASES",
        corel.rows(a=[corel.started("a"), *[corel.primary("a", 1, ("a",))[step] for step in (1, 0, 2)]]),
    ),
    "a primary that nobody committed to, adopted, and found again at the next start": (
        "COR-PHASES",
        corel.rows(a=[corel.started("a"), corel.arranged("a", committed=5), corel.started("a", life=2, committed=5)]),
    ),
    "two servers more than the founders at once": (
        "COR-CONFIGURATION",
        corel.rows(a=[corel.started("a", servers=("a",)), trace.Reconfigured("a", 1, 1, corel.ABX)]),
    ),
    "a quorum alone in two primary components": (
        "COR-LIVE",
        corel.alone(
            "b",
            corel.started("b"),
            *corel.primary("b", 2),
            trace.Yellowed("b", ("a.1:1",)),
            corel.green("b", 1, "a.1:1", primary=2),
        ),
    ),
    "synced by one who had it only after the next recovery": (
        "COR-SYNCED",
        corel.rows(
            a=[
                corel.started("a"),
                *corel.primary("a"),
                corel.sent("a", "a.1:1"),
                trace.Yellowed("a", ("a.1:1",)),
                corel.green("a", 1, "a.1:1"),
            ],
            b=[corel.started("b"), *corel.primary("b"), corel.arranged("b"), trace.Reddened("b", ("a.1:1",))],
        ),
    ),
    "white, and then got by a state": (
        "COR-WHITE",
        corel.rows(
            a=[
                corel.started("a", servers=corel.AB),
                corel.sent("a", "a.1:1"),
                trace.Yellowed("a", ("a.1:1",)),
                corel.green("a", 1, "a.1:1"),
                trace.SnapshotKept("a", 1, 1, 5),
                trace.Whitened("a", 1),
            ],
            b=[corel.started("b", servers=corel.AB), trace.StateInstalled("b", 1, 1, 5)],
        ),
    ),
    "a state in another place": ("COR-STATE", corel.broken("x", 1, trace.StateInstalled("x", 2, 3, 5))),
}


@cache
def recorded(seed: int) -> list[Row]:
    """A run of the swarm."""
    system = system_named("corel")
    rows: list[Row] = []
    play_plan(system, draw_plan(system, SMALL, seed), rows.append)
    return rows


@pytest.mark.parametrize("name", BY_HAND)
def test_both_agree_on_runs_by_hand(name: str) -> None:
    assert disagreements(BY_HAND[name]) == {}


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_both_agree_on_traces(path: Path) -> None:
    """And both find what the header says, but for the witness."""
    lines = read_jsonl(path)
    rows = list(lines.rows())
    verdicts = judge(rows)
    assert disagreements(rows, verdicts) == {}
    assert set(lines.header["violates"]) <= {label for label, state in verdicts.items() if state == "violated"}


@pytest.mark.parametrize("label", FORMULAS)
def test_a_broken_run_is_accused(label: str) -> None:
    assert judge(corel.BROKEN[label])[label] == "violated"


@pytest.mark.parametrize("name", MORE_BROKEN)
def test_so_is_one_that_breaks_it_otherwise(name: str) -> None:
    label, rows = MORE_BROKEN[name]
    assert judge(rows)[label] == "violated"
    assert check(rows).verdicts[label].state is State.VIOLATED


@pytest.mark.parametrize("seed", SEEDS)
def test_both_agree_on_runs_of_the_swarm(seed: int) -> None:
    rows = recorded(seed)
    verdicts = judge(rows)
    assert disagreements(rows, verdicts) == {}
    assert "violated" not in verdicts.values()


def test_these_runs_exercise_every_property() -> None:
    """Between them: agreement about what never happens would say nothing."""
    held = {label for seed in SEEDS for label, state in judge(recorded(seed)).items() if state == "holds"}
    assert held == FORMULAS.keys()


def test_both_agree_on_spoilt_runs() -> None:
    """And each property is broken by some of them. Each run is spoilt in every third way, each time another third."""
    found: Counter[str] = Counter()
    for number, seed in enumerate(SEEDS_SPOILT):
        rows = renumbered(about_servers(recorded(seed)))
        for kind in KINDS[number % 3 :: 3]:
            broken = spoilt(rows, kind, Choice(f"{seed}/{kind}"))
            if broken is not None:
                verdicts = judge(broken)
                assert disagreements(broken, verdicts) == {}, (seed, kind)
                found.update(label for label, state in verdicts.items() if state == "violated")
    assert found.keys() == FORMULAS.keys()
