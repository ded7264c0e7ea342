"""The suite of clients: every part is measured on real daemons, with numbers so small that only the shape counts."""

from __future__ import annotations

import asyncio
import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from isotone.bench import __main__ as command
from isotone.bench import clients_seeds, clients_slow
from isotone.bench.clients_blocked import measure_block
from isotone.bench.clients_crowd import Crowd
from isotone.bench.clients_daemons import DaemonProcess, Daemons, settings_text
from isotone.bench.clients_effort import ClientsEffort
from isotone.bench.clients_many import Filling, _cost_figures, _each
from isotone.bench.foundation import Effort
from isotone.bench.measure import Figure, figure_table, median_figure
from isotone.core.errors import MachineError

MIB = 1024 * 1024
TINY = ClientsEffort(
    clients=10,
    samples=1,
    runs=1,
    rest_seconds=0.05,
    idle_clients=1,
    idle_seconds=9.0,
    idle_windows=2,
    slow_rounds=1,
    slow_seconds=1.0,  # long enough that something is taken on a machine that has other work
    still_seconds=2.0,  # and that nothing is taken only when nobody may send
    buffer_bytes_max=8 * MIB,
    seeds=1,
    seed_runs=1,
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of the whole command; its text is in ``text``."""
    out = tmp_path_factory.mktemp("results") / "bench-clients.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "QUICK", msgspec.structs.replace(command.QUICK, clients=TINY))
        arguments = ["clients", "--quick", "--idle-seconds", "0.2", "--json", "--out", str(out)]
        result = CliRunner().invoke(command.bench, arguments)
    assert result.exit_code == 0, result.output
    return {**json.loads(result.stdout), "text": out.read_text(), "progress": result.stderr}


def figures(report: dict[str, Any], beginning: str) -> list[dict[str, Any]]:
    found = [figure for figure in report["figures"] if figure["name"].startswith(beginning)]
    assert found, beginning
    return found


def test_every_part_is_measured_and_written_down(report: dict[str, Any]) -> None:
    assert all(math.isfinite(figure["value"]) for figure in report["figures"])
    for figure in report["figures"]:
        assert figure["name"] in report["text"]
    for part in (
        "10 clients and groups",
        "idle daemons",
        "is disconnected",
        "senders wait",
        "at 2 daemons wait",
        "over 1 seeds",
    ):
        assert part in report["progress"]


def test_memory_and_costs_of_many_clients_have_their_units(report: dict[str, Any]) -> None:
    memory = figures(report, "resident memory")
    assert [figure["unit"] for figure in memory] == ["MiB", "MiB", "MiB", "KiB", "KiB"]
    assert memory[0]["value"] > 1
    for act in ("connect", "join"):
        assert [figure["unit"] for figure in figures(report, f"{act}, ")] == ["µs", "µs", "last over first"]


def test_every_idle_daemon_is_watched(report: dict[str, Any]) -> None:
    assert len(figures(report, "idle, daemon")) == 3
    (busiest,) = figures(report, "idle, busiest")
    assert busiest["goal"] == "under 1"
    assert float(re.findall(r"all of (\S+) s", busiest["over"])[0]) < TINY.idle_seconds, "as asked for"


def test_rates_are_compared_within_a_run(report: dict[str, Any]) -> None:
    away, reads, stopped, to_away, to_reads = figures(report, "disconnect, others")
    assert min(figure["value"] for figure in (away, reads, stopped)) > 0
    assert to_away["value"] == pytest.approx(stopped["value"] / away["value"])
    assert to_reads["value"] == pytest.approx(stopped["value"] / reads["value"])
    cpu = figures(report, "disconnect, CPU")
    assert [figure["unit"] for figure in cpu] == [*["µs per message"] * 3, "ratio"]
    assert cpu[3]["value"] == pytest.approx(cpu[0]["value"] / cpu[2]["value"])
    assert to_away["goal"] == to_reads["goal"] == "at least 0.9"


def test_senders_wait_and_go_on(report: dict[str, Any]) -> None:
    before, after, ratio = figures(report, "block, others, ")
    assert ratio["value"] == pytest.approx(after["value"] / before["value"])
    (held,) = figures(report, "block, held")
    assert 0 < held["value"] <= 16, "twice the buffer"
    assert held["goal"] == "at most 16"


def test_a_sender_at_another_daemon_waits_too(report: dict[str, Any]) -> None:
    (taken,) = figures(report, "block far, taken while")
    (held,) = figures(report, "block far, held")
    assert taken["value"] == 0 and 4 < held["value"] <= 16, "at half of the buffer they would go on; at most twice that"


def test_the_goal_of_the_seeds_is_for_a_hundred(report: dict[str, Any]) -> None:
    wall, cpu = figures(report, "replicated counter")
    assert "goal" not in wall
    assert cpu["value"] > 0
    assert Effort().clients.seeds == clients_seeds.GOAL_SEEDS


# --- parts ---------------------------------------------------------------------------------------------------------


def test_first_and_last_are_told_apart() -> None:
    effort = ClientsEffort(clients=100, samples=2)
    assert _each(effort) == 5
    filling = Filling(connects=[1e-6, 3e-6, *[9e-6] * 16, 6e-6, 6e-6], joins=[1e-6] * 20)
    first, last, growth, *joins = _cost_figures(effort, [filling])
    assert (first.value, last.value, growth.value) == pytest.approx((2, 6, 3))
    assert joins[-1].value == pytest.approx(1)


def test_a_median_comes_with_its_quartiles() -> None:
    assert median_figure("name", [5, 1, 3, 2, 4], "unit", "over") == Figure("name", 3, "unit", "over", (2, 4))
    assert median_figure("name", [5], "unit", "over", "goal") == Figure("name", 5, "unit", "over", goal="goal")


def test_quartiles_and_goals_have_columns_where_there_are_any() -> None:
    plain = Figure("name", 3, "unit", "over")
    assert len(figure_table([plain]).columns) == 4
    assert b"goal" not in msgspec.json.encode(plain)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(figure_table([plain, Figure("name", 3, "unit", "over", (2, 4), "under 9")]))
    assert "2 … 4" in captured.get()
    assert "under 9" in captured.get()


def test_a_daemon_that_does_not_start_is_told_with_its_log() -> None:
    with (
        pytest.raises(MachineError, match=r"(?s)daemon d1 does not run.*no_such_limit"),
        Daemons(1, limits="no_such_limit = 1"),
    ):
        pass


def test_settings_name_every_daemon(tmp_path: Path) -> None:
    daemons = [DaemonProcess(f"d{number}", number, 10 + number, tmp_path) for number in (1, 2)]
    text = settings_text(daemons, tmp_path, "buffer_bytes_max = 5")
    assert text.count("[[daemon]]") == 2
    assert text.endswith("[limits]\nbuffer_bytes_max = 5")


def test_without_the_source_tree_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_seeds, "EXAMPLE", "examples.nowhere")
    with pytest.raises(MachineError, match="needs the source tree"):
        clients_seeds.source_root()


def test_a_counter_that_fails_is_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the source tree may be in it, and then it does not fail
    with pytest.raises(MachineError, match="the replicated counter failed"):
        list(clients_seeds.measure_seeds(TINY, lambda note: None, tmp_path))


def test_a_lost_reader_ends_the_measurement() -> None:
    async def play(daemon: DaemonProcess) -> None:
        async with Crowd(daemon) as crowd:
            await crowd.begin()
            await crowd.wait(lambda: crowd.taken_bytes > 0, "a first message")
            await crowd.readers[1].session.close()
            with pytest.raises(MachineError, match="reader1 was lost"):
                await crowd.wait(lambda: False, "what never comes")

    with Daemons(1) as (daemon,):
        before = daemon.cpu_seconds()
        asyncio.run(asyncio.wait_for(play(daemon), 60))
        assert daemon.cpu_seconds() > before
        assert daemon.resident_bytes_most() >= daemon.resident_bytes() > MIB


def test_a_reader_that_is_disconnected_in_spite_of_the_policy_is_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isotone.bench.clients_blocked.LIMITS", clients_slow.LIMITS)
    with pytest.raises(MachineError, match="disconnected, in spite of the policy"):
        asyncio.run(measure_block(TINY, lambda note: None))
