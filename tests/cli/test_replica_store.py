"""Commands on a server's log on disk: what cannot be read, what is torn, and who runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from isotone.host.store import Store
from tests.cli.replica_stores import three_servers, unreadable_segment
from tests.cli.running import isotone

COMMANDS = {
    "verify": ("log", "verify"),
    "dump": ("log", "dump"),
    "steps": ("log", "dump", "--steps"),
    "scrub": ("scrub",),
}


@pytest.mark.parametrize("command", [*COMMANDS, "backup"])
def test_what_cannot_be_read_is_named(tmp_path: Path, command: str) -> None:
    settings = three_servers(tmp_path)
    segment = unreadable_segment(tmp_path / "a.replica")
    if command == "backup":
        done = isotone("replica", "backup", str(settings), str(tmp_path / "copy"), "--name", "a")
        assert not (tmp_path / "copy").exists()
    else:
        done = isotone("replica", *COMMANDS[command], str(settings), "--name", "a")
    assert done.exit_code == 2 and f"cannot read {segment}: Is a directory" in done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_is_closed_to_us_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    settings = three_servers(tmp_path)

    def closed(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_dir", closed)
    done = isotone("replica", *COMMANDS[command], str(settings), "--name", "a")
    assert done.exit_code == 2 and f"cannot read {tmp_path / 'a.replica'}" in done.output
    assert "Permission denied" in done.output and "unexpected" not in done.output


def test_a_disk_that_cannot_read_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = three_servers(tmp_path)
    (segment,) = tmp_path.glob("a.replica/logs/log/*.segment")
    reads = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path == segment:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return reads(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    done = isotone("replica", "log", "verify", str(settings), "--name", "a")
    assert done.exit_code == 1 and f"cannot read {segment}: Input/output error" in done.output


@pytest.mark.parametrize(
    ("sync", "words"),
    [("every-commit", "that nobody was promised, unless"), ("left-to-the-system", "that may have been acknowledged")],
)
def test_a_torn_end_is_told_by_how_it_was_synced(tmp_path: Path, sync: str, words: str) -> None:
    settings = three_servers(tmp_path)
    with settings.open("a") as file:
        file.write(f'\n[replica]\nsync = "{sync}"\n')
    (segment,) = tmp_path.glob("a.replica/logs/log/*.segment")
    with segment.open("ab") as file:
        file.write(b"torn")
    done = isotone("replica", "log", "verify", str(settings), "--name", "a")
    assert done.exit_code == 0 and f"a torn end of 4 bytes {words}" in done.output
    done = isotone("replica", "log", "verify", "--directory", str(tmp_path / "a.replica"))
    assert "that nobody was promised, unless its sync was left to the system" in done.output


def test_the_log_of_a_server_that_runs_is_not_scrubbed(tmp_path: Path) -> None:
    """Though it be sound."""
    words = ("replica", "scrub", str(three_servers(tmp_path)), "--name", "a")
    running = Store(tmp_path / "a.replica")
    running.open("a")
    done = isotone(*words)
    assert done.exit_code == 3 and "the store of a is in use: stop the server first" in done.output
    running.close()
    done = isotone(*words)
    assert done.exit_code == 0 and "sound" in done.output
