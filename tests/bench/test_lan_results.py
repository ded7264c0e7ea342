"""Medians, quartiles, and the ratio to the better peer."""

from __future__ import annotations

import json

import msgspec
import pytest

from isotone.bench.lan.cells import PATHS, Cell, chosen, isotone_cells, peer_cells
from isotone.bench.lan.goals import goal_of, goals_of
from isotone.bench.lan.measuring import Sample
from isotone.bench.lan.page import page
from isotone.bench.lan.peers import Peers
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
        row("isotone", 60.0, variant="safe", service="safe"),
        row("isotone", 90.0, variant="senders-3", senders=3),
        row("corosync", 20.0, path="bridge"),
        row("corosync", 30.0, variant="senders-3", senders=3, path="bridge"),
        row("corosync-rt", 50.0, path="bridge"),
        row("spread", 10.0),
        row("spread", 6.0, variant="safe", service="safe"),
    ]
    found = {ratio.variant: (ratio.peer, ratio.throughput) for ratio in ratios_of(rows)}
    assert found == {"send-one": ("corosync-rt", 2.0), "safe": ("corosync-rt", 1.2), "senders-3": ("corosync", 3.0)}


@pytest.mark.parametrize("variant", ["offered-daemons-3", "offered-groups-1", "daemons-2", "daemons-8"])
def test_what_no_peer_does_has_no_ratio(variant: str) -> None:
    assert ratios_of([row("isotone", 100.0, variant=variant), row("corosync", 20.0, path="bridge")]) == []


def test_other_sizes_are_never_compared() -> None:
    assert ratios_of([row("isotone", 100.0), row("corosync", 20.0, size=1024, path="bridge")]) == []


def of_each(*values: Sample | None) -> dict[int, Sample]:
    """By repetition; None: it was not taken then."""
    return {place: value for place, value in enumerate(values) if value is not None}


def five(rate: float, cpu: float = 1.0) -> dict[int, Sample]:
    return of_each(*[sample(rate, cpu / 2, cpu / 2)] * 5)


@pytest.mark.parametrize(
    ("at", "goal", "values", "verdict"),
    [
        ("least", 5.0, [6.0, 6.0, 7.0, 8.0, 8.0], "met"),
        ("least", 5.0, [3.0, 3.0, 4.0, 6.5, 6.5], "within the quartiles"),
        ("least", 5.0, [3.0, 3.0, 4.0, 4.5, 4.5], "missed"),
        ("most", 100.0, [90.0, 90.0, 95.0, 300.0, 300.0], "met"),
        ("most", 100.0, [90.0, 120.0, 150.0, 200.0, 200.0], "missed"),
        ("most", 100.0, [10.0, 10.0, 110.0, 150.0, 150.0], "within the quartiles"),
        ("least", 5.0, [6.0, 7.0, 8.0, 9.0], "not measured"),
        ("least", 5.0, [], "not measured"),
    ],
)
def test_a_goal_is_missed_only_beyond_the_quartiles_and_judged_from_five_repetitions_on(
    at: str, goal: float, values: list[float], verdict: str
) -> None:
    found = goal_of("x", "least" if at == "least" else "most", goal, values)
    assert found.verdict == verdict
    assert found.repetitions == len(values)
    assert (found.value is None) == (not values)


def test_the_list_of_goals_is_the_same_whatever_was_measured() -> None:
    nothing = goals_of([], {}, {})
    assert {goal.verdict for goal in nothing} == {"not measured"}
    cells = [*isotone_cells(), *peer_cells("corosync", paths=("bridge", "bridge-frames"))]
    everything = goals_of(cells, {cell.key: five(10.0) for cell in cells}, {})
    assert [goal.name for goal in everything] == [goal.name for goal in nothing]
    assert len({goal.name for goal in nothing}) == len(nothing)
    assert {goal.verdict for goal in everything} == {"met", "missed", "not measured"}
    for part in ("base 64 B", "receive-one 64 B", "encryption 1024 B", "SIGKILL", "gap of 1 ms", "one offered rate"):
        assert any(part in goal.name for goal in nothing), part


