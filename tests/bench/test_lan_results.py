"""Medians, quartiles, and the ratio to the better peer."""

from __future__ import annotations

import json

import msgspec
import pytest

from isotone.bench.lan.cells import Cell, chosen, isotone_cells, peer_cells
from isotone.bench.lan.goals import goal_of, goals_of
from isotone.bench.lan.measuring import Sample
from isotone.bench.lan.page import page
from isotone.bench.lan.results import Ratio, Row, ratios_of, row_of, rows_of, spread_of
from isotone.bench.lan.run import new_measured
from isotone.bench.lan.summary import summary_of

ROW_FIELDS = [
    "system",
    "variant",
    "packing",
    "service",
    "size",
    "senders",
    "path",
    "rate",
    "mb_per_s",
    "cpu_us_daemons",
    "cpu_us_clients",
    "quartiles",
]
RATIO_FIELDS = [
    "variant",
    "packing",
    "service",
    "size",
    "senders",
    "path",
    "peer",
    "peer_path",
    "throughput",
    "cpu",
]


def sample(rate: float, daemons: float = 1.0, clients: float = 1.0) -> Sample:
    return Sample(rate=rate, cpu_us_daemons=daemons, cpu_us_clients=clients, messages=100)


def row(system: str, rate: float, cpu: float = 1.0, **of: object) -> Row:
    cell = msgspec.structs.replace(Cell(system=system), **of)
    return row_of(cell, [sample(rate, cpu / 2, cpu / 2)])


def test_a_row_has_medians_and_quartiles() -> None:
    found = row_of(Cell(size=1000), [sample(rate) for rate in (10.0, 50.0, 20.0, 40.0, 30.0)])
    assert found.rate == 30.0
    assert found.quartiles["rate"] == (20.0, 40.0)
    assert found.mb_per_s == 0.03
    assert spread_of([7.0]) == (7.0, 7.0)


def test_the_json_has_the_fields_that_are_promised() -> None:
    assert list(Row.__struct_fields__) == ROW_FIELDS
    assert list(Ratio.__struct_fields__) == RATIO_FIELDS


def test_the_better_peer_is_the_faster_one() -> None:
    rows = [row("isotone", 100.0), row("corosync", 20.0, path="bridge"), row("spread", 25.0, 4.0)]
    (ratio,) = ratios_of(rows)
    assert (ratio.peer, ratio.peer_path, ratio.throughput) == ("spread", "loopback", 4.0)
    assert ratio.cpu == 1.0, "the cheaper peer counts for CPU"


def test_a_peer_without_loopback_enters_with_its_row_on_the_bridge_and_the_ratio_says_so() -> None:
    rows = [row("isotone", 100.0), row("corosync", 20.0, path="bridge"), row("corosync", 90.0, path="bridge-frames")]
    (ratio,) = ratios_of(rows)
    assert (ratio.path, ratio.peer_path, ratio.throughput) == ("loopback", "bridge", 5.0)


def test_on_the_bridge_with_frames_only_the_same_path_counts() -> None:
    rows = [row("isotone", 100.0, path="bridge-frames"), row("corosync", 20.0, path="bridge")]
    assert ratios_of(rows) == []


def test_every_packing_of_the_peer_has_its_ratio() -> None:
    rows = [
        row("isotone", 100.0),
        row("corosync", 20.0, path="bridge"),
        row("corosync", 80.0, packing=8192, path="bridge"),
    ]
    found = {ratio.packing: ratio.throughput for ratio in ratios_of(rows)}
    assert found == {"none": 5.0, "8192": 1.25}


def test_a_variant_that_the_peer_lacks_stands_against_its_base_case() -> None:
    rows = [
        row("isotone", 100.0, variant="send-one"),
        row("isotone", 90.0, variant="senders-3", senders=3),
        row("corosync", 20.0, path="bridge"),
        row("corosync", 30.0, variant="senders-3", senders=3, path="bridge"),
    ]
    found = {ratio.variant: ratio.throughput for ratio in ratios_of(rows)}
    assert found == {"send-one": 5.0, "senders-3": 3.0}


def test_other_sizes_are_never_compared() -> None:
    assert ratios_of([row("isotone", 100.0), row("corosync", 20.0, size=1024, path="bridge")]) == []


@pytest.mark.parametrize(
    ("at", "goal", "values", "verdict"),
    [
        ("least", 5.0, [6.0, 7.0, 8.0], "met"),
        ("least", 5.0, [3.0, 4.0, 6.5], "within the quartiles"),
        ("least", 5.0, [3.0, 4.0, 4.5], "missed"),
        ("most", 100.0, [90.0, 95.0, 300.0], "met"),
        ("most", 100.0, [90.0, 150.0, 200.0], "missed"),
        ("most", 100.0, [10.0, 110.0, 150.0], "within the quartiles"),
    ],
)
def test_a_goal_is_missed_only_beyond_the_quartiles(at: str, goal: float, values: list[float], verdict: str) -> None:
    found = goal_of("x", "least" if at == "least" else "most", goal, values)
    assert found.verdict == verdict


