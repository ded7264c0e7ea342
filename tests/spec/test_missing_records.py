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
from isotone.spec.verdicts import State
from isotone.trace.events import Row
from isotone.trace.jsonl import write_jsonl

RUNS = [("evs", "oracle", seed) for seed in range(1, 7)]
RUNS += [("evs", "full", seed) for seed in (3, 9)]  # 9: circles of waiting nodes behind what is missing
RUNS += [("corel", "oracle", seed) for seed in (29, 35)]  # 29: an operator forces a primary; 35: a disk was lost


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
        if home[0] and [node for node, _ in homes].count(home[0]) == 1:  # nobody need name one of several
            assert told.exit_code == 5, told.output
            assert f"no rows of {home[0]}" in told.stderr