def test_repetitions_are_paired_by_their_number() -> None:
    ours, peer = Cell(), Cell(system="corosync", path="bridge")
    samples = {
        ours.key: of_each(*(sample(rate) for rate in (10.0, 20.0, 30.0, 40.0, 50.0, 60.0))),
        peer.key: of_each(None, *(sample(rate) for rate in (2.0, 3.0, 4.0, 5.0, 6.0))),
    }
    found = {goal.name: goal for goal in goals_of([ours, peer], samples, {})}
    goal = found["base 64 B loopback, ours over the better peer: messages/s"]
    assert (goal.value, goal.quartiles, goal.repetitions) == (10.0, (10.0, 10.0), 5)


def test_goals_are_judged_from_samples_and_figures() -> None:
    cells = [Cell(), Cell(variant="safe", service="safe"), Cell(system="corosync", path="bridge")]
    cells.append(Cell(system="corosync", path="bridge", packing=8192))
    cells.append(Cell(system="corosync", path="bridge", packing=65_536))
    samples = {cell.key: five(rate) for cell, rate in zip(cells, (60.0, 30.0, 10.0, 50.0, 40.0), strict=True)}
    gap, tail = {"p50": 100.0, "p99": 200.0, "p999": 300.0}, "none/agreed/64"
    once = {
        f"latency/gap-1ms/isotone/{tail}/loopback": gap,
        f"latency/gap-1ms/corosync/{tail}/bridge": {**gap, "p50": 50.0},
        "latency/gap-1ms/corosync/none/agreed/1024/bridge": {**gap, "p50": 1.0},
        "kill-loaded/isotone/loopback": {"view_ms": 90.0, "silence_ms": 95.0},
        "latency/common:corosync:8192:loopback/isotone/none/agreed/64/loopback": gap,
        "latency/common:corosync:8192:loopback/corosync/8192/agreed/64/bridge": {**gap, "p99": 900.0},
        "latency/common:corosync:65536:loopback/isotone/none/agreed/64/loopback": gap,
        "latency/common:corosync:65536:loopback/corosync/65536/agreed/64/bridge": {**gap, "p99": 1.0},
    }
    figures = {name: dict.fromkeys(range(5), found) for name, found in once.items()}
    goals = goals_of(cells, samples, figures)
    found = {goal.name: (round(goal.value, 3), goal.verdict) for goal in goals if goal.value is not None}
    against = {goal.name: goal.against for goal in goals}
    rate, cpu = (f"base 64 B loopback, ours over the {name}" for name in ("better peer", "cheapest peer"))
    assert found[f"{rate}: messages/s"] == (6.0, "met")
    assert against[f"{rate}: messages/s"] == "corosync on bridge, base"
    assert found[f"{cpu}: CPU per message"] == (1.0, "missed")
    packed = "base 64 B loopback, ours over the better packed peer: messages/s"
    assert (found[packed], against[packed]) == ((1.2, "met"), "corosync packed to 8192 on bridge, base")
    assert found["safe over base, 64 B: messages/s"] == (0.5, "missed")
    latency = "latency p50, 64 B loopback, gap of 1 ms: ours over the better peer"
    assert (found[latency], against[latency]) == ((2.0, "missed"), "corosync on bridge")
    assert found["SIGKILL to view, ms"] == (90.0, "met")
    common = "latency p99, 64 B loopback, one offered rate: ours over the better packed peer"
    assert (round(found[common][0], 2), found[common][1]) == (0.22, "met")


def test_cpu_is_judged_against_the_cheapest_peer_though_another_is_faster() -> None:
    cells = [Cell(), Cell(system="corosync", path="bridge"), Cell(system="spread")]
    samples = dict(zip((cell.key for cell in cells), (five(60.0, 2.0), five(20.0, 8.0), five(10.0, 4.0)), strict=True))
    found = {goal.name: goal for goal in goals_of(cells, samples, {})}
    goal = found["base 64 B loopback, ours over the cheapest peer: CPU per message"]
    assert (goal.value, goal.against) == (0.5, "spread on loopback, base")


