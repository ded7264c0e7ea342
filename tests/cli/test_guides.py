"""Every guide and the README: their commands exist with their options, their programs and files are good.

Guides that have a test of their own are run there from end to end; here is what holds for all of them.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import isotone
from isotone.cli.main import commands
from isotone.daemon.settings import read
from tests.cli.running import isotone as run_command

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDES]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITHIN_S = 120.0


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def guide(name: str) -> list[tuple[str, str]]:
    return blocks(ROOT / "docs" / "guide" / f"{name}.md")


def commands_of(page: Path) -> list[str]:
    """Lines that a reader would type, with their continuations."""
    texts = [text.replace("\\\n", " ") for kind, text in blocks(page) if kind not in ("python", "toml")]
    lines = [line.strip().removeprefix("$ ") for text in texts for line in text.splitlines()]
    return [line for line in lines if re.match(r"isotone [a-z]", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_exists_with_its_options_and_arguments(page: Path) -> None:
    for line in commands_of(page):
        words = shlex.split(re.split(r"\s(?:#|>|\|)\s", line)[0])[1:]
        command: click.Command = commands
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(click.Context(command), words[0])
            assert found is not None, f"{line}: there is no command {words[0]}"
            command, words = found, words[1:]
        own = words[: words.index("--")] if "--" in words else words
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in own if word.startswith("--")} <= {*options, "--help"}, line
        needed = [each for each in command.params if isinstance(each, click.Argument) and each.required]
        assert len([word for word in words if not word.startswith("--")]) >= len(needed), line


def test_there_are_commands_and_guides() -> None:
    assert len(GUIDES) >= 14 and sum(len(commands_of(page)) for page in PAGES) > 100


@pytest.mark.parametrize("name", ["data-centres", "flows", "isis", "survive"])
def test_definitions_run_one_after_the_other(name: str) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    for kind, text in guide(name):
        if kind == "python":
            exec(compile(text, f"{name}.md", "exec", dont_inherit=True), names)


@pytest.mark.parametrize(("name", "expected"), [("isis", "lunch at noon"), ("survive", "lunch with Ada")])
def test_a_program_of_three_sites_runs_with_one(
    name: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does among three is tested with its example; here, that it says what the guide shows."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    for kind, text in guide(name):
        if kind == "python":
            exec(compile(text.replace('("a", "b", "c")', '("a",)'), f"{name}.md", "exec", dont_inherit=True), names)

    async def until_told() -> None:
        told = asyncio.Event()
        names["print"] = lambda *words: told.set() if expected in str(words) else None
        async with isotone.node(name="a", state=tmp_path / "node") as daemon, asyncio.timeout(WITHIN_S):
            working = asyncio.create_task(names["main"]("a", daemon.address))
            waiting = asyncio.create_task(told.wait())
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            working.cancel()
            waiting.cancel()
            await asyncio.gather(working, waiting, return_exceptions=True)
            assert told.is_set()

    asyncio.run(until_told())


def test_programs_of_flows_are_proved_as_the_guide_says(tmp_path: Path) -> None:
    programs = [text for kind, text in guide("flows") if text.startswith("program ")]
    assert len(programs) == 2
    for number, text in enumerate(programs):
        file = tmp_path / f"{number}.flow"
        file.write_text(text, encoding="utf-8")
        told = run_command("flow", "check", str(file))
        assert told.exit_code == 0, told.output


def test_files_of_the_guides_to_spark_are_good(tmp_path: Path) -> None:
    from isotone.pipeline.sweep_spec import read_spec

    (sweep,) = (text for kind, text in guide("pipeline") if kind == "toml")
    file = tmp_path / "sweep.toml"
    file.write_text(sweep, encoding="utf-8")
    read_spec(file)
    (archive,) = (text for kind, text in guide("log-on-spark") if kind == "toml")
    server = '[[daemon]]\nname = "a"\naddress = "127.0.0.1"\n\n[[replica.server]]\nname = "a"\n'
    assert read(f"{archive}\n{server}").settings.replica.archive == "/srv/archive"
