"""The figures of [Spread 4.4] with fewer probes than a soak takes, and figures as pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.figure import draw
from isotone.cli.main import commands
from isotone.evs.overlay.topology import LinkProtocol
from isotone.sim.figures import Figure, figure_named
from tests.sim.figure_bounds import chain_violations, one_link_violations, routing_violations

QUICK = ["sim", "figure", "spread-table-4.2", "--probes", "2"]


def test_hop_stays_flat_under_load_on_a_lossy_chain_while_tcp_does_not() -> None:
    """Reference: [Spread Figure 4.5]. TCP's queues need a while to grow."""
    figure = figure_named("spread-figure-4.5", probes=60, loads=(0.0, 0.8), seeds=(1, 2))
    assert chain_violations(figure) == []


def test_hop_stays_flat_beyond_the_load_that_was_promised() -> None:
    idle, loaded = figure_named("spread-figure-4.5", probes=25, loads=(0.0, 0.95), tcp_loads=(), seeds=(3,)).rows
    assert loaded["median_ms"] <= 1.15 * idle["median_ms"]


def test_one_link_is_as_fast_as_the_wire() -> None:
    """Reference: [Spread Table 4.2]."""
    figure = figure_named("spread-table-4.2", probes=400)
    assert one_link_violations(figure) == []
    hop, tcp = figure.rows
    assert hop["max_ms"] < tcp["max_ms"], "a loss costs hop less"


def test_fanout_wins_for_some_sources_and_the_tree_for_others() -> None:
    """Reference: [Spread Table 4.1]."""
    assert routing_violations(figure_named("spread-table-4.1", probes=80, protocols=(LinkProtocol.HOP,))) == []


def test_what_is_not_shown_is_noticed() -> None:
    """The bounds can be violated: hop that grows, tcp that does not, routing the other way round."""
    chain = [
        {"protocol": protocol, "load": load, "median_ms": 116.0 if (protocol, load) == ("hop", 0.8) else 100.0}
        for protocol in ("hop", "tcp")
        for load in (0.0, 0.8)
    ]
    assert len(chain_violations(Figure("", {}, chain))) == 2
    link = figure_named("spread-table-4.2", probes=2)
    for row in link.rows:
        row["median_ms"] = row["mean_ms"] = 50.0
    assert len(one_link_violations(link)) == 3
    routing = {"protocol": "hop", "source": "cnds", "fanout_kbit_per_second": 1.0, "tree_kbit_per_second": 2.0}
    assert len(routing_violations(Figure("", {}, [routing]))) == 1


# --- pictures ------------------------------------------------------------------------------------------------------


def test_a_plot_is_an_svg_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'isotone[plot]'")
    path = tmp_path / "figure.svg"
    result = CliRunner().invoke(commands, [*QUICK, "--plot", str(path)])
    assert result.exit_code == 0, result.output
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<?xml") and "<svg" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flows-10", ["nodes", "phase s", "mttf s never, detection s 0.15"]),
        ("flows-12", ["nodes", "latency s", "token bytes (dashed)"]),
        ("flows-14", ["tokens per s", "phase s", "rate adapts"]),
    ],
)
def test_a_plot_has_the_axes_and_curves_of_its_figure(name: str, words: list[str], tmp_path: Path) -> None:
    """With sizes on a scale on which what grows with their logarithm is a line; what was not measured is left out."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'isotone[plot]'")
    row = {
        "mttf_s": "never",
        "detection_s": 0.15,
        "phase_s": 0.3,
        "latency_s": 0.5,
        "token_bytes": 900,
        "rate": "fixed",
    }
    rows = [{**row, "rate": "fixed", "nodes": size, "tokens_per_s": size} for size in (8, 64)]
    rows += [{**row, "rate": "adapts", "nodes": 512, "tokens_per_s": None}, {**rows[0], "phase_s": None}]
    draw(Figure(name, {}, rows), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {each} -->" in text for each in words)


def test_a_plot_into_a_directory_that_is_not_there_says_so(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'isotone[plot]'")
    result = CliRunner().invoke(commands, [*QUICK, "--plot", str(tmp_path / "missing" / "figure.svg")])
    assert result.exit_code == 3 and "cannot write" in result.output


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # so that its import fails
    path = tmp_path / "figure.svg"
    result = CliRunner().invoke(commands, [*QUICK, "--plot", str(path)])
    assert result.exit_code == 3
    assert "a plot needs matplotlib: pip install 'isotone[plot]'" in result.output
    assert not path.exists()
