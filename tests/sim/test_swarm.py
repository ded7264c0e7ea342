"""The swarm: seeds, parallel runs, summaries."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.errors import InputError
from isotone.sim.plan import Size
from isotone.sim.registry import plan_from, system_named
from isotone.sim.run import RunResult, Violation
from isotone.sim.summary import summarise
from isotone.sim.swarm import parse_seeds, replay_command, run_seed, run_swarm, summarise_swarm
from isotone.sim.system import Setting, check_setting, draw_plan

SMALL = Setting(size=Size.SMALL)


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", range(7, 8)), ("1..200", range(1, 201)), ("0..0", range(1)), ("5..6", range(5, 7))]
)
def test_seeds_are_a_number_or_a_range(text: str, seeds: range) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text", ["", "a", "1..", "..4", "3..1", "-1", "1...4", "1..9999999", "1_0", " 1", "٣", "1..٣", "9" * 5_000]
)
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_seeds(text)


@pytest.mark.parametrize("text", ["1_0", " 1", "1 ", "+1", "٣", "1..٣", "9" * 5_000])
def test_seeds_are_ascii_digits_and_nothing_else(text: str) -> None:
    with pytest.raises(InputError):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (Setting(system="nothing"), "no system 'nothing'"),
        (Setting(stack="paper"), "no stack 'paper'"),
        (Setting(nodes="0"), "1 to 64 nodes"),
        (Setting(nodes="13..65"), "1 to 64 nodes"),
        (Setting(nodes="9..3"), "1 to 64 nodes"),
        (Setting(nodes="3.."), "N or N..M"),
        (Setting(nodes="many"), "N or N..M"),
        (Setting(faults="fire"), "does not bear the fault 'fire'"),
        (Setting(faults="crash,fire"), "does not bear the fault 'fire'"),
    ],
)
def test_a_wrong_setting_is_a_clear_error(setting: Setting, told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_setting(system_named(setting.system), setting)


def test_of_a_range_of_nodes_each_seed_draws_its_own_number() -> None:
    system, setting = system_named("evs"), Setting(stack="transport", size=Size.SMALL, nodes="13..48")
    counts = {len(draw_plan(system, setting, seed).topology.nodes) for seed in range(1, 30)}
    assert len(counts) > 8 and min(counts) >= 13 and max(counts) <= 48


def test_a_replay_command_names_what_differs_from_the_usual() -> None:
    assert replay_command(Setting(), 7) == "isotone sim replay 7"
    setting = Setting(size=Size.SMALL, nodes="3", faults="crash,cut")
    assert replay_command(setting, 7) == "isotone sim replay 7 --size small --faults crash,cut --nodes 3"
    assert replay_command(Setting(faults="crash, cut"), 7) == "isotone sim replay 7 --faults crash,cut"


def without_time(result: RunResult) -> RunResult:
    return msgspec.structs.replace(result, cpu_seconds=0.0)


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    seeds = range(1, 7)
    heard: list[int] = []
    alone = run_swarm(SMALL, seeds, workers=1)
    together = run_swarm(SMALL, seeds, workers=3, progress=lambda result: heard.append(result.seed))
    assert [result.seed for result in together] == list(seeds)
    assert sorted(heard) == list(seeds)
    assert list(map(without_time, alone)) == list(map(without_time, together))


@pytest.mark.parametrize("faults", ["none", "partition", "cut", "crash", "pause", "kill"])
def test_each_fault_alone_is_borne(faults: str) -> None:
    for seed in range(1, 6):
        result = run_seed(Setting(size=Size.SMALL, faults=faults), seed)
        assert result.violations == (), replay_command(Setting(size=Size.SMALL, faults=faults), seed)
        assert (result.faults == 0) == (faults == "none")


@pytest.mark.parametrize("nodes", [1, 2, 12])
def test_any_number_of_nodes_will_do(nodes: int) -> None:
    assert run_seed(Setting(size=Size.SMALL, nodes=str(nodes)), 1).violations == ()


def test_a_summary_counts_verdicts_and_lists_failures_with_their_replay_commands() -> None:
    good = _result(1, {"EVS-2.5": "holds", "EVS-2.7": "not_exercised"})
    bad = _result(2, {"EVS-2.5": "violated", "EVS-2.7": "holds"}, Violation("EVS-2.5", "twice", (("d1", 1, 3),)))
    summary = summarise_swarm(SMALL, [bad, good])
    assert summary.runs == 2
    assert summary.violations == 1
    assert summary.exit_code == 1
    assert summary.properties == {
        "EVS-2.5": {"holds": 1, "violated": 1, "not_exercised": 0, "not_judged": 0},
        "EVS-2.7": {"holds": 1, "violated": 0, "not_exercised": 1, "not_judged": 0},
    }
    (failure,) = summary.failures
    assert (failure.seed, failure.property, failure.witness) == (2, "EVS-2.5", (("d1", 1, 3),))
    assert failure.replay == "isotone sim replay 2 --size small"
    assert summary.bounds == {"live": 0.5}
    assert summary.choices == {"skipped hole": 2}
    assert summary.distribution["sends"].max == 20


def test_a_summary_of_nothing_is_empty() -> None:
    assert summarise([], {}).runs == 0


def test_a_plan_of_an_unknown_system_or_stack_is_a_clear_error() -> None:
    with pytest.raises(InputError, match="no system"):
        plan_from(b'{"version": 1, "system": "abacus"}')


def _result(seed: int, verdicts: dict[str, str], *violations: Violation) -> RunResult:
    return RunResult(
        seed=seed,
        verdicts=verdicts,
        violations=violations,
        sends=seed * 10,
        messages=seed * 20,
        faults=3,
        view_changes=4,
        events=5,
        rows=6,
        cpu_seconds=0.1,
        bounds={"live": seed / 4},
        choices={"skipped hole": 1},
    )