def test_encryption_has_to_bear_the_peer_without_it() -> None:
    cells = [Cell(variant="encryption", encryption=True), Cell(system="corosync", path="bridge")]
    cells.append(Cell(system="corosync", path="bridge", variant="encryption", encryption=True))
    samples = dict(zip((cell.key for cell in cells), (five(30.0), five(20.0), five(10.0)), strict=True))
    found = {goal.name: goal for goal in goals_of(cells, samples, {})}
    assert found["encryption 64 B loopback, ours over the better peer: messages/s"].value == 1.5
    (ratio,) = ratios_of(rows_of(cells, samples))
    assert (ratio.variant, ratio.throughput) == ("encryption", 1.5)


def test_scale_is_judged_over_the_repetitions_that_all_have() -> None:
    cells = [Cell(variant=f"offered-daemons-{count}", daemons=count, share=0.02) for count in (2, 3, 5, 8)]
    samples = {cell.key: five(10.0, 2.0 * cell.daemons) for cell in cells}
    samples[cells[3].key] = of_each(sample(10.0, 10.0), *[sample(10.0, 8.8)] * 5)
    name = "CPU per message and daemon, 2 to 8 daemons, 64 B: most over least"
    (goal,) = (goal for goal in goals_of(cells, samples, {}) if goal.name == name)
    assert (goal.repetitions, goal.verdict) == (5, "met")
    assert goal.value == pytest.approx(1.1)
    del samples[cells[2].key]
    (goal,) = (goal for goal in goals_of(cells, samples, {}) if goal.name == name)
    assert goal.verdict == "not measured", "without five daemons it is not from 2 to 8"


def test_a_summary_is_json_and_a_page() -> None:
    cells = [Cell(), Cell(path="bridge"), Cell(system="corosync", path="bridge")]
    measured = new_measured("isotone bench lan <&>", peers={"corosync": "3.1.7"})
    measured.samples = {cell.key: of_each(sample(10.0), sample(20.0)) for cell in cells}
    measured.figures = {"idle/isotone/loopback": {0: {"cpu_percent": 0.5}, 1: {"cpu_percent": 0.7}}}
    measured.seconds = 80 * 60.0
    measured.notes = ["without spread: <missing>"]
    summary = summary_of(measured, cells)
    told = json.loads(msgspec.json.encode(summary))
    assert list(told["rows"][0]) == ROW_FIELDS
    assert list(told["ratios"][0]) == RATIO_FIELDS
    assert told["repetitions"] == 2
    assert told["machine"]["software"].keys() == {"msgspec", "pyarrow", "uvloop"}
    assert any("80 minutes" in note for note in told["notes"]), "a whole run may take 75"
    names = [found["name"] for found in told["figures"]]
    assert "idle/isotone/loopback" in names
    link = next(found for found in told["figures"] if found["name"] == f"link/{cells[1].key}")
    assert {"packets_per_message", "daemons_cpu_ms_per_mb"} <= set(link["values"])
    text = page(summary)
    assert "corosync 3.1.7" in text
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
    for variant in ("senders-3", "fifo", "safe", "encryption", "send-one", "send-wait", "receive-one", "offload-off"):
        assert {cell.size for cell in cells if cell.variant == variant} == {64, 1024}
    assert {cell.path for cell in cells if cell.variant == "offload-off"} == {"loopback", "bridge", "bridge-frames"}
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


def test_a_peer_has_only_the_factors_that_are_its_own() -> None:
    peers = Peers(dict.fromkeys(("corosync", "corosync-rt", "spread")), [], PATHS, {})  # type: ignore[arg-type]
    found = {(cell.system, cell.variant, cell.service) for cell in peers.cells() if cell.variant != "base"}
    assert found == {
        ("corosync", "senders-3", "agreed"),
        ("corosync", "encryption", "agreed"),
        ("corosync-rt", "senders-3", "agreed"),
        ("spread", "senders-3", "agreed"),
        ("spread", "fifo", "fifo"),
        ("spread", "safe", "safe"),
    }


def test_cells_are_chosen_by_variant_size_and_path() -> None:
    found = chosen(isotone_cells(), ("base", "safe"), (64,), ("loopback",))
    assert [(cell.variant, cell.size, cell.path) for cell in found] == [
        ("base", 64, "loopback"),
        ("safe", 64, "loopback"),
    ]
    assert rows_of(found, {}) == []
