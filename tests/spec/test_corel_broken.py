"""Broken runs of COReL's servers: each is accused of what it breaks, with a witness, and both checkers agree on it."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.spec.check import check
from isotone.spec.corel_properties import corel_labels
from isotone.spec.verdicts import State
from isotone.trace import corel as trace
from isotone.trace.events import Gap, Row
from tests.corel.test_checks import broken
from tests.spec.corel_broken import CASES
from tests.spec.corruptions import interleaved, renumbered
from tests.spec.naive_corel import judge
from tests.spec.naive_corel.judge import disagreements


def test_there_are_enough_for_every_property() -> None:
    assert len(CASES) >= 60
    assert {label for label, _ in CASES.values()} == set(corel_labels())


@pytest.mark.parametrize("name", CASES)
def test_it_is_accused_with_a_witness(name: str) -> None:
    label, rows = CASES[name]
    report = check(rows)
    assert not report.missing
    assert report.verdicts[label].state is State.VIOLATED
    violation = report.violations[label]
    assert violation.witness and set(violation.witness) <= {(row.node, row.incarnation, row.index) for row in rows}
    assert violation.explanation.endswith(".")
    assert check(interleaved(rows, Choice(name))).verdicts == report.verdicts


@pytest.mark.parametrize("name", CASES)
def test_the_dumb_checker_agrees(name: str) -> None:
    label, rows = CASES[name]
    verdicts = judge(rows)
    assert verdicts[label] == "violated"
    assert disagreements(rows, verdicts) == {}


def test_a_server_of_whom_nothing_is_known_hides_no_violation() -> None:
    rows = broken("b", 3, trace.PrimaryEstablished("b", 1, ("a", "b", "z")))
    report = check(rows)
    assert (report.missing, set(report.violations)) == (("z",), {"COR-PHASES"})
    assert disagreements(rows) == {}


@pytest.mark.parametrize("name", CASES)
def test_with_a_lost_row_nobody_is_accused_of_more(name: str) -> None:
    """Every third row in turn, in each run another third: what is still violated was so before, and nothing holds.

    Where two servers do not agree on what is green, what is owed as yellow depends on whom one believes.
    """
    _, rows = CASES[name]
    allowed = set(check(rows).violations)
    allowed |= {"COR-YELLOW"} if "COR-AGREED" in allowed else set()
    third = list(CASES).index(name) % 3
    for place, lost in enumerate(rows):
        if lost.node and place % 3 == third:
            left = [*rows[:place], Row(lost.node, lost.incarnation, 0, 0, Gap(1)), *rows[place + 1 :]]
            report = check(renumbered(left))
            assert {each for each in report.violations if each.startswith("COR-")} <= allowed, place
            assert not [each for each in report.labels(State.HOLDS) if each.startswith("COR-")]
