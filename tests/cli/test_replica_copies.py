"""``isotone replica restore`` is for a whole log that does not run, and says so."""

from __future__ import annotations

import shutil
from pathlib import Path

from isotone.host.store import Store
from tests.cli.replica_stores import listener, three_servers
from tests.cli.running import isotone


def without_c(settings: Path) -> tuple[str, ...]:
    """c has lost its disk, and there is a copy; the command that would restore c alone."""
    copy = settings.parent / "copy"
    done = isotone("replica", "backup", str(settings), str(copy), "--name", "a")
    assert done.exit_code == 0, done.output
    shutil.rmtree(settings.parent / "c.replica")
    return ("replica", "restore", str(copy), str(settings), "--name", "c")


def test_one_server_is_not_restored_beside_a_store_in_use(tmp_path: Path) -> None:
    words = without_c(three_servers(tmp_path))
    running = Store(tmp_path / "b.replica")
    running.open("b")
    done = isotone(*words)
    assert done.exit_code == 3 and "the store of b is in use: a restore is for the whole log" in done.output
    assert "isotone replica remove, isotone replica add" in done.output and "--although-running" in done.output
    assert not (tmp_path / "c.replica").exists(), "nothing is made"
    running.close()
    done = isotone(*words)
    assert done.exit_code == 0 and "restore a, b from the same copy" in done.output
    assert "they are fenced as soon as they meet this log" in done.output


def test_nor_beside_one_that_answers_at_its_port_unless_it_is_so_meant(tmp_path: Path) -> None:
    with listener() as port:
        words = without_c(three_servers(tmp_path, a=port))
        done = isotone(*words)
        assert done.exit_code == 3 and f"a answers at 127.0.0.1:{port}: a restore is for the whole log" in done.output
        assert not (tmp_path / "c.replica").exists(), "nothing is made"
        done = isotone(*words, "--although-running")
        assert done.exit_code == 0, done.output
        shutil.rmtree(tmp_path / "c.replica")
        done = isotone(*words, "--fence", "7")
        assert done.exit_code == 0 and "fence 7" in done.output, "with those that were restored before"
