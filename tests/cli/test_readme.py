"""The README and the examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_of_the_readme_runs() -> None:
    (program,) = blocks("python")
    printed = run("-c", program)
    assert printed.splitlines() == [
        "bob: [b'can you hear me?']  carol: []",
        "together again: ['#alice#a#1#1', '#bob#b#1#1', '#carol#c#1#1']",
        "violated: []",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    assert run(str(path)).strip()


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_the_commands_of_the_readme_exist_with_their_options() -> None:
    lines = [line.partition("#")[0].split() for block in blocks("") for line in block.splitlines()]
    ours = [words[1:] for words in lines if words and words[0] == "isotone"]
    assert len(ours) >= 4
    for words in ours:
        path = [word for word in words if word in {"sim", "swarm", "replay", "trace", "figure", "check", "demo"}]
        told = CliRunner().invoke(commands, [*path, "--help"]).output
        for option in (word for word in words if word.startswith("--")):
            assert option in told, f"{option} of isotone {' '.join(path)}"
