"""Token rate and k_max that adapt to what the leader measures, and those that are fixed."""

from __future__ import annotations

from isotone.flows.compiler import compile_text
from isotone.flows.library import PROGRAMS
from isotone.flows.pace import FASTER_MAX, RANGES_MAX, RANGES_MIN, UNDER_WAY_MAX, Pace
from isotone.sim.flows.figures import BUDGET, CommitClients, commit_run, phase_seconds
from isotone.sim.flows.lean import LeanRun, LeanSettings

INTERVAL_US = 100_000


def after(pace: Pace, *, trip_us: int, length: int, truncated: bool = False, rounds: int = 40) -> Pace:
    """The same pace after as many tokens that took as long and were as large."""
    for round in range(1, rounds + 1):
        pace.sent(round, round * 1_000_000)
        pace.came_back(round, round * 1_000_000 + trip_us, length, truncated)
    return pace


def test_nothing_adapts_without_a_budget() -> None:
    pace = after(Pace(INTERVAL_US, 100), trip_us=5_000, length=60_000, truncated=True)
    assert (pace.interval_us, pace.ranges_max) == (INTERVAL_US, 100)


def test_the_next_token_leaves_when_the_last_should_be_back() -> None:
    assert after(Pace(INTERVAL_US, 100, 10**6), trip_us=20_000, length=500).interval_us == 20_000
    assert after(Pace(INTERVAL_US, 100, 10**6), trip_us=500_000, length=500).interval_us == INTERVAL_US
    assert after(Pace(INTERVAL_US, 100, 10**6), trip_us=10, length=10).interval_us == INTERVAL_US // FASTER_MAX


def test_the_budget_slows_tokens_down() -> None:
    assert after(Pace(INTERVAL_US, 100, 10_000), trip_us=5_000, length=500).interval_us == 50_000


def test_k_max_grows_while_values_are_truncated_and_there_is_room() -> None:
    assert after(Pace(INTERVAL_US, 100, 10**6), trip_us=5_000, length=500).ranges_max == 100
    assert after(Pace(INTERVAL_US, 100, 10**6), trip_us=5_000, length=500, truncated=True).ranges_max == RANGES_MAX
    assert after(Pace(INTERVAL_US, 100, 10**4), trip_us=5_000, length=900, truncated=True).ranges_max == 100


def test_k_max_shrinks_while_tokens_cost_more_than_the_budget() -> None:
    assert after(Pace(INTERVAL_US, 100, 10**4), trip_us=5_000, length=1_100, rounds=3).ranges_max == 42
    assert after(Pace(INTERVAL_US, 100, 10**4), trip_us=5_000, length=1_100).ranges_max == RANGES_MIN


def test_tokens_that_never_come_back_are_taken_for_too_long() -> None:
    pace = Pace(INTERVAL_US, 100, 10**6)
    for round in range(UNDER_WAY_MAX + 1):
        pace.sent(round, round)
    assert pace.ranges_max == 75


def test_a_new_view_is_measured_anew() -> None:
    pace = after(Pace(INTERVAL_US, 100, 10**6), trip_us=20_000, length=500)
    pace.sent(99, 0)
    pace.new_view()
    assert pace.interval_us == INTERVAL_US
    pace.came_back(99, 1, 500, truncated=False)  # of the view before
    assert pace.interval_us == INTERVAL_US


def test_rings_that_adapt_send_no_tokens_that_chase_each_other() -> None:
    """Eight nodes 10 ms apart: 12 tokens a second, where the paper finds that more are redundant work."""
    settings = LeanSettings(nodes=8, token_rate=2.0, bytes_per_s=BUDGET)
    still = phase_seconds(LeanSettings(nodes=8, token_rate=2.0), 12.0)
    adapting = phase_seconds(settings, 12.0)
    assert 2 * adapting["phase_s"] < still["phase_s"] and adapting["hops_per_s"] < 8 * 15


def test_a_k_max_that_adapts_carries_what_a_fixed_one_does_not() -> None:
    fixed, adapting = (
        commit_run(LeanSettings(nodes=64, ranges_max=8, bytes_per_s=budget), tps=800, commits=0.9, seconds=5)
        for budget in (0, BUDGET)
    )
    assert adapting["decided"] == 1.0 and adapting["latency_s"] < 1.0
    assert fixed["decided"] < 1.0 or fixed["latency_s"] > 1.5 * adapting["latency_s"]


def test_a_budget_that_is_too_small_truncates_and_does_not_collapse() -> None:
    rules = compile_text(PROGRAMS["commit"])
    clients = CommitClients(rules, 64, 800.0, 0.9, 1)
    run = LeanRun(rules, clients, LeanSettings(nodes=64, bytes_per_s=2_000))
    run.run_until(3.0)
    early = len(clients.learned)
    run.run_until(6.0)
    assert 0 < early < len(clients.learned) and any(run.truncated)
