"""The measurements: that they are taken, labelled and written down; not what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.bench.__main__ import bench
from isotone.bench.foundation import bench_plan, message_events
from isotone.bench.measure import shown
from isotone.bench.membership import per_tenfold
from isotone.bench.ring import (
    RECEIVED_PACKET,
    SENT_PACKET,
    TOKEN,
    Allocations,
    Pair,
    RingCosts,
    Work,
    nothing_yet,
)
from isotone.core.contract import Action, Started
from isotone.core.services import Service
from isotone.trace.events import Connected, Delivered, Row, Sent


def test_the_foundation_is_measured_and_written_down(tmp_path: Path) -> None:
    out = tmp_path / "results" / "bench.txt"
    result = CliRunner().invoke(bench, ["foundation", "--quick", "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert list(report) == ["command", "machine", "figures"]
    assert all(figure["value"] > 0 for figure in report["figures"])
    units = [figure["unit"] for figure in report["figures"]]
    for unit in ("events per CPU second", "runs per minute", "CPU seconds", "µs per bundle", "ratio of rates"):
        assert unit in units
    text = out.read_text()
    assert report["machine"]["python"] in text
    for figure in report["figures"]:
        assert figure["name"] in text


def test_the_ring_path_is_measured() -> None:
    # In a process of its own: counting allocated blocks takes longer the more there are, and a test run holds many.
    command = [sys.executable, "-m", "isotone.bench", "ring", "--quick", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)["figures"]
    assert all(figure["value"] > 0 for figure in figures)
    for count in (1, 10):
        of_count = [figure for figure in figures if f"of {count} message" in figure["name"]]
        assert {figure["unit"] for figure in of_count} == {"µs per bundle", "µs per message", "objects per bundle"}
    assert [figure["name"] for figure in figures[-3:]] == [SENT_PACKET, RECEIVED_PACKET, TOKEN]


def test_an_echo_is_measured_behind_every_loop() -> None:
    result = CliRunner().invoke(bench, ["loops", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    assert {figure["name"] for figure in figures} >= {"echo behind asyncio", "echo behind epoll"}
    assert all(figure["value"] > 0 for figure in figures)


def test_both_daemons_do_all_that_belongs_to_a_rotation() -> None:
    pair = Pair(bytes(1_000), 20_000)
    for _ in range(3):
        pair.rotate()
    pair.run = nothing_yet()
    pair.rotate()
    assert pair.run.packets == pair.run.bundles > 1, "one bundle a packet, sent and delivered"
    assert pair.run.calls[Work.VISIT_SENDING] == pair.run.calls[Work.VISIT_SILENT] == 1


def test_costs_of_packets_are_what_visits_take_beyond_the_token() -> None:
    run = nothing_yet()
    run.packets = 10
    run.calls.update({Work.VISIT_SENDING: 2, Work.VISIT_SILENT: 2, Work.RECEIVE: 4, Work.SUBMIT: 1})
    run.spent.update({Work.VISIT_SENDING: 90_000, Work.VISIT_SILENT: 50_000, Work.RECEIVE: 60_000, Work.SUBMIT: 10_000})
    assert run.costs(token_us=20.0) == RingCosts(sent_packet_us=6.0, received_packet_us=7.0, token_us=20.0)


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        (lambda event: [], 0),  # an empty list of the free list
        (lambda event: [bytearray(1) for _ in range(50)], 100),  # an object and its memory
        (lambda event: [len(bytes(40)) for _ in range(50)], 50),  # freed at once, counted all the same
    ],
)
def test_allocations_are_counted_also_when_they_are_freed_again(body: Callable[..., list[Action]], blocks: int) -> None:
    allocations = Allocations()
    for _ in range(2):  # what a first call allocates once and for all does not count
        allocations.blocks = 0
        allocations.watch(body, Started(0))
    assert blocks <= allocations.blocks <= blocks + 6


def test_a_bench_plan_grows_in_everything_but_nodes() -> None:
    small, large = bench_plan(200), bench_plan(2000)
    assert len(small.topology.nodes) == len(large.topology.nodes) == 5
    assert large.faults_injected > 5 * small.faults_injected
    assert len(large.steps) > 5 * len(small.steps)


def test_a_row_counts_as_its_message_events() -> None:
    sent = Sent("#c#d#1#1", 1, Service.FIFO, ("g",), (1, 2), (3, 4))
    delivered = Delivered(("a", "b", "c"), "#c#d#1#1", 1, Service.FIFO, ("g",), (1, 2), (3, 4), 5, "d#1")
    assert [message_events(Row("d", 1, 0, 0, entry)) for entry in (sent, delivered, Connected("a"))] == [2, 6, 0]


def test_figures_are_shown_with_few_digits() -> None:
    assert (shown(123456.7), shown(1.23456), shown(12.0)) == ("123,457", "1.23", "12")


def test_membership_is_measured() -> None:
    result = CliRunner().invoke(bench, ["membership", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    names = [figure["name"] for figure in figures]
    for name in ("join, group of 10", "daemon view, one of 4 stops", "daemon view, it comes back to 3"):
        assert name in names
    units = {figure["unit"] for figure in figures}
    assert units == {"µs per daemon", "bytes on links", "ms per daemon", "times per tenfold"}
    sizes = [figure["value"] for figure in figures if figure["unit"] == "bytes on links"]
    assert sizes[0] > 0 and sizes[1] == pytest.approx(sizes[0], rel=0.1), "a join is one message, whatever the group"


def test_growth_is_per_tenfold() -> None:
    assert per_tenfold(10, 100, 2.0, 20.0) == pytest.approx(10)
    assert per_tenfold(10, 1000, 3.0, 3.0) == pytest.approx(1)
    assert per_tenfold(8, 64, 1.0, 64.0) == pytest.approx(100), "quadratic"
