"""``isotone archive`` over a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from isotone.cli.main import commands
from isotone.core.ordered_log import LogEntry
from isotone.replicated.archive import segments
from isotone.replicated.archive.store import Archive


def isotone(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["archive", *arguments])


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    archive = Archive(tmp_path / "archive")
    for first in (1, 11, 21):
        archive.write([LogEntry(at, b"record %d" % at, f"a.1:{at}") for at in range(first, first + 10)])
    return archive


def test_status_verify_and_compact(archive: Archive) -> None:
    assert isotone("status", archive.uri).stdout == "positions 1 to 30 in 3 segments\n"
    assert isotone("verify", archive.uri).stdout == "3 segments, 0 damaged\n"
    assert json.loads(isotone("compact", archive.uri, "--json").stdout) == {"joined": 3, "made": 1}
    told = json.loads(isotone("status", archive.uri, "--json").stdout)
    assert told == {"first": 1, "last": 30, "records": 30, "segments": 1, "needless": 0}


def test_a_damaged_segment_is_named(archive: Archive) -> None:
    segment = archive.listing().segments[1]
    path = Path(archive.uri) / segment.name
    path.write_bytes(path.read_bytes()[:-9])
    result = isotone("verify", archive.uri)
    assert result.exit_code == 1
    assert segment.name in result.stdout and "3 segments, 1 damaged" in result.stdout


def test_a_segment_of_a_newer_version_is_named(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "ARCHIVE_VERSION", 2)
    newer = archive.write([LogEntry(31, b"of later", "a.1:31")])
    monkeypatch.setattr(segments, "ARCHIVE_VERSION", 1)
    result = isotone("verify", archive.uri, "--json")
    (problem,) = json.loads(result.stdout)["problems"]
    assert (result.exit_code, f"{newer.name}: archive version 2 is unknown here" in problem) == (1, True)
    assert isotone("compact", archive.uri).exit_code == 2
    assert len(archive.listing().segments) == 4, "nothing is lost"


def test_a_gap_is_named(archive: Archive) -> None:
    archive.remove(archive.listing().segments[1])
    for command in ("status", "verify", "compact"):
        result = isotone(command, archive.uri)
        assert (result.exit_code, "positions 11 to 20 are missing" in result.stderr) == (2, True)


def test_no_archive(tmp_path: Path) -> None:
    result = isotone("status", str(tmp_path / "none"))
    assert (result.exit_code, "there is no archive at" in result.stderr) == (2, True)
    (tmp_path / "empty").mkdir()
    assert "the archive is empty" in isotone("status", str(tmp_path / "empty")).stdout
