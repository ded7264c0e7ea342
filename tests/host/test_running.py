"""Who runs, by the locks of stores and by ports."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from isotone.core.errors import MachineError
from isotone.host.running import answering, kept_still
from isotone.host.store import Store
from tests.ports import free_port


def test_a_store_in_use_is_named_and_the_others_stay_still(tmp_path: Path) -> None:
    stores = {name: tmp_path / name for name in ("a", "b", "none")}
    opened = {name: Store(stores[name]) for name in "ab"}
    for name, store in opened.items():
        store.open(name)
    opened["b"].close()
    with kept_still(stores) as used:
        assert used == {"a": "the store of a is in use"}
        with pytest.raises(MachineError, match="in use"):
            opened["b"].open("b")
    opened["b"].open("b")
    for store in opened.values():
        store.close()
    assert not stores["none"].exists(), "none is made"
    with kept_still(stores) as used:
        assert not used


def test_a_file_system_without_locks_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lock").touch()

    def refused(descriptor: int, how: int) -> None:
        del descriptor, how
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr("isotone.host.running.fcntl.flock", refused)
    with kept_still({"a": tmp_path}) as used:
        assert not used


def test_who_answers_at_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        address, nobody = f"127.0.0.1:{one.getsockname()[1]}", f"127.0.0.1:{free_port()}"
        assert answering({"b": nobody, "a": address, "c": "127.0.0.1:0"}) == {"a": f"a answers at {address}"}
