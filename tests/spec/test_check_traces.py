"""The hand-made traces of tests/traces, for both boundaries and the network.

The header of a file says what it is for: ``violates`` maps exactly the labels that it must raise to their witnesses,
``holds`` lists labels that must hold (and nothing may be violated).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.choice import Choice
from isotone.spec.check import State, check
from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.trace.events import Gap, Row, Truncated
from isotone.trace.jsonl import read_jsonl
from tests.spec.corruptions import interleaved, renumbered

TRACES = Path(__file__).parents[1] / "traces"
FILES = sorted(TRACES.glob("*/*.jsonl"))
GOOD = [path for path in FILES if path.stem.startswith("good")]
BROKEN = [path for path in FILES if path.stem.startswith("broken")]
LABELS = [
    each.label(boundary)
    for each in PROPERTIES
    if each.form is not Form.DEFINITION
    for boundary in each.boundaries
    if boundary is not Boundary.RUN
]


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _read(path: Path) -> tuple[dict[str, object], list[Row]]:
    lines = read_jsonl(path)
    return lines.header, list(lines.rows())


def _expected(header: dict[str, object]) -> dict[str, tuple[tuple[str, int, int], ...]]:
    found = header["violates"]
    assert isinstance(found, dict)
    return {label: tuple(tuple(event) for event in witness) for label, witness in found.items()}


@pytest.mark.parametrize("path", GOOD, ids=_name)
def test_good(path: Path) -> None:
    header, rows = _read(path)
    report = check(rows)
    assert report.violations == {}
    wanted = header["holds"]
    assert isinstance(wanted, list)
    assert wanted
    assert {label: report.verdicts[label].state for label in wanted} == dict.fromkeys(wanted, State.HOLDS)


@pytest.mark.parametrize("path", BROKEN, ids=_name)
def test_broken(path: Path) -> None:
    header, rows = _read(path)
    report = check(rows)
    assert {label: violation.witness for label, violation in report.violations.items()} == _expected(header)
    for violation in report.violations.values():
        assert violation.explanation.endswith(".")


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_verdict_depends_on_the_interleaving(path: Path) -> None:
    _, rows = _read(path)
    verdicts = check(rows).verdicts
    for seed in range(5):
        assert check(interleaved(rows, Choice(f"{path.stem}/{seed}"))).verdicts == verdicts
    by_node = sorted(rows, key=lambda row: (row.node, row.incarnation, row.index))
    assert check(by_node).verdicts == verdicts
    assert check(sorted(by_node, key=lambda row: row.node, reverse=True)).verdicts == verdicts


def test_every_property_has_a_good_and_a_broken_trace() -> None:
    good = {label for path in GOOD for label in _read(path)[0]["holds"]}  # type: ignore[attr-defined]
    broken = {label for path in BROKEN for label in _expected(_read(path)[0])}
    assert set(LABELS) - good == set()
    assert set(LABELS) - broken == set()


# --- lost rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_lost_rows_are_never_held_against_anyone(path: Path) -> None:
    """Lose each row in turn: nothing may hold, and what is still a violation was one before."""
    header, rows = _read(path)
    allowed = set(_expected(header)) if "violates" in header else set()
    for place, lost in enumerate(rows):
        if lost.node == "":
            continue
        for gap in (Gap(1), Truncated("torn")):
            left = [*rows[:place], Row(lost.node, lost.incarnation, 0, 0, gap), *rows[place + 1 :]]
            if isinstance(gap, Truncated):
                same = (lost.node, lost.incarnation)
                left = left[: place + 1] + [row for row in left[place + 1 :] if (row.node, row.incarnation) != same]
            report = check(renumbered(left))
            assert set(report.violations) <= allowed, (place, gap)
            assert report.labels(State.HOLDS) == ()
            assert report.labels(State.NOT_EXERCISED) == ()


@pytest.mark.parametrize("label", LABELS)
def test_a_violation_that_needs_lost_rows_is_not_judged(label: str) -> None:
    """For each property there is a broken trace in which the loss of one row takes the verdict away."""
    for path in BROKEN:
        header, rows = _read(path)
        if label not in _expected(header):
            continue
        for place, lost in enumerate(rows):
            left = [*rows[:place], Row(lost.node, lost.incarnation, 0, 0, Gap(1)), *rows[place + 1 :]]
            if lost.node and check(renumbered(left)).verdicts[label].state is State.NOT_JUDGED:
                return
    raise AssertionError(f"no loss makes {label} unjudgeable")
