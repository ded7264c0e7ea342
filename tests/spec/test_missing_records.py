"""Records that are not there: nobody is accused for them, nothing holds, and what is missing is named."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.spec.check.layers import LAYERS
from isotone.spec.verdicts import State
from isotone.trace.events import Crashed, Ended, Recovered, Row, Stabilised
from isotone.trace.jsonl import write_jsonl

RUNS = [("evs", "oracle", seed) for seed in range(1, 7)]
RUNS += [("evs", "full", seed) for seed in (3, 9)]  # 9: circles of waiting nodes behind what is missing
RUNS += [("corel", "oracle", seed) for seed in (29, 35)]  # 29: an operator forces a primary; 35: a disk was lost
LAYERED = [("hab", "consensus", seed) for seed in (1, 3, 10)]  # 1: a primary; 3, 10: who crashed came back
LAYERED += [("flows", "rings", seed) for seed in (2, 3, 5)]
LAYERED += [("synchrony", "oracle", 1), ("isis", "oracle", 1), ("toolkit", "isis", 1), ("replicated", "oracle", 1)]
ALONE = {"isis": "ISIS", "toolkit": "ISIS toolkit", "replicated": "replicated objects"}
"""Of these the rows of the layer itself, and of starts and crashes: those of the daemons below are many."""


@cache
def recorded(system: str, stack: str, seed: int) -> list[Row]:
    found = system_named(system)
    rows: list[Row] = []
    play_plan(found, draw_plan(found, Setting(system=system, stack=stack, size=Size.SMALL), seed), rows.append)
    return rows


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "/".join(map(str, run)))
def test_every_node_left_out_in_turn(run: tuple[str, str, int]) -> None:
    rows = recorded(*run)
    assert check(rows).missing == ()
    for node in sorted({row.node for row in rows} - {""}):
        report = check([row for row in rows if row.node != node])
        assert report.violations == {}, node
        if "@" not in node:  # a client's own record, which nobody names
            assert report.missing == (node,)
            assert report.labels(State.HOLDS) == ()


@cache
def layered(system: str, stack: str, seed: int) -> list[Row]:
    rows = recorded(system, stack, seed)
    if system not in ALONE:
        return rows
    entries = next(layer.entries for layer in LAYERS if layer.name == ALONE[system])
    return [row for row in rows if isinstance(row.entry, (*entries, Recovered, Crashed, Stabilised, Ended))]


@pytest.mark.parametrize("run", LAYERED, ids=lambda run: "/".join(map(str, run)))
def test_every_node_and_every_incarnation_of_a_layer_left_out_in_turn(run: tuple[str, str, int]) -> None:
    """Of a node that took no part nothing is missing; and nobody need name one record of several."""
    rows = layered(*run)
    whole = check(rows)
    assert whole.missing == () and whole.violations == {}
    for node in sorted({row.node for row in rows} - {""}):
        report = check([row for row in rows if row.node != node])
        assert report.violations == {}, node
        assert report.missing in ((), (node,))
        if run[0] != "hab":
            assert report.missing == (node,) and report.labels(State.HOLDS) == ()
    for node, incarnation in sorted({(row.node, row.incarnation) for row in rows if row.node}):
        report = check([row for row in rows if (row.node, row.incarnation) != (node, incarnation)])
        assert report.violations == {}, (node, incarnation)
        assert all(each.startswith(node) for each in report.missing)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "/".join(map(str, run)))
def test_every_incarnation_left_out_in_turn(run: tuple[str, str, int]) -> None:
    rows = recorded(*run)
    for home in sorted({(row.node, row.incarnation) for row in rows if row.node}):
        report = check([row for row in rows if (row.node, row.incarnation) != home])
        assert report.violations == {}, home
        assert set(report.missing) <= {home[0], f"{home[0]}#{home[1]}"}


def test_every_file_left_out_in_turn(tmp_path: Path) -> None:
    """One file for each record; the command says which is not there, and ends with a code of its own."""
    rows = recorded("evs", "oracle", 3)
    homes = sorted({(row.node, row.incarnation) for row in rows})
    files = {}
    for node, incarnation in homes:
        files[node, incarnation] = tmp_path / f"{node or 'run'}-{incarnation}.jsonl"
        mine = [row for row in rows if (row.node, row.incarnation) == (node, incarnation)]
        write_jsonl(files[node, incarnation], "run", mine)
    whole = CliRunner().invoke(commands, ["check", *map(str, files.values())])
    assert whole.exit_code == 0, whole.output
    for home, path in files.items():
        left = [str(each) for each in files.values() if each != path]
        told = CliRunner().invoke(commands, ["check", *left])
        assert told.exit_code in (0, 5), told.output  # nobody need name one of several
        if home[0] and [node for node, _ in homes].count(home[0]) == 1:
            assert told.exit_code == 5, told.output
            assert f"no rows of {home[0]}" in told.stderr
            assert "nothing could be judged" in told.output
