"""``isotone replica recover``: what it showed is what it does, since nobody else can write meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from isotone.cli import replica_recover
from isotone.core.errors import MachineError
from isotone.host.dumping import ledger_at
from isotone.host.store import Store
from tests.cli.replica_stores import listener, three_servers, unreadable_segment
from tests.cli.running import isotone, told


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A log of three servers whose stores are at the usual place."""
    return three_servers(tmp_path)


def test_all_stores_are_locked_while_somebody_is_asked(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_stores = {name: settings.parent / f"{name}.replica" for name in "abc"}
    stores = {name: all_stores[name] for name in "ab"}

    def confirmed(as_json: bool) -> bool:
        del as_json
        for name, path in all_stores.items():
            with pytest.raises(MachineError, match="in use"):
                Store(path).open(name)
        return True

    words = ("replica", "recover", str(settings), "--survivor", "a", "--survivor", "b")
    monkeypatch.setattr(replica_recover, "_confirmed", lambda as_json: as_json)
    assert isotone(*words).exit_code == 1
    assert {ledger_at(path).fence for path in stores.values()} == {0}
    monkeypatch.setattr(replica_recover, "_confirmed", confirmed)
    done = isotone(*words)
    assert done.exit_code == 0, done.output
    assert {ledger_at(path).fence for path in stores.values()} == {1}
    for name, path in all_stores.items():
        store = Store(path)
        store.open(name)  # given back
        store.close()


def test_a_server_that_runs_is_named_before_anybody_is_asked(settings: Path) -> None:
    running = Store(settings.parent / "b.replica")
    running.open("b")
    words = ("replica", "recover", str(settings), "--survivor", "b")
    done = isotone(*words, "--yes")
    assert done.exit_code == 3 and "the store of b is in use: stop the server first" in done.output
    assert isotone(*words, "--dry-run").exit_code == 0, "who only looks locks nothing"
    running.close()
    done = isotone("replica", "recover", str(settings), "--survivor", "x", "--yes")
    assert done.exit_code == 2 and "there is no server x" in done.output


@pytest.mark.parametrize("survivor", ["a", "c"])
def test_it_is_refused_while_another_store_is_in_use(settings: Path, survivor: str) -> None:
    running = Store(settings.parent / "b.replica")
    running.open("b")
    done = isotone("replica", "recover", str(settings), "--survivor", survivor, "--yes")
    assert done.exit_code == 3 and "the store of b is in use: stop all servers first" in done.output
    running.close()
    assert ledger_at(settings.parent / f"{survivor}.replica").fence == 0


def test_it_is_refused_while_a_server_answers_at_its_port(tmp_path: Path) -> None:
    with listener() as port:
        settings = three_servers(tmp_path, b=port)
        words = ("replica", "recover", str(settings), "--survivor", "c")
        done = isotone(*words, "--yes")
        assert done.exit_code == 3 and f"b answers at 127.0.0.1:{port}: stop all servers first" in done.output
        assert ledger_at(tmp_path / "c.replica").fence == 0
        assert f"b answers at 127.0.0.1:{port}: stop it first" in isotone(*words, "--dry-run").output
        assert told(*words, "--dry-run")["running"] == ["b"]
    assert isotone(*words, "--yes").exit_code == 0


def test_a_quorum_needs_no_force(tmp_path: Path) -> None:
    """To fence the others all the same has to be said."""
    words = ("replica", "recover", str(three_servers(tmp_path, begun=True)), "--survivor", "a", "--survivor", "b")
    done = isotone(*words, "--yes")
    assert done.exit_code == 2 and "a, b are a quorum by their own rule" in done.output
    assert "nothing is lost if they are just started" in done.output and "--although-quorum" in done.output
    assert ledger_at(tmp_path / "a.replica").fence == 0
    assert told(*words, "--dry-run")["are_quorum"]
    assert isotone(*words, "--yes", "--although-quorum").exit_code == 0
    assert isotone(*words, "--yes").exit_code == 2, "now they are all servers there are"
    alone = told("replica", "recover", words[2], "--survivor", "a", "--yes")
    assert not alone["are_quorum"] and alone["done"], "they had not met since"


def test_a_quorum_whose_logs_can_be_read_here_is_named(tmp_path: Path) -> None:
    words = ("replica", "recover", str(three_servers(tmp_path, begun=True)), "--survivor", "c", "--dry-run")
    (note,) = told(*words)["notes"]
    assert note.startswith("a, b, c have sound logs here and are a quorum by their own rule: nothing is lost")
    shutil.rmtree(tmp_path / "a.replica" / "logs")
    assert "b, c have sound logs here and are a quorum" in isotone(*words).output
    shutil.rmtree(tmp_path / "b.replica" / "logs")
    assert "quorum by" not in isotone(*words).output


def test_what_was_broken_off_is_finished_and_no_quorum(tmp_path: Path) -> None:
    settings = three_servers(tmp_path, begun=True)
    shutil.copytree(tmp_path / "b.replica", tmp_path / "before")
    words = ("replica", "recover", str(settings), "--survivor", "a", "--survivor", "b", "--yes")
    assert isotone(*words, "--although-quorum").exit_code == 0
    shutil.rmtree(tmp_path / "b.replica")
    (tmp_path / "before").rename(tmp_path / "b.replica")  # as if b had not got the record
    done = isotone(*words)
    assert done.exit_code == 0, done.output
    assert {ledger_at(tmp_path / f"{name}.replica").fence for name in "ab"} == {1}


def test_a_survivor_that_is_named_twice_counts_once(settings: Path) -> None:
    words = ("replica", "recover", str(settings), "--survivor", "b", "--survivor", "a", "--survivor", "b", "--yes")
    assert told(*words)["survivors"] == ["a", "b"]
    assert {ledger_at(settings.parent / f"{name}.replica").queue.configuration.servers for name in "ab"} == {("a", "b")}


def test_a_store_of_nobody_is_refused(settings: Path) -> None:
    words = ("replica", "recover", str(settings), "--survivor", "a", "--store", f"z={settings.parent}", "--yes")
    done = isotone(*words)
    assert done.exit_code == 2 and "there is no server z; these are: a, b, c" in done.output
    assert ledger_at(settings.parent / "a.replica").fence == 0


def test_a_store_that_cannot_be_read_is_named_and_not_counted(settings: Path) -> None:
    segment = unreadable_segment(settings.parent / "b.replica")
    words = ("replica", "recover", str(settings), "--survivor", "a")
    done = isotone(*words, "--yes")
    assert done.exit_code == 0 and f"b is not counted: cannot read {segment}: Is a directory" in done.output
    assert "the disks of b cannot be read" in done.output
    done = isotone("replica", "recover", str(settings), "--survivor", "b", "--yes")
    assert done.exit_code == 2 and "the store of b must be sound and readable here: cannot" in done.output
