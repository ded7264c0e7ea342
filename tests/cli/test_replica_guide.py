"""docs/guide/replica.md: its files are good settings, its commands exist with their options."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from isotone.cli.main import commands
from isotone.cli.replica_ask import with_remedy
from isotone.core.addresses import is_loopback
from isotone.daemon.settings import read
from isotone.daemon.settings.replication import server_host
from tests.cli.running import isotone

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guide" / "replica.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = [text for kind, text in BLOCKS if kind == "toml"]


def test_no_file_hides_in_a_block_of_another_kind() -> None:
    assert not [text for kind, text in BLOCKS if kind != "toml" and "[[" in text]
    assert len(FILES) >= 2


@pytest.mark.parametrize("text", FILES)
def test_every_file_is_good_and_its_servers_are_where_it_says(text: str, tmp_path: Path) -> None:
    loaded = read(text)
    assert "replica.listen" not in [warning.key for warning in loaded.warnings]
    for server in loaded.settings.replica.server:
        near = is_loopback(server_host(loaded.settings, server))
        assert near == is_loopback(loaded.settings.replica.listen or server_host(loaded.settings, server))
    file = tmp_path / "isotone.toml"
    file.write_text(text, encoding="utf-8")
    told = isotone("replica", "quorum", str(file))
    assert (told.exit_code, "a quorum: " in told.output) == (0, True)
    assert told.output.endswith("as the log began; `isotone replica status` has what counts now\n")


def test_every_command_exists_with_its_options() -> None:
    lines = [
        line for kind, text in BLOCKS if kind == "text" for line in text.splitlines() if line.startswith("isotone ")
    ]
    assert len(lines) > 15
    for line in lines:
        command: click.Command = commands
        rest = line.partition(">")[0].split()[1:]
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), rest.pop(0))
            assert found is not None, line
            command = found
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, line


def test_the_program_is_the_example_that_runs() -> None:
    example = (ROOT / "examples" / "replicated_log.py").read_text(encoding="utf-8")
    assert [text for kind, text in BLOCKS if kind == "python" and "ReplicaLog" in text] == [
        example[example.index("import asyncio") :]
    ]


def test_who_lacks_a_credential_hears_of_the_option_and_of_the_page() -> None:
    said = with_remedy("administration needs a credential")
    assert "--credential-file" in said and "docs/guide/replica.md" in said
    assert re.search(r"^\*\*Who may change it\.\*\*", PAGE, re.MULTILINE)
    assert with_remedy("another change is under way") == "another change is under way"
