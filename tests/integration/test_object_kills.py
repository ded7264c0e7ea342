"""A round of kills under a mixed load, and that its checks can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.object_kills import Kills, ports_in_a_row


def test_nothing_acknowledged_is_lost_and_histories_hold(tmp_path: Path) -> None:
    kills = Kills(tmp_path, ports_in_a_row())
    found = kills.round(1, 2)
    assert found.endswith("histories hold, replicas are equal")
    assert len(list((tmp_path / "history1").rglob("*.spool"))) >= 6  # four programs, and those that came again


@pytest.mark.parametrize("held", ["1 10 20\n1 30 40\n", "2 10 20\n1 30 40\n", "1 10 35\n2 30 40\n"])
def test_fences_that_are_wrong_are_noticed(tmp_path: Path, held: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.held").write_text(held)
    with pytest.raises(AssertionError):
        Kills(tmp_path, 1).check_fences()
