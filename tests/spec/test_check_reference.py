"""The streaming checkers against a dumb second version, on good and corrupted runs, for any interleaving."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import Report, State, check
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.trace.events import Row
from tests.spec.corruptions import CORRUPTIONS, corrupt, interleaved
from tests.spec.reference_checker import Reference

ONLY_DAEMONS = ("2.19.1", "2.19.2")
NETWORK = ("2.21", "2.22", "2.23")
SHAPE = Shape(
    bundles=50,
    nodes=3,
    clients_per_node=2,
    groups=2,
    messages_min=1,
    messages_max=3,
    change_every=5,
    lag_max=8,
    daemons=True,
)
Outcome = dict[str, tuple[str, tuple[tuple[str, int, int], ...]]]


def _outcome(report: Report) -> Outcome:
    """State and witness by label."""
    return {
        label: (verdict.state.value, verdict.violation.witness if verdict.violation else ())
        for label, verdict in report.verdicts.items()
        if label.removeprefix("EVS-") not in NETWORK
    }


def _reference(rows: list[Row]) -> Outcome | None:
    """The same by the reference; none where the trace waits for itself, which only 2.6 judges."""
    found: Outcome = {}
    labels = [label for label in check([]).verdicts if label.removeprefix("EVS-") not in NETWORK]
    for daemons in (False, True):
        reference = Reference(rows, daemons=daemons).judge()
        if reference.circular:
            return None
        for label in labels:
            id = label.removeprefix("EVS-").removesuffix("@S")
            if (label.endswith("@S") or id in ONLY_DAEMONS) is daemons:
                state = "holds" if id in reference.exercised else "not_exercised"
                witness = reference.found.get(id, ())
                found[label] = ("violated" if witness else state, witness)
    return found


def _compare(rows: list[Row], seed: str) -> Report:
    report = check(rows)
    mine = _outcome(report)
    expected = _reference(rows)
    if expected is None:
        assert {mine["EVS-2.6"][0], mine["EVS-2.6@S"][0]} & {"violated"}
    else:
        assert mine == expected
    assert _outcome(check(interleaved(rows, Choice(seed)))) == mine
    return report


def _oracle_run(seed: int) -> list[Row]:
    system = system_named("evs")
    rows: list[Row] = []
    play_plan(system, draw_plan(system, Setting(size=Size.SMALL), seed), rows.append)
    return rows


def _synthetic_run(seed: int) -> list[Row]:
    return list(Synthetic(Shape(**{name: getattr(SHAPE, name) for name in SHAPE.__struct_fields__} | {"seed": seed})))


@pytest.mark.parametrize("seed", range(1, 9))
def test_synthetic_runs_are_good(seed: int) -> None:
    report = _compare(_synthetic_run(seed), f"good/{seed}")
    assert report.violations == {}
    assert report.labels(State.NOT_JUDGED) == ()


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_corrupted_synthetic_runs(kind: str) -> None:
    tried = 0
    for seed in range(1, 9):
        rows = corrupt(_synthetic_run(seed), kind, Choice(f"{kind}/{seed}"))
        if rows is not None:
            tried += 1
            _compare(rows, f"{kind}/{seed}")
    assert tried


@pytest.mark.parametrize("seed", range(1, 4))
def test_oracle_runs(seed: int) -> None:
    rows = _oracle_run(seed)
    assert _compare(rows, f"oracle/{seed}").violations == {}
    for kind in CORRUPTIONS:
        corrupted = corrupt(rows, kind, Choice(f"{kind}/{seed}"))
        if corrupted is not None:
            _compare(corrupted, f"oracle/{kind}/{seed}")
