"""What ``isotone up`` says while it runs, without real daemons."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from isotone.cli import up
from isotone.cli.local_cluster import LocalCluster, LocalDaemon, places_of

ENDED = ("d2", "d1")


class Mortal(LocalDaemon):
    """Ends when it was looked at so many times."""

    left = 0

    @property
    def ended(self) -> int | None:
        self.left -= 1
        return None if self.left >= 0 else -9


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_terminal_each_daemon_that_ends_is_a_line(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up, "time", SimpleNamespace(sleep=lambda seconds: None))
    cluster = LocalCluster(places_of(2, 1, 4803), tmp_path)
    cluster.daemons = [Mortal(each.place, each.settings, each.log) for each in cluster.daemons]
    cluster.daemons[0].left, cluster.daemons[1].left = 5, 2  # type: ignore[attr-defined]
    assert up._tell_and_wait(cluster, as_json)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in said] == [f"isotone: daemon {name} ended with -9" for name in ENDED]
    assert all(f"{name}.log" in line and "again: " in line for name, line in zip(ENDED, said))
