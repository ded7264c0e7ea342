"""``isotone replica recover``: what it showed is what it does, since nobody else can write meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.cli import replica_recover
from isotone.core.contract import Storage, StoredLog
from isotone.core.errors import MachineError
from isotone.corel import records as r
from isotone.corel.journal import LOG
from isotone.corel.message import Message, Origin
from isotone.host.dumping import ledger_at
from isotone.host.scrub import create
from isotone.host.store import Store
from tests.cli.running import isotone

GREEN = (r.Received((Message(Origin("a", 1), 1, 1, (b"x",)),), True), r.Greened(1))


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A log of three servers whose stores are at the usual place."""
    file = tmp_path / "isotone.toml"
    lines = ["[security]", 'mode = "open"', "[cluster]", f'state_directory = "{tmp_path}"', "[replica]", 'listen = ""']
    for number, name in enumerate("abc", 1):
        lines += ["[[daemon]]", f'name = "{name}"', f'address = "10.0.0.{number}"']
        lines += ["[[replica.server]]", f'name = "{name}"']
        steps = (r.Lived(1, name.encode()), *GREEN)
        stored = StoredLog(1, [r.encode_record(step) for step in steps])
        create(tmp_path / f"{name}.replica", name, Storage(logs={LOG: stored}))
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_survivors_are_locked_while_somebody_is_asked(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = {name: settings.parent / f"{name}.replica" for name in "ab"}

    def confirmed(as_json: bool) -> bool:
        del as_json
        for name, path in stores.items():
            with pytest.raises(MachineError, match="in use"):
                Store(path).open(name)
        return True

    monkeypatch.setattr(replica_recover, "_confirmed", confirmed)
    words = ("replica", "recover", str(settings), "--survivor", "a", "--survivor", "b")
    done = isotone(*words)
    assert done.exit_code == 0, done.output
    assert {ledger_at(path).fence for path in stores.values()} == {1}
    monkeypatch.setattr(replica_recover, "_confirmed", lambda as_json: as_json)
    assert isotone(*words).exit_code == 1
    for name, path in stores.items():
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
