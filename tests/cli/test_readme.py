"""The README runs as it stands, and so do the examples, which are type-checked too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from isotone.cli.main import commands
from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WITHIN_S = 120.0


def blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for kind, block in found if kind == language]


def run(*arguments: str, stdin: str = "", **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        input=stdin,
        timeout=WITHIN_S,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_six_lines_run(tmp_path: Path) -> None:
    """As they stand, but for the port: another program of this machine may have the usual one."""
    program, *_ = blocks("python")
    assert len(program.splitlines()) <= 7
    place = f'state="{tmp_path}", address="127.0.0.1:{free_ports(1)[0]}"'
    placed = program.replace('state="data/a"', place)
    assert placed != program
    assert [run("-c", placed), run("-c", placed)] == ["3\n", "6\n"]


def test_the_twenty_lines_run() -> None:
    _, _, program, _ = blocks("python")
    assert len(program.splitlines()) <= 25
    assert run("-c", program).splitlines() == ["members: ['alice']", "alice: hello", "alice: everybody has this"]


def test_the_program_under_a_partition_runs() -> None:
    *_, program = blocks("python")
    apart, together = run("-c", program).splitlines()
    assert apart == "{'d1': ('d1', 'd2'), 'd2': ('d1', 'd2'), 'd3': ('d3',)}"
    assert together == str(dict.fromkeys(("d1", "d2", "d3"), ("d1", "d2", "d3")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    assert run(str(path)).strip()


def test_the_examples_that_we_promise_are_there() -> None:
    assert {"chat", "work_queue", "spread_client", "replicated_log", "job_queue", "feature_flags"} <= {
        path.stem for path in EXAMPLES
    }
    assert (ROOT / "examples" / "replicated_counter").is_dir()


def test_the_examples_are_typed() -> None:
    arguments = ["-m", "mypy", "--strict", "--namespace-packages", "--explicit-package-bases", "examples"]
    assert "no issues" in run(*arguments, MYPYPATH=f"src{os.pathsep}.")


def test_the_commands_of_the_readme_exist_with_their_options() -> None:
    lines = [line.partition("#")[0].split() for block in blocks("") for line in block.splitlines()]
    ours = [words[1:] for words in lines if words and words[0] == "isotone"]
    assert len(ours) >= 8
    for words in ours:
        command: click.Command = commands
        context = click.Context(commands)
        rest = list(words)
        while isinstance(command, click.Group) and rest:
            found = command.get_command(context, rest[0])
            assert found is not None, f"isotone {' '.join(words)}: no command {rest[0]}"
            command, rest = found, rest[1:]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, f"isotone {' '.join(words)}"
