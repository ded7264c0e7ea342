"""The blocks of the guide to moving from Spread: files are written, settings read, commands and programs run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.daemon.settings import load, read
from isotone.daemon.settings.composition import gateway_settings
from isotone.daemon.spread import Oversize
from isotone.evs.sessions.settings import SlowPolicy

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "moving-from-spread.md"
BLOCKS = re.findall(
    r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def block(kind: str) -> tuple[str, str]:
    """The name and the text of the only block of this kind."""
    ((name, text),) = [(name, text) for found, name, text in BLOCKS if found == kind]
    return name, text


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert sorted(kind for kind, _, _ in BLOCKS) == ["console", "python", "text", "toml"]


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, text = block("text")
    Path(name).write_text(text, encoding="utf-8")
    said = ""
    for line in block("console")[1].splitlines():
        if line.startswith("$ isotone "):
            assert said == "", f"not said: {said}"
            result = CliRunner().invoke(commands, line.removeprefix("$ isotone ").split(), catch_exceptions=False)
            assert result.exit_code == 0, result.output
            said = result.output
        else:
            assert said.startswith(f"{line}\n"), said
            said = said.removeprefix(f"{line}\n")
    settings = load(Path("isotone.toml"))
    assert [daemon.name for daemon in settings.daemon] == ["alpha", "beta"]
    assert settings.spread.enabled
    assert settings.spread.share_port


def test_the_settings() -> None:
    _, text = block("toml")
    whole = (
        f'[cluster]\nname = "c"\n[[daemon]]\nname = "alpha"\naddress = "127.0.0.1"\n[security]\nmode = "open"\n{text}'
    )
    settings = read(whole).settings
    assert (settings.spread.enabled, settings.spread.unix_socket) == (True, "/tmp/{port}")
    gateway = gateway_settings(settings)
    assert (gateway.oversize, gateway.policy) == (Oversize.SKIP, SlowPolicy.DISCONNECT)


def test_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python")[1], GUIDE.name, "exec"), {"__name__": "guide"})
    assert capsys.readouterr().out.splitlines() == ["members: ['#alice#local']", "#alice#local 7 b'hello'"]