def test_goals_are_judged_from_samples_and_figures() -> None:
    cells = [Cell(), Cell(variant="safe", service="safe"), Cell(system="corosync", path="bridge")]
    cells.append(Cell(system="corosync", path="bridge", packing=8192))
    samples = {cell.key: [sample(rate) for _ in range(5)] for cell, rate in zip(cells, (60.0, 30.0, 10.0, 50.0))}
    gap, tail = {"p50": 100.0, "p99": 200.0, "p999": 300.0}, "none/agreed/64"
    figures = {
        f"latency/gap-1ms/isotone/{tail}/loopback": [gap],
        f"latency/gap-1ms/corosync/{tail}/bridge": [{**gap, "p50": 50.0}],
        "kill-loaded/isotone/loopback": [{"view_ms": 90.0, "silence_ms": 95.0}],
        "latency/common:corosync:8192:loopback/isotone/none/agreed/64/loopback": [gap],
        "latency/common:corosync:8192:loopback/corosync/8192/agreed/64/bridge": [{**gap, "p99": 900.0}],
    }
    found = {goal.name: (round(goal.value, 3), goal.verdict) for goal in goals_of(cells, samples, figures)}
    assert found["base 64 B loopback, ours over corosync on bridge: messages/s"] == (6.0, "met")
    assert found["base 64 B loopback, ours over corosync on bridge: CPU per message"] == (1.0, "missed")
    assert found["base 64 B, ours over corosync packed to 8192: messages/s"] == (1.2, "met")
    assert found["safe over base, 64 B: messages/s"] == (0.5, "missed")
    assert found["latency p50, 64 B, gap of 1 ms: ours over the better peer"] == (2.0, "missed")
    assert found["SIGKILL to view, ms"] == (90.0, "met")
    assert found["latency p99, common:corosync:8192:loopback, 64 B"][1] == "met"


def test_a_summary_is_json_and_a_page() -> None:
    cells = [Cell(), Cell(path="bridge"), Cell(system="corosync", path="bridge")]
    measured = new_measured("isotone bench lan <&>")
    measured.samples = {cell.key: [sample(10.0), sample(20.0)] for cell in cells}
    measured.figures = {"idle/isotone/loopback": [{"cpu_percent": 0.5}, {"cpu_percent": 0.7}]}
    measured.notes = ["without spread: <missing>"]
    summary = summary_of(measured, cells)
    told = json.loads(msgspec.json.encode(summary))
    assert list(told["rows"][0]) == ROW_FIELDS
    assert list(told["ratios"][0]) == RATIO_FIELDS
    assert told["repetitions"] == 2
    names = [found["name"] for found in told["figures"]]
    assert "idle/isotone/loopback" in names
    link = next(found for found in told["figures"] if found["name"] == f"link/{cells[1].key}")
    assert {"packets_per_message", "daemons_cpu_ms_per_mb"} <= set(link["values"])
    text = page(summary)
    assert "&lt;missing&gt;" in text
    assert "<missing>" not in text
    assert "lan &lt;&amp;&gt;" in text
    assert "<script" not in text
    assert "http" not in text, "the page needs nothing else"


def test_the_cells_are_the_base_case_the_paths_and_one_factor_each() -> None:
    cells = isotone_cells()
    keys = [cell.key for cell in cells]
    assert len(set(keys)) == len(keys)
    base = [cell for cell in cells if cell.variant == "base"]
    assert {(cell.size, cell.path) for cell in base} == {
        (size, path) for size in (64, 1024, 8192, 65_536) for path in ("loopback", "bridge", "bridge-frames")
    }
    for variant in ("senders-3", "fifo", "safe", "encryption", "send-one", "receive-one", "offload-off"):
        assert {cell.size for cell in cells if cell.variant == variant} == {64, 1024}
    assert {cell.daemons for cell in cells} == {2, 3, 5, 8}
    assert {cell.groups for cell in cells} == {1, 10, 100, 1000}
    assert {cell.idle_clients for cell in cells} == {0, 1, 10, 100, 1000}


def test_peers_are_packed_where_that_joins_anything() -> None:
    cells = peer_cells("corosync", paths=("bridge", "bridge-frames"))
    assert {(cell.size, cell.packing) for cell in cells if cell.path == "bridge" and cell.variant == "base"} == {
        (64, 0),
        (64, 8192),
        (64, 65_536),
        (1024, 0),
        (1024, 8192),
        (1024, 65_536),
        (8192, 0),
        (8192, 65_536),
        (65_536, 0),
    }
    assert all(cell.path != "loopback" for cell in cells)


def test_cells_are_chosen_by_variant_size_and_path() -> None:
    found = chosen(isotone_cells(), ("base", "safe"), (64,), ("loopback",))
    assert [(cell.variant, cell.size, cell.path) for cell in found] == [
        ("base", 64, "loopback"),
        ("safe", 64, "loopback"),
    ]
    assert rows_of(found, {}) == []
