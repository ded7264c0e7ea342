"""Small instances of Figures 10 to 15, and the paper's findings on them."""

from __future__ import annotations

import pytest

from isotone.flows.compiler import compile_text, contributions
from isotone.flows.library import PROGRAMS
from isotone.sim.figures import FIGURES, figure_named
from isotone.sim.flows.figures import CommitClients, PhaseClients, commit_run, phase_seconds
from isotone.sim.flows.lean import LeanRun, LeanSettings


@pytest.mark.parametrize("number", range(10, 16))
def test_every_figure_is_in_the_catalogue(number: int) -> None:
    assert f"flows-{number}" in FIGURES


def test_figure_10_grows_with_the_logarithm_of_the_size() -> None:
    rows = figure_named("flows-10", daemons=512, probes=6).rows
    still = {row["nodes"]: row["phase_s"] for row in rows if row["mttf_s"] == "never"}
    assert set(still) == {8, 64, 512}
    steps = [still[64] - still[8], still[512] - still[64]]
    assert all(0.1 <= step <= 0.4 for step in steps) and abs(steps[0] - steps[1]) < 0.1  # two rounds a layer
    churn = {row["nodes"]: row["phase_s"] for row in rows if row["mttf_s"] == 10.0}
    assert churn[512] < 3 * still[512]


def test_figures_11_and_12_tokens_grow_with_the_rate_and_latency_does_not() -> None:
    slow, fast = (commit_run(LeanSettings(nodes=64), tps=tps, commits=0.95, seconds=4) for tps in (200, 800))
    assert slow["decided"] == fast["decided"] == 1.0
    assert fast["latency_s"] < 1.2 * slow["latency_s"]
    assert 1.3 < fast["token_bytes"] / slow["token_bytes"] < 5


def test_figure_11_latency_is_unbounded_past_the_limit_of_ranges() -> None:
    within = commit_run(LeanSettings(nodes=64, ranges_max=100), tps=800, commits=0.9, seconds=4)
    beyond = commit_run(LeanSettings(nodes=64, ranges_max=8), tps=800, commits=0.9, seconds=4)
    assert within["decided"] == 1.0
    assert beyond["decided"] < 1.0 or beyond["latency_s"] > 1.5 * within["latency_s"]


def test_figure_13_tokens_are_largest_when_half_commits() -> None:
    few, half = (
        commit_run(LeanSettings(nodes=64, ranges_max=10**6), tps=300, commits=share, seconds=3) for share in (0.95, 0.5)
    )
    assert half["token_bytes"] > 2 * few["token_bytes"]


def test_figures_14_and_15_bad_choices_cost() -> None:
    rates = {rate: phase_seconds(LeanSettings(nodes=64, token_rate=rate), 12.0)["phase_s"] for rate in (3.0, 10.0)}
    assert rates[3.0] > 2 * rates[10.0]
    sizes = {size: phase_seconds(LeanSettings(nodes=256, ring_size=size), 12.0)["phase_s"] for size in (2, 8, 64)}
    assert sizes[8] < sizes[2] and sizes[8] < sizes[64]


def test_the_clients_of_figures_do_what_the_programs_say() -> None:
    rules = compile_text(PROGRAMS["commit"])
    clients = CommitClients(rules, 16, 100.0, 0.9, 1)
    LeanRun(rules, clients, LeanSettings(nodes=16)).run_until(3.0)
    for node in range(16):
        assert clients.values(node, 3.0) == clients.rules_say(node, 3.0)
    phases = compile_text(PROGRAMS["phases"])
    entered = PhaseClients(phases, 8)
    LeanRun(phases, entered, LeanSettings(nodes=8, mttf=5.0)).run_until(10.0)
    assert all(
        entered.values(n, 10.0) == contributions(phases, {"L": entered.values(n, 10.0)[0]}, {}, "") for n in range(8)
    )  # type: ignore[dict-item]
