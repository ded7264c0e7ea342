"""Scenarios on real daemons: states that are waited for, what is remarked, when such a cluster is quiet."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isotone.core.contract import Action, Event
from isotone.core.errors import LocalProtocolError
from isotone.evs.overlay.topology import LinkProtocol
from isotone.evs.stack import Stack
from isotone.sim.cluster import Cluster
from isotone.sim.full_cluster import FullCluster
from isotone.sim.scenario import ScenarioError, parse, play
from isotone.spec.check import check

SITES = {"a": "x", "b": "y"}


def remarks(cluster: Cluster) -> list[str]:
    return [line for line in cluster.story if isinstance(line, str)]


def test_a_cluster_is_quiet_when_every_component_is_one_daemon_view() -> None:
    cluster = FullCluster("a", "b", "c")
    cluster.partition("ab", "c")
    assert cluster.run_until_quiet()
    assert [len(cluster.stack(name).membership.members) for name in "abc"] == [2, 2, 1]
    cluster.heal()
    assert not cluster.run_until_quiet(1), "the merge takes longer"
    assert cluster.finish() and not check(cluster.rows).violations
    assert {cluster.stack(name).membership.view for name in "abc"} == {cluster.stack("a").membership.view}


def test_messages_are_heard_and_rows_stand_in_the_story() -> None:
    cluster = FullCluster("a", "b")
    cluster.join("a", "alice", "chat")
    cluster.send("b", "bob", "chat", "hello")
    assert cluster.run_until_quiet()
    cluster.send("b", "bob", "chat", "hello again")
    assert cluster.run_until_quiet()
    assert cluster.messages("a", "alice")[-1] == b"hello again"
    assert [each for each in cluster.story if not isinstance(each, str)] == cluster.rows


def test_states_and_why_they_are_entered_are_remarked_in_their_order() -> None:
    cluster = FullCluster("a", "b", sites=SITES)
    assert cluster.run_until_quiet()
    told = [line.split(maxsplit=3)[2:] for line in remarks(cluster) if line.split()[1] == "a#1"]
    states = [rest.partition(":")[0] for mark, rest in told if mark == "*"]
    assert states == ["OP", "GOP", "GATHER", "STATETRANS", "EVS", "OP", "GGATHER", "GOP"]
    assert ["~", "NEWMEMB 2!a#1 {a#1 b#1} -> b.1"] in told
    assert cluster.has_entered("a", "GATHERED") and not cluster.has_entered("a", "GIVEN_UP")


def test_time_passes_until_a_daemon_is_in_a_state() -> None:
    cluster = FullCluster("a", "b", sites=SITES)
    assert cluster.run_until_state("b", "EVS")
    assert cluster.states("b") == ("EVS", "GOP")
    assert not cluster.run_until_state("b", "REP", 50), "its site has nobody else"
    with pytest.raises(LocalProtocolError, match="there is no state 'REST'"):
        cluster.run_until_state("b", "REST")
    with pytest.raises(LocalProtocolError, match="there is no reason 'BOREDOM'"):
        cluster.has_entered("b", "BOREDOM")


def test_clusters_on_the_oracle_have_no_states() -> None:
    cluster = Cluster("a")
    with pytest.raises(LocalProtocolError, match="a runs no daemon"):
        cluster.run_until_state("a", "OP")
    with pytest.raises(LocalProtocolError, match="a runs no daemon"):
        cluster.has_entered("a", "STARTED")


def test_sites_are_linked_by_tcp_where_the_scenario_says_so() -> None:
    cluster = FullCluster("a", "b", "c", sites={**SITES, "c": "z"}, streams=[frozenset(("x", "z"))])
    assert cluster.run_until_quiet()
    network = cluster.stack("a").membership.node.network
    assert network is not None
    protocols = {link.name: link.protocol for link in network.view.topology.links}
    assert protocols == {"x~y": LinkProtocol.HOP, "x~z": LinkProtocol.TCP, "y~z": LinkProtocol.HOP}


def test_a_spy_sees_what_daemons_handle() -> None:
    seen: list[tuple[str, str]] = []

    def spy(stack: Stack, event: Event, actions: Sequence[Action]) -> None:
        seen.append((stack.me.name, type(event).__name__))

    FullCluster("a", spy=spy).run_for(10)
    assert seen[0] == ("a", "Started")


def test_a_script_that_does_not_show_its_point_fails() -> None:
    script = "stack full\nnodes a b\nquiet\nentered a GATHERED\nentered a GATHERED GIVEN_UP\n"
    with pytest.raises(ScenarioError, match=r"s\.txt:5: .* a never entered a state because of GIVEN_UP"):
        play(parse(script, "s.txt"))


def test_a_state_that_never_comes_fails_the_script() -> None:
    with pytest.raises(ScenarioError, match=r"s\.txt:3: .* a is never in REP"):
        play(parse("stack full\nnodes a\nwhen a in REP crash a\n", "s.txt"))


def test_between_node_and_state_stands_in() -> None:
    with pytest.raises(ScenarioError, match="between node and state stands 'in'"):
        play(parse("stack full\nnodes a\nwhen a is OP crash a\n"))
