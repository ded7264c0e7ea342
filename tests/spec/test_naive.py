"""The dumb second version: it judges the hand-made traces as they say, and good runs as the streaming checkers do."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.trace.events import Gap, Row, Truncated
from isotone.trace.jsonl import read_jsonl
from tests.spec.mutation.as_daemons import as_daemons
from tests.spec.mutation.runs import recorded
from tests.spec.naive import judge, violated
from tests.spec.naive.compare import disagreements
from tests.spec.naive.judge import CLIENTS, DAEMONS, verdict

TRACES = Path(__file__).parents[1] / "traces"
LEFT_OUT = ("2.21", "2.22", "2.23", "corel", "missing")
"""The network, the layers above, and runs of which records are missing."""
SEEDS = range(1, 16)


def _read(path: Path) -> tuple[dict[str, object], list[Row]]:
    lines = read_jsonl(path)
    return lines.header, list(lines.rows())


def _whole(pattern: str) -> list[Path]:
    """The hand-made traces of group communication, without lost rows."""
    found = [path for path in sorted(TRACES.glob(pattern)) if path.parent.name not in LEFT_OUT]
    return [path for path in found if not any(isinstance(row.entry, Gap | Truncated) for row in _read(path)[1])]


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_every_checked_property_has_a_formula() -> None:
    for formulas, boundary in ((CLIENTS, Boundary.CLIENTS), (DAEMONS, Boundary.DAEMONS)):
        checked = [each for each in PROPERTIES if each.form is not Form.DEFINITION and boundary in each.boundaries]
        assert set(formulas) == {each.label(boundary) for each in checked}


def test_a_verdict_needs_a_case() -> None:
    assert verdict(iter(())) == "not_exercised"
    assert verdict(iter((True, True))) == "holds"
    assert verdict(iter((True, False, True))) == "violated"


@pytest.mark.parametrize("path", _whole("*/broken*.jsonl"), ids=_name)
def test_broken(path: Path) -> None:
    header, rows = _read(path)
    expected = header["violates"]
    assert isinstance(expected, dict)
    assert set(violated(rows)) == set(expected)


@pytest.mark.parametrize("path", _whole("*/good*.jsonl"), ids=_name)
def test_good(path: Path) -> None:
    header, rows = _read(path)
    wanted, verdicts = header["holds"], judge(rows)
    assert isinstance(wanted, list)
    assert "violated" not in verdicts.values()
    assert {label: verdicts[label] for label in wanted} == dict.fromkeys(wanted, "holds")


@cache
def _judged(seed: int, *, is_daemons: bool) -> tuple[list[Row], dict[str, str]]:
    rows = as_daemons(recorded(seed), "g1") if is_daemons else recorded(seed)
    return rows, judge(rows)


@pytest.mark.parametrize("is_daemons", [False, True], ids=["clients", "daemons"])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_agree_on_good_runs(seed: int, is_daemons: bool) -> None:
    rows, verdicts = _judged(seed, is_daemons=is_daemons)
    assert "violated" not in verdicts.values()
    assert disagreements(rows, verdicts) == {}


@pytest.mark.parametrize("is_daemons", [False, True], ids=["clients", "daemons"])
def test_the_good_runs_exercise_every_property(is_daemons: bool) -> None:
    """Between them: agreement about what never happens would say nothing."""
    verdicts = [_judged(seed, is_daemons=is_daemons)[1] for seed in SEEDS]
    held = {label for each in verdicts for label, state in each.items() if state == "holds"}
    assert set(DAEMONS if is_daemons else CLIENTS) <= held
