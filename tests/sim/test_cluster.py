"""The scenario language in code, on an echo and on the oracle."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from isotone.core.boundary import Connected, Indicate, Message, Requested, Send
from isotone.core.contract import Action, Event
from isotone.core.services import Service
from isotone.sim.cluster import Cluster
from isotone.trace.events import Crashed, Ended, JoinRequested, Recovered, Sent, Stabilised
from tests.sim.automata import Echo


class Polite(Echo):
    """Opens sessions, echoes messages."""

    def handle(self, event: Event) -> list[Action]:
        actions = super().handle(event)
        opens = isinstance(event, Requested) and not isinstance(event.request, Send)
        return [Indicate((event.client,), Connected())] if opens and isinstance(event, Requested) else actions


def test_the_first_request_opens_the_session_and_waits_for_it() -> None:
    cluster = Cluster("a", service=Polite())
    cluster.join("a", "alice", "chat")
    cluster.send("a", "alice", ["chat", "news"], "one", b"two", service=Service.FIFO)
    cluster.send("a", "alice", "chat", "three")
    assert cluster.run_until_quiet()
    entries = [row.entry for row in cluster.rows]
    assert entries[0] == Recovered("a#1")
    sent = [entry for entry in entries if isinstance(entry, Sent)]
    assert [(entry.client, entry.first_sequence, entry.groups, entry.lengths) for entry in sent] == [
        ("#alice#a#1#1", 1, ("chat", "news"), (3, 3)),
        ("#alice#a#1#1", 3, ("chat",), (5,)),
    ]
    assert entries.index(JoinRequested("#alice#a#1#1", "chat")) < entries.index(sent[0])
    assert cluster.messages("a", "alice") == [b"one", b"two", b"three"]
    assert isinstance(cluster.heard("a", "alice")[0], Connected)


def test_a_new_connection_is_a_new_session() -> None:
    cluster = Cluster("a", service=Polite())
    for _ in range(2):
        cluster.send("a", "alice", "chat", "hello")
        cluster.disconnect("a", "alice")
        assert cluster.run_until_quiet()
    sent = [row.entry for row in cluster.rows if isinstance(row.entry, Sent)]
    assert [(entry.client, entry.first_sequence) for entry in sent] == [("#alice#a#1#1", 1), ("#alice#a#1#2", 1)]


def test_faults_reach_the_world() -> None:
    cluster = Cluster("a", "b", "c", service=Polite(), sites={"c": "far"})
    cluster.partition(["a", "b"], ["c"])
    assert cluster.world.components() == (("a", "b"), ("c",))
    cluster.heal()
    cluster.cut("a", "b", one_way=True)
    assert cluster.world.network.is_cut("a", "b") and not cluster.world.network.is_cut("b", "a")
    cluster.mend("a", "b", one_way=True)
    cluster.pause("a")
    assert cluster.world.is_paused("a")
    cluster.resume("a")
    cluster.crash("b")
    cluster.run_for(2.5)
    cluster.restart("b")
    assert cluster.now_ms == 2.5 and cluster.world.nodes["c"].site == "far"
    assert [row.entry for row in cluster.rows][-2:] == [Crashed("b#1"), Recovered("b#2")]


def test_on_the_oracle_a_group_forms_parts_and_merges() -> None:
    cluster = Cluster("a", "b", "c", seed=2)
    for node, client in (("a", "alice"), ("b", "bob"), ("c", "carol")):
        cluster.join(node, client, "chat")
    assert cluster.run_until_quiet()
    cluster.partition(["a", "b"], ["c"])
    assert cluster.run_until_quiet()
    assert names(cluster, "a", "alice") == ["alice", "bob"]
    assert names(cluster, "c", "carol") == ["carol"]
    cluster.heal()
    assert cluster.finish()
    cluster.send("c", "carol", "chat", "hello", service=Service.SAFE)
    assert cluster.run_until_quiet()
    for node, client in (("a", "alice"), ("b", "bob"), ("c", "carol")):
        assert names(cluster, node, client) == ["alice", "bob", "carol"]
        assert cluster.messages(node, client) == [b"hello"]
        assert isinstance(cluster.heard(node, client)[-1], Message)
    driver = [row.entry for row in cluster.rows if not row.node]
    assert driver == [Stabilised((("a", "b", "c"),)), Ended(True)]


def names(cluster: Cluster, node: str, client: str) -> list[str]:
    view = cluster.view(node, client, "chat")
    assert view is not None
    return [member.name for member in view.members]


def eventful(seed: int) -> bytes:
    """The rows of a run through faults of all kinds, as bytes."""
    cluster = Cluster("a", "b", "c", "d", seed=seed)
    for node in "abcd":
        for client in ("x", "y"):
            cluster.join(node, client, "chat")
    for turn, service in enumerate([*Service] * 4):
        node = "abcd"[turn % 4]
        if cluster.world.is_up(node):
            cluster.send(node, "x", "chat", f"message {turn}", service=service)
        cluster.run_for(7)
        if turn == 4:
            cluster.partition(["a", "b"], ["c", "d"])
        if turn == 8:
            cluster.crash("b")
        if turn == 12:
            cluster.heal()
            cluster.restart("b")
        if turn == 16:
            cluster.pause("c")
        if turn == 20:
            cluster.resume("c")
    assert cluster.finish()
    return b"\n".join(msgspec.json.encode(row) for row in cluster.rows)


@pytest.mark.parametrize("hash_seed", ["1", "99"])
def test_the_same_seed_is_the_same_trace_byte_for_byte_in_any_process(hash_seed: str) -> None:
    script = "import sys; from tests.sim.test_cluster import eventful; sys.stdout.buffer.write(eventful(5))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert ran.stdout == eventful(5)
    assert len(ran.stdout.splitlines()) > 100
