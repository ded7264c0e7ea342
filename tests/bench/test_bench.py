"""The measurements: that they are taken, labelled and written down; not what they say."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from isotone.bench.__main__ import bench
from isotone.bench.foundation import bench_plan, message_events
from isotone.bench.measure import shown
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
