"""``isotone replica compare``: what the others know of a disk, before its server votes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from isotone.corel.promises import state_of
from isotone.corel.wire import State
from isotone.host.dumping import ledger_at
from isotone.host.peers import Peers
from isotone.host.store import Store
from tests.cli.replica_stores import three_servers
from tests.cli.running import isotone


def states(directory: Path, **greens: int) -> dict[str, State]:
    """Of a and b, as far as they answer; what c told them to have green."""
    return {
        name: state_of(name, ledger_at(directory / f"{name}.replica", ("a", "b", "c")), {"c": place})
        for name, place in greens.items()
    }


def answers(monkeypatch: pytest.MonkeyPatch, told: dict[str, State]) -> None:
    def replica_states(peers: Peers) -> dict[str, State]:
        peers.reasons = dict.fromkeys(sorted(set("ab") - told.keys()), "it is away")
        return told

    monkeypatch.setattr(Peers, "replica_states", replica_states)


def test_nobody_knows_of_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = three_servers(tmp_path, begun=True)
    answers(monkeypatch, states(tmp_path, a=1, b=0))
    done = isotone("replica", "compare", str(settings), "--name", "c")
    assert (done.exit_code, done.output) == (0, "a, b know of nothing that the disk of c lacks\n")


def test_one_knows_of_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = three_servers(tmp_path, begun=True)
    answers(monkeypatch, states(tmp_path, a=1, b=2))
    done = isotone("replica", "compare", str(settings), "--name", "c")
    assert (
        done.exit_code == 1 and "b knows that this server promised more than its log has: do not start" in done.output
    )
    told = json.loads(isotone("replica", "compare", str(settings), "--name", "c", "--json").output)
    assert list(told["lacks"]) == ["b"] and told["asked"] == ["a", "b"]


def test_another_log_and_a_forced_primary_are_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = three_servers(tmp_path, begun=True)
    found = states(tmp_path, a=1, b=1)
    configuration = found["a"].configuration
    assert configuration is not None
    other = replace(configuration, identities=(*configuration.identities[:2], ("c", b"another")))
    answers(monkeypatch, {"a": replace(found["a"], configuration=other), "b": replace(found["b"], fence=3)})
    done = isotone("replica", "compare", str(settings), "--name", "c")
    assert "a knows another log under this name" in done.output and "b knows that an operator forced" in done.output


def test_who_does_not_answer_may_know_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = three_servers(tmp_path, begun=True)
    answers(monkeypatch, states(tmp_path, a=1))
    done = isotone("replica", "compare", str(settings), "--name", "c")
    assert done.exit_code == 3 and "b did not answer: it is away" in done.output and "may know of more" in done.output


def test_a_server_that_runs_is_not_compared(tmp_path: Path) -> None:
    settings = three_servers(tmp_path, begun=True)
    store = Store(tmp_path / "c.replica")
    store.open("c")
    done = isotone("replica", "compare", str(settings), "--name", "c")
    store.close()
    assert done.exit_code == 3 and "stop the server first" in done.output
