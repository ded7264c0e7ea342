"""``isotone demo --simulated``: the picture, the story and the verdicts, without a terminal."""

from __future__ import annotations

import re

from click.testing import CliRunner

from isotone.cli.demo_simulated import NODES, demo_plan
from isotone.cli.main import commands
from isotone.sim.replay import replay


def test_the_demo_shows_lanes_and_a_verdict_table_without_a_violation() -> None:
    result = CliRunner().invoke(commands, ["demo", "--simulated"])
    assert result.exit_code == 0
    assert "\x1b[" not in result.output, "no colours without a terminal"
    for mark in ("partition", "crash", "restart", "merge", "no violation", "EVS-2.7"):
        assert mark in result.output
    for node in NODES:
        assert re.search(rf"^{node} .*[A-Z]{{5}}", result.output, re.MULTILINE), f"the lane of {node}"
    assert re.search(r"^carla .*x\.+", result.output, re.MULTILINE), "the crash is in carla's lane"


def test_any_seed_holds() -> None:
    for seed in range(2, 12):
        assert replay(demo_plan(seed)).violations == ()
