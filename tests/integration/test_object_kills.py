"""A round of kills under a mixed load, and that its checks can fail."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.integration.object_kills import Kills, head, ports_in_a_row
from tests.integration.object_program import SERVERS

DISK_BYTES = 64 * 1024
"""No file of the process may grow beyond it."""


def test_nothing_acknowledged_is_lost_and_histories_hold(tmp_path: Path) -> None:
    kills = Kills(tmp_path, ports_in_a_row())
    found = kills.round(1, 2)
    assert found.endswith("histories hold, replicas are equal")
    assert len(list((tmp_path / "history1").rglob("*.spool"))) >= 6  # four programs, and those that came again


def test_a_disk_that_is_full_ends_a_server_and_nothing_is_lost(tmp_path: Path) -> None:
    kills = Kills(tmp_path, ports_in_a_row())
    programs = {name: kills.start(name, 1, 0) for name in SERVERS}
    try:
        for each in programs.values():
            each.until(2, "up")
        resource.prlimit(programs["c"].process.pid, resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
        told = programs["c"].failed()
        assert "the disk is full" in told or "Nothing is lost: mend it and start again" in told
        programs["a"].until(len(programs["a"].lines()) + 2)
        programs["c"] = kills.start("c", 1, 1)
        programs["c"].until(2, "up")
        assert "replicas are equal" in kills.stop(programs.values(), 1)
    except BaseException:
        for each in programs.values():
            each.kill()
        raise


@pytest.mark.parametrize("held", ["1 10 20\n1 30 40\n", "2 10 20\n1 30 40\n", "1 10 35\n2 30 40\n"])
def test_fences_that_are_wrong_are_noticed(tmp_path: Path, held: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.held").write_text(held)
    with pytest.raises(AssertionError):
        Kills(tmp_path, 1).check_fences()


def test_results_begin_with_the_commit_and_the_machine() -> None:
    command, commit, *_ = head().splitlines()
    assert command.endswith("object_kills") and commit.startswith("# commit ") and "cores" in commit
