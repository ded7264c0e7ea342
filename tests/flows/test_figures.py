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


def agreed(name: str, **parameters: int) -> dict[str, bool]:
    """The paper's findings on a small instance, and whether ours are the same."""
    return {each.paper: each.agrees for each in figure_named(name, **parameters).findings}


def test_figure_10_grows_with_the_logarithm_of_the_size() -> None:
    figure = figure_named("flows-10", daemons=512, probes=8)
    still = {row["nodes"]: row["phase_s"] for row in figure.rows if row["mttf_s"] == "never"}
    assert set(still) == {8, 64, 512}
    found = {each.paper: each for each in figure.findings}
    assert found["duration grows with the logarithm of the size"].agrees
    assert not found["about 4 more token rounds for each layer"].agrees  # two: results and decisions wait for no token
    assert 1.5 <= float(found["about 4 more token rounds for each layer"].ours) <= 2.5
    churn = {row["detection_s"]: row["phase_s"] for row in figure.rows if row["nodes"] == 512 and row["mttf_s"] == 10.0}
    assert churn[0.0] < churn[0.15] < 2 * still[512]  # most of what churn costs is the time to notice a failure


def test_figure_11_values_in_the_top_ring_grow_with_the_rate_and_latency_does_not() -> None:
    figure = figure_named("flows-11", daemons=64, probes=6)
    size = {row["tps"]: row["value_bytes"] for row in figure.rows if row["k_max"] == 100}
    assert size[250] < size[500] < size[1_000] < size[2_000] < size[4_000]
    assert 1.5 <= (size[4_000] - size[2_000]) / (size[2_000] - size[1_000]) <= 2.5
    found = {each.paper: each.agrees for each in figure.findings}
    assert found["latency is unaffected until k_max is reached"]
    assert not found["token size is linear in the rate"]  # most of a token are outcomes, at any rate


def test_figure_12_latency_grows_with_the_logarithm_and_so_do_values_in_the_top_ring() -> None:
    figure = figure_named("flows-12", daemons=512, probes=4)
    assert [each.agrees for each in figure.findings] == [True, False]
    size = [row["value_bytes"] for row in figure.rows]
    assert size[0] < size[1] < size[2] < 3 * size[0]


def test_figure_11_latency_is_unbounded_past_the_limit_of_ranges() -> None:
    within, beyond = (
        commit_run(LeanSettings(nodes=64, ranges_max=ranges), tps=800, commits=0.9, seconds=8) for ranges in (100, 8)
    )
    assert within["decided"] == 1.0 and abs(within["growth_per_s"]) < 0.02
    assert beyond["growth_per_s"] > 0.2 and beyond["latency_s"] > 1.5 * within["latency_s"]


def test_figure_13_tokens_are_largest_when_half_commits() -> None:
    few, half = (
        commit_run(LeanSettings(nodes=64, ranges_max=10**6), tps=300, commits=share, seconds=3) for share in (0.95, 0.5)
    )
    assert half["token_bytes"] > 2 * few["token_bytes"]


def test_figures_14_and_15_find_a_factor_of_two() -> None:
    rates = agreed("flows-14", daemons=64, probes=6)
    assert not any(rates.values())  # the slowest rate costs more, and more than 12 a second still gain
    assert all(agreed("flows-15", daemons=64, probes=4).values())


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
