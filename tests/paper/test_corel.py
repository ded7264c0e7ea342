"""COReL, sentence by sentence: one test for each invariant, claim and numbered step, on servers driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations_with_replacement, cycle, product
from random import Random
from typing import Any

import pytest

from isotone.core.codec.control import ControlMessage
from isotone.corel.events import Standing
from isotone.corel.wire import (
    CODEC,
    Acknowledged,
    Attempt,
    Commit,
    Priority,
    Regular,
    Retransmitted,
    State,
)
from isotone.spec.verdicts import State as Verdict
from isotone.trace import corel as trace
from tests.corel.cluster import Cluster, joined


def wires(cluster: Cluster, name: str) -> list[tuple[str, ControlMessage]]:
    """What was sent in the view that this server is in, in its order."""
    order = cluster.sent[cluster[name].replica.session.view]
    return [(sender, CODEC.decode(bytes(message.bundle.payload))) for sender, message in order]


def kinds(cluster: Cluster, name: str) -> list[type[ControlMessage]]:
    return [type(wire) for _, wire in wires(cluster, name)]


def entries(cluster: Cluster, kind: type) -> list[tuple[str, Any]]:
    return [(row.node, row.entry) for row in cluster.rows if isinstance(row.entry, kind)]


def holds(cluster: Cluster, *labels: str) -> None:
    verdicts = cluster.report().verdicts
    assert {label: verdicts[label].state for label in labels} == dict.fromkeys(labels, Verdict.HOLDS)
    assert not cluster.report().violations


def parted() -> Cluster:
    """A primary of a, b, c; then a alone and b, c a primary; each side has something the other lacks."""
    cluster = joined("a", "b", "c")
    cluster.append("a", b"common")
    cluster.run()
    cluster.view("a")
    cluster.view("b", "c")
    cluster.run()
    cluster.append("a", b"minor 1", b"minor 2")
    cluster.append("b", b"major 1")
    cluster.append("c", b"major 2")
    cluster.run()
    return cluster


def undecided(**settings: object) -> Cluster:
    """a has "second" green, which b and c have yellow, and "third" yellow, which nobody else has."""
    cluster = joined("a", "b", "c", **settings)
    cluster.append("a", b"first")
    cluster.run()
    cluster.append("b", b"second")
    cluster.append("a", b"third")
    for name in ("a", "b", "c"):
        cluster.step(name)  # all have "second" yellow, and acknowledge
    cluster.step("a", 4)  # only a receives "third", and hears all acknowledgements
    return cluster


# --- [COReL 5.4] the invariants ------------------------------------------------------------------------------------


def test_fifo() -> None:
    """Reference: [COReL 5.4, FIFO]."""
    cluster = parted()
    cluster.view("a", "b", "c")
    cluster.run()
    for name in "abc":
        assert cluster[name].green.index(b"minor 1") < cluster[name].green.index(b"minor 2")
    holds(cluster, "COR-FIFO")


def test_causal() -> None:
    """Reference: [COReL 5.4, Causal]: b answers what c said, in a minority each; nobody has the answer first."""
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.view("b", "c")
    cluster.run()
    cluster.append("c", b"question")
    cluster.run()
    cluster.append("b", b"answer")
    cluster.run()
    cluster.view("a", "b")
    cluster.run()
    assert cluster["a"].red == [b"question", b"answer"]
    cluster.view("a", "b", "c", "d", "e")
    cluster.run()
    assert cluster["e"].green == [b"question", b"answer"]
    holds(cluster, "COR-CAUSAL")


def test_no_changes_in_green() -> None:
    """Reference: [COReL 5.4, No Changes in Green]."""
    cluster = parted()
    before = list(cluster["b"].green)
    cluster.view("a", "b", "c")
    cluster.run()
    assert cluster["b"].green[: len(before)] == before and len(cluster["b"].green) > len(before)
    holds(cluster, "COR-GREEN")


def test_agreed_green() -> None:
    """Reference: [COReL 5.4, Agreed Green], [COReL Corollary 15]."""
    cluster = parted()
    assert cluster["b"].green[: len(cluster["a"].green)] == cluster["a"].green  # compatible at every moment
    cluster.view("a", "b", "c")
    cluster.run()
    assert cluster["a"].green == cluster["b"].green == cluster["c"].green
    holds(cluster, "COR-AGREED")


def test_yellow() -> None:
    """Reference: [COReL 5.4, Yellow]: green at a, so yellow or green at all who know of the primary, at one place."""
    cluster = undecided()
    assert cluster["a"].lines[0] == 2
    for name in "bc":
        green, yellow, _ = cluster[name].lines
        assert green < 2 <= yellow and cluster[name].at(2) == cluster["a"].at(2)
    holds(cluster, "COR-YELLOW")


# --- [COReL 5.2] and [COReL 5.5] messages ----------------------------------------------------------------------------


def test_order_rule_1() -> None:
    """Reference: [COReL 5.2, Order Rule 1]: all members of the primary, not most of them."""
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    cluster.hold_disk("c")
    cluster.run()
    assert [cluster[name].green for name in "abc"] == [[], [], []]
    cluster.release_disk("c")
    cluster.run()
    assert [cluster[name].green for name in "abc"] == [[b"x"]] * 3
    holds(cluster, "COR-SYNCED")


def test_an_acknowledgement_follows_the_sync() -> None:
    """Reference: [COReL 5.1], [COReL 5.5]."""
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    cluster.hold_disk("b")
    cluster.run()
    assert "b" not in [sender for sender, wire in wires(cluster, "a") if isinstance(wire, Acknowledged)]
    cluster.release_disk("b")
    assert "b" in [sender for sender, wire in wires(cluster, "a") if isinstance(wire, Acknowledged)]


def test_two_communication_rounds() -> None:
    """Reference: [COReL 5.5]: without failures a message and an acknowledgement, and nothing else, make it green."""
    cluster = joined("a", "b", "c")
    begun = len(wires(cluster, "a"))
    cluster.append("a", b"x")
    cluster.run()
    assert [cluster[name].green for name in "abc"] == [[b"x"]] * 3
    sent = wires(cluster, "a")[begun:]
    assert [type(wire) for _, wire in sent] == [Regular, Acknowledged, Acknowledged, Acknowledged]
    assert sorted(sender for sender, _ in sent[1:]) == ["a", "b", "c"]


def test_acknowledgements_ride_on_messages() -> None:
    """Reference: [COReL 5.5], "it is possible to piggyback the ACK"."""
    cluster = joined("a", "b", "c")
    begun = len(wires(cluster, "a"))
    cluster.append("a", b"x", b"y")
    cluster.hold_disk("b")
    cluster.step("b", 2)
    cluster.append("b", b"z")
    cluster.release_disk("b")
    told = [wire for sender, wire in wires(cluster, "a")[begun:] if sender == "b"]
    assert [type(wire) for wire in told] == [Acknowledged, Regular]
    assert isinstance(told[1], Regular) and told[1].acknowledged == 2


def test_appends_during_a_sync_travel_together() -> None:
    """One message holds them all: the cost is per message, the positions are per record."""
    cluster = joined("a", "b", "c")
    cluster.append("b", b"x")
    cluster.hold_disk("a")
    cluster.step("a")
    cluster.append("a", b"1", b"2", b"3")
    cluster.release_disk("a")
    cluster.run()
    assert cluster["c"].green == [b"x", b"1", b"2", b"3"] and cluster["c"].lines == (2, 2, 2)


def test_red_outside_of_a_primary() -> None:
    """Reference: [COReL 3.3, red], [COReL 3.5]: kept in a minority, and ordered when it meets a primary."""
    cluster = parted()
    assert cluster["a"].red[-2:] == [b"minor 1", b"minor 2"] and b"minor 1" not in cluster["a"].green


def test_white() -> None:
    """Reference: [COReL 3.3, white]: only when every server has it green, on disk, is it forgotten."""
    cluster = parted()
    cluster.settle()
    assert cluster["b"].white <= 1 and len(cluster["b"].queue) >= 2  # a lacks them
    cluster.view("a", "b", "c")
    cluster.settle()
    assert [cluster[name].white for name in "abc"] == [5, 5, 5]
    assert [cluster[name].queue for name in "abc"] == [[], [], []]
    holds(cluster, "COR-WHITE")


def test_eventual_path() -> None:
    """Reference: [COReL 3.4]: a and c never meet; b carries."""
    cluster = Cluster("a", "b", "c")
    cluster.view("a")
    cluster.run()
    cluster.append("a", b"x")
    cluster.run()
    cluster.view("a", "b")
    cluster.run()
    cluster.view("b", "c")
    cluster.run()
    assert cluster["c"].green == [b"x"]


# --- [COReL 5.6.2] the recovery procedure --------------------------------------------------------------------------


def test_step_1_states() -> None:
    """Reference: [COReL 5.6.2, Step 1]."""
    cluster = parted()
    cluster.view("a", "b", "c")
    states = {sender: wire for sender, wire in wires(cluster, "a") if isinstance(wire, State)}
    assert sorted(states) == ["a", "b", "c"]
    assert (states["a"].committed, states["b"].committed) == (1, 2)
    assert states["a"].attempted == 1
    assert states["a"].green == 1 and [(str(each.origin), each.last) for each in states["a"].ranges] == [("a.1", 3)]


def test_step_2_waits_for_all() -> None:
    """Reference: [COReL 5.6.2, Step 2]."""
    cluster = parted()
    cluster.view("a", "b", "c")
    cluster.step("b", 2)
    assert cluster["b"].standing == "exchange"
    cluster.step("b")
    assert cluster["b"].standing == "priority"


def test_step_3_green_advances_and_yellow_retreats() -> None:
    """Reference: [COReL 5.6.2, Step 3]."""
    cluster = undecided()
    assert (cluster["a"].lines, cluster["b"].lines) == ((2, 3, 3), (1, 2, 2))
    cluster.view("a", "b", "c")
    for name in "abc":
        cluster.step(name, 3)
        assert cluster[name].lines[:2] == (2, 2)
    assert cluster["a"].lines == (2, 2, 3)  # what only a had is red again


def test_step_4_no_representative_where_all_are() -> None:
    """Reference: [COReL 5.6.2, Step 4]."""
    cluster = undecided()
    cluster.view("a", "b", "c")
    cluster.run()
    assert Priority not in kinds(cluster, "a") and Retransmitted in kinds(cluster, "a")


def test_step_5_priority_messages() -> None:
    """Reference: [COReL 5.6.2, Step 5]: one representative sends what follows the common green; bodies where needed."""
    cluster = parted()
    cluster.view("a", "b", "c")
    cluster.run()
    told = [(sender, wire) for sender, wire in wires(cluster, "a") if isinstance(wire, Priority)]
    assert [sender for sender, _ in told] == ["b"]
    assert told[0][1].first == 2 and [each.records for each in told[0][1].messages] == [(b"major 1",), (b"major 2",)]


def test_step_5_headers_where_all_have_the_message() -> None:
    """Reference: [COReL 5.6.2, Step 5], component_stable."""
    cluster = undecided()  # c has "second" yellow, and lacks "third"
    cluster.view("a", "b")  # a primary
    cluster.run("a", "b")
    cluster.view("a", "b", "c")
    cluster.run()
    (priority,) = [wire for _, wire in wires(cluster, "a") if isinstance(wire, Priority)]
    assert priority.first == 2 and [each.records for each in priority.messages] == [(), (b"third",)]


def test_step_6_adopts_in_one_step() -> None:
    """Reference: [COReL 5.6.2, Step 6]: lines, order and last committed primary at once, on disk."""
    cluster = undecided()  # a has "third" yellow, alone
    cluster.view("b", "c")
    cluster.run()
    cluster.append("b", b"fourth")
    cluster.run()
    cluster.view("a", "b", "c")
    cluster.step("a", 3)
    assert cluster["a"].replica.ledger.committed == 1
    cluster.step("b", 3)
    cluster.step("a")
    assert cluster["a"].replica.ledger.committed == 2 and cluster["a"].lines == (3, 3, 4)
    a = cluster.restart("a")
    assert a.replica.ledger.committed == 2 and a.lines == (3, 3, 4)
    assert a.at(3).startswith("b.") and a.at(4).startswith("a.")


def test_step_7_each_red_message_once() -> None:
    """Reference: [COReL 5.6.2, Step 7]: who lacks it gets it, and one server sends it."""
    cluster = Cluster("a", "b", "c", "d", "e")
    for pair in ("ab", "cd"):
        cluster.view(*pair)
        cluster.run()
        cluster.append(pair[0], pair.encode())
        cluster.run()
    cluster.view("a", "b", "c", "d")
    cluster.run()
    told = [(sender, wire) for sender, wire in wires(cluster, "a") if isinstance(wire, Retransmitted)]
    assert [(sender, len(wire.messages)) for sender, wire in told] == [("a", 1), ("c", 1)]
    assert [cluster[name].queue for name in "bcd"] == [cluster["a"].queue] * 3


def test_retransmission_rule() -> None:
    """Reference: [COReL Figure 3]: b has c's message before its own, a owes the first; b waits for it."""
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.view("a", "b")
    cluster.run()
    cluster.append("a", b"cause")
    cluster.run()
    cluster.view("b")
    cluster.run("b")
    cluster.append("b", b"effect")
    cluster.run("b")
    cluster.view("a", "b", "d")
    for name in "abd":
        cluster.step(name, 3)
    assert [sender for sender, wire in wires(cluster, "b") if isinstance(wire, Retransmitted)] == ["a"]
    cluster.run()
    assert [sender for sender, wire in wires(cluster, "b") if isinstance(wire, Retransmitted)] == ["a", "b"]
    assert cluster["d"].red == [b"cause", b"effect"]


@pytest.mark.parametrize("delivered", range(14))
def test_a_recovery_may_break_off_anywhere(delivered: int) -> None:
    """Reference: [COReL 5.6.2, Note]: what it did stays, and the next one ends well."""
    cluster = parted()
    cluster.view("a", "b", "c")
    for name in "abc":
        for _ in range(delivered):
            if cluster.waiting(name):
                cluster.step(name)
    cluster.view("a", "c")
    cluster.run()
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].green == cluster["b"].green == cluster["c"].green and len(cluster["a"].green) == 5
    assert not cluster.report(stable=True).violations


# --- [COReL 5.6.1] establishing ------------------------------------------------------------------------------------


def test_the_number_is_above_all_attempts() -> None:
    """Reference: [COReL Figure 2, 1]."""
    cluster = joined("a", "b", "c")
    cluster.view("b", "c")
    for name in "bc":
        cluster.step(name, 2)  # states; b and c attempt 2
    assert cluster["b"].replica.ledger.attempted == 2 and cluster["b"].replica.ledger.committed == 1
    cluster.view("a", "b")
    cluster.run()
    assert cluster["a"].replica.ledger.committed == 3


def test_the_attempt_is_durable_before_it_is_sent() -> None:
    """Reference: [COReL Figure 2, 2]."""
    cluster = Cluster("a", "b", "c")
    cluster.view("a", "b", "c")
    for name in "abc":
        cluster.hold_disk(name)
        cluster.step(name, 3)
    assert Attempt not in kinds(cluster, "a")
    cluster.release_disk("a")
    assert kinds(cluster, "a").count(Attempt) == 1
    assert cluster.restart("a").replica.ledger.attempted == 1


def test_the_commit_is_atomic_and_durable_before_it_is_sent() -> None:
    """Reference: [COReL Figure 2, 3]: committed, and all yellow, or neither."""
    cluster = Cluster("a", "b", "c")
    cluster.view("a")
    cluster.run()
    cluster.append("a", b"x")
    cluster.run()
    cluster.view("a", "b", "c")
    while Commit not in kinds(cluster, "b"):
        cluster.hold_disk("a")
        cluster.run()
        if cluster["a"].replica.standing is not Standing.COMMIT:
            cluster.release_disk("a")
    assert "a" not in [sender for sender, wire in wires(cluster, "b") if isinstance(wire, Commit)]
    a = cluster.restart("a")
    assert (a.replica.ledger.committed, a.lines) == (0, (0, 0, 1))
    b = cluster.restart("b")
    assert (b.replica.ledger.committed, b.lines) == (1, (0, 1, 1))


def test_establishing_makes_all_green_at_last() -> None:
    """Reference: [COReL Figure 2, 4]."""
    cluster = Cluster("a", "b", "c")
    cluster.view("a")
    cluster.run()
    cluster.append("a", b"x")
    cluster.run()
    cluster.view("a", "b", "c")
    while not cluster["a"].replica.flow.is_primary:
        assert cluster["a"].green == []
        for name in "abc":
            if cluster.waiting(name):
                cluster.step(name)
    assert cluster["a"].green == [b"x"] and cluster["a"].lines == (1, 1, 1)


def test_an_attempt_that_is_broken_off_is_not_undone() -> None:
    """Reference: [COReL Figure 2, 5]: the bit is unset, numbers and colours stay."""
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    cluster.step("a")
    cluster.step("b")
    cluster.signal("a", "b", "c")
    assert not cluster["a"].replica.flow.is_primary
    assert cluster["a"].lines == (0, 1, 1) and cluster["a"].replica.ledger.committed == 1


def test_the_primary_bit_is_volatile() -> None:
    """Reference: [COReL 5.2], [DESIGN 6]: false after a restart."""
    cluster = joined("a", "b", "c")
    assert cluster["a"].replica.flow.is_primary
    assert not cluster.restart("a").replica.flow.is_primary


# --- [COReL 6] the claims ------------------------------------------------------------------------------------------


def test_claim_1_causal_order_in_every_queue() -> None:
    """Reference: [COReL Claim 1], [COReL Corollaries 2 and 3]."""
    cluster = parted()
    cluster.append("b", b"after major 2")
    cluster.run()
    cluster.view("a", "c")
    cluster.run()
    assert cluster["a"].red.index(b"major 2") < cluster["a"].red.index(b"after major 2")
    holds(cluster, "COR-CAUSAL", "COR-FIFO")


def test_claim_4_one_primary_for_each_number() -> None:
    """Reference: [COReL Claim 4]."""
    cluster = parted()
    committed = [entry for _, entry in entries(cluster, trace.PrimaryCommitted)]
    sets = {
        entry.primary: {other.servers for other in committed if other.primary == entry.primary} for entry in committed
    }
    assert sets == {1: {("a", "b", "c")}, 2: {("b", "c")}}
    holds(cluster, "COR-ONE")


def test_claim_5_adopted_was_committed() -> None:
    """Reference: [COReL Claim 5]."""
    cluster = parted()
    cluster.view("a", "b", "c")
    cluster.run()
    adopted = [entry.committed for node, entry in entries(cluster, trace.QueueArranged) if node == "a"]
    assert 2 in adopted
    holds(cluster, "COR-PHASES")


def test_claim_6_epochs_never_fall() -> None:
    """Reference: [COReL Claim 6], [COReL Corollary 7]; through restarts too."""
    cluster = parted()
    cluster.restart("b")
    cluster.view("a", "b")
    cluster.run()
    cluster.restart("a")
    assert cluster["a"].replica.ledger.committed == 3
    holds(cluster, "COR-EPOCHS")


def test_claim_8_green_in_a_primary_was_committed_by_all() -> None:
    """Reference: [COReL Claim 8]."""
    cluster = parted()
    greened = {entry.primary for node, entry in entries(cluster, trace.Greened) if node == "b"}
    for number in greened - {0}:
        commits = [(node, entry) for node, entry in entries(cluster, trace.PrimaryCommitted) if entry.primary == number]
        assert sorted(node for node, _ in commits) == list(commits[0][1].servers)
    holds(cluster, "COR-PHASES")


def test_claim_10_identical_queues_after_recovery() -> None:
    """Reference: [COReL Claim 10]: also where all had something of their own."""
    cluster = Cluster("a", "b", "c", "d", "e")
    for name in "abcde":
        cluster.view(name)
        cluster.run()
        cluster.append(name, name.encode(), name.encode() * 2)
        cluster.run()
    cluster.view("a", "b")
    cluster.run()
    cluster.view("b", "c", "d", "e")
    while cluster["b"].replica.standing is not Standing.ATTEMPT:
        for name in "bcde":
            cluster.step(name)
    assert [cluster[name].queue for name in "cde"] == [cluster["b"].queue] * 3 and len(cluster["b"].queue) == 10


def kept(cluster: Cluster, prefix: list[str], epoch: int) -> list[str]:
    """Who knows of this primary, or of a later one; each has these messages first, in order, yellow or green."""
    knowing = [name for name in cluster.names if cluster[name].replica.ledger.committed >= epoch]
    for name in knowing:
        assert cluster[name].queue[: len(prefix)] == prefix and cluster[name].lines[1] >= len(prefix)
    return knowing


@pytest.mark.parametrize("members", ["cde", "bcd", "abe", "ade", "abcde"])
def test_claim_11_no_recovery_makes_red_what_is_green_anywhere(members: str) -> None:
    """Reference: [COReL Claim 11]: at every step, also of who adopts: d and e know of no primary yet."""
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.view("d", "e")
    cluster.run()
    cluster.append("d", b"earlier")
    cluster.run()
    cluster.view("a", "b", "c")
    cluster.run()
    cluster.append("b", b"m")
    for name in "abc":
        cluster.step(name)
    cluster.step("a", 3)
    assert [cluster[name].lines for name in "abc"] == [(1, 1, 1), (0, 1, 1), (0, 1, 1)]
    prefix = cluster["a"].queue
    assert kept(cluster, prefix, 1) == ["a", "b", "c"]
    cluster.view(*members)
    while any(cluster[name].standing != "attempt" for name in members):
        assert any(cluster.waiting(name) for name in members)
        for name in members:
            if cluster[name].standing != "attempt":
                cluster.step(name, min(1, cluster.waiting(name)))
            kept(cluster, prefix, 1)
    assert set(members) <= set(kept(cluster, prefix, 1))
    assert [cluster[name].replica.ledger.committed for name in members] == [1] * len(members)
    assert not cluster.report().violations


def test_claim_12_what_is_yellow_in_its_place_stays_so_through_the_epoch() -> None:
    """Reference: [COReL Claim 12]: recoveries that end early, or that not all begin; a minority; restarts."""
    cluster = undecided(snapshots=True)
    prefix = cluster["a"].queue[:2]
    for delivered in range(4):  # two states, two attempts; both attempts would be a commit
        cluster.view("b", "c")
        for name in "bc" * delivered:
            cluster.step(name)
            assert kept(cluster, prefix, 1) == ["a", "b", "c"]
    cluster.view("b")
    cluster.append("b", b"alone")
    cluster.run("b")
    assert kept(cluster, prefix, 1) == ["a", "b", "c"] and cluster["b"].lines == (1, 2, 3)
    cluster.view("b", "c")
    cluster.crash("c")
    cluster.step("b")  # its own state, and never that of c
    assert cluster["b"].standing == "exchange"
    for name in "bc":
        cluster.restart(name)
        assert kept(cluster, prefix, 1) == ["a", "b", "c"]
    assert [cluster[name].replica.ledger.committed for name in "abc"] == [1, 1, 1]
    cluster.view("b", "c")
    cluster.run("b", "c")
    assert cluster["b"].green == cluster["c"].green and cluster["b"].lines == (3, 3, 3)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].lines == (4, 4, 4)
    assert not cluster.report(stable=True).violations


def test_claim_13_the_next_primary_keeps_the_order() -> None:
    """Reference: [COReL Claim 13]: one server of the old primary among two strangers enforces its yellow messages."""
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.view("a", "b", "c")
    cluster.run()
    cluster.view("d", "e")
    cluster.run()
    cluster.append("d", b"foreign")  # an earlier timestamp than what follows
    cluster.run()
    for record in (b"1", b"2"):
        cluster.append("a", record)
        cluster.run()
    cluster.view("c", "d", "e")
    cluster.run()
    assert cluster["d"].green == cluster["e"].green == [b"1", b"2", b"foreign"]


def test_claim_14_proposition_9_for_every_server_in_every_epoch() -> None:
    """Reference: [COReL Proposition 9], [COReL Claim 14]: only a knows that "second" is green, in epoch 1; from then on
    it stands at one place, yellow or green, with the same before it, in that epoch and in every later one.
    """
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"first")
    cluster.run()
    cluster.append("b", b"second")
    for name in "abc":
        cluster.step(name)
    cluster.step("a", 3)
    assert [cluster[name].lines[0] for name in "abc"] == [2, 1, 1]
    prefix, epochs = cluster["a"].queue[:2], set()
    for number, (members, steps) in enumerate(product(("bc", "ab", "ac"), (2, 5, 9, 99))):
        cluster.view(*members)
        cluster.append(members[0], b"later %d" % number)
        for name in members * steps:
            cluster.step(name, min(1, cluster.waiting(name)))
            assert kept(cluster, prefix, 1) == ["a", "b", "c"]
            epochs.add(cluster[name].replica.ledger.committed)
    assert len(epochs) > 6 and not cluster.report().violations


def test_what_only_one_server_knows_to_be_green_stays_where_it_is() -> None:
    """Reference: [COReL 5.2]: a orders and is gone; then c, in the next primary, and b hears no commit of it."""
    cluster = joined("a", "b", "c")
    cluster.append("a", b"m")
    for name in "abc":
        cluster.step(name)
    cluster.step("a", 3)
    assert [cluster[name].green for name in "abc"] == [[b"m"], [], []]
    cluster.crash("a")
    cluster.view("b", "c")
    while cluster["c"].standing != "commit" or cluster["b"].standing != "commit":
        for name in "bc":
            if cluster[name].standing != "commit":
                cluster.step(name)
    cluster.run("c")
    assert cluster["c"].green == [b"m"] and cluster["b"].green == []
    cluster.restart("a")
    cluster.view("a", "c")
    cluster.append("c", b"next")
    cluster.run("a", "c")
    assert cluster["c"].green == [b"m", b"next"] and cluster["a"].lines == (2, 2, 2)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["b"].green == [b"m", b"next"]
    assert not cluster.report(stable=True).violations


# --- [COReL 3.5] progress ------------------------------------------------------------------------------------------


PAIRS = ("ab", "bc", "ac")


def deliver_until(cluster: Cluster, members: str, standing: str) -> None:
    """One message to one of them after the other, until the first of them stands there."""
    for name in cycle(members):
        if cluster[members[0]].standing == standing:
            return
        assert any(cluster.waiting(each) for each in members)
        cluster.step(name, min(1, cluster.waiting(name)))


def clean(_: Cluster) -> None:
    """Nothing ever failed."""


def attempts_break_off(cluster: Cluster) -> None:
    """Every pair meets again and again, for a few more messages each time."""
    for number in range(12):
        pair = PAIRS[number % 3]
        cluster.append(pair[0], b"%d" % number)
        cluster.view(*pair)
        for name in pair * (number % 7):
            cluster.step(name, min(1, cluster.waiting(name)))


def crashes_at(cluster: Cluster, standing: str, crashed: int) -> None:
    """Of every pair, one after the other, one crashes when the first of them stands there; both have news."""
    for number, pair in enumerate(PAIRS):
        for name in pair:
            cluster.view(name)
            cluster.append(name, b"%s %d" % (name.encode(), number))
            cluster.run(name)
        cluster.view(*pair)
        deliver_until(cluster, pair, standing)
        cluster.restart(pair[crashed])


def partitions_alternate(cluster: Cluster) -> None:
    """Each is alone in turn, and both sides append; what was begun when the sides change is lost on the way."""
    for number in range(9):
        pair = PAIRS[number % 3]
        (alone,) = set("abc") - set(pair)
        cluster.view(alone)
        cluster.view(*pair)
        cluster.append(alone, b"minor %d" % number)
        cluster.append(pair[1], b"major %d" % number)
        cluster.run()
        cluster.append(pair[0], b"under way %d" % number)
        cluster.step(pair[number % 2])


def drawn(cluster: Cluster, seed: int) -> None:
    """Whatever comes, at any moment: any of them meet, hear a little, append, crash, or have a disk that hangs."""
    draw = Random(seed)
    for number in range(40):
        members = draw.sample("abc", draw.randint(1, 3))
        match draw.choice(("meet", "meet", "append", "crash", "hang")):
            case "meet":
                cluster.view(*members)
            case "append":
                cluster.append(members[0], b"%d" % number)
            case "crash":
                cluster.restart(members[0])
            case "hang":
                cluster.hold_disk(members[0])
        for name in draw.choices("abc", k=draw.choice((0, 6, 30))):
            cluster.step(name, min(1, cluster.waiting(name)))
    for name in "abc":
        cluster.release_disk(name)


def all_restart(cluster: Cluster) -> None:
    """All at once, with messages under way; and once more in the middle of what the first restart began."""
    for standing in ("commit", "attempt"):
        cluster.append("a", b"before " + standing.encode())
        cluster.step("b", min(1, cluster.waiting("b")))
        for name in "abc":
            cluster.restart(name)
        cluster.view("a", "b", "c")
        deliver_until(cluster, "abc", standing)
    for name in "abc":
        cluster.restart(name)


PASTS: dict[str, Callable[[Cluster], None]] = {
    "clean": clean,
    "attempts break off": attempts_break_off,
    **{
        f"{('first', 'second')[crashed]} crashes in {standing}": partial(crashes_at, standing=standing, crashed=crashed)
        for standing in ("exchange", "retransmit", "attempt", "commit", "regular")
        for crashed in (0, 1)
    },
    "partitions alternate": partitions_alternate,
    "all restart": all_restart,
    **{f"drawn {seed}": partial(drawn, seed=seed) for seed in range(10)},
}


@pytest.mark.parametrize("away", ["cut off", "down"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("past", PASTS)
def test_after_any_past_a_quorum_makes_progress(past: str, pair: str, away: str) -> None:
    """Reference: [COReL 3.5]: any two of three order all that they have, and what is new, without the third."""
    cluster = joined("a", "b", "c", snapshots=True)
    PASTS[past](cluster)
    (third,) = set("abc") - set(pair)
    if away == "down":
        cluster.crash(third)
    had = {message for name in pair for message in cluster[name].queue}
    cluster.view(*pair)
    for name in pair:
        cluster.append(name, b"new of " + name.encode())
    cluster.run(*pair)
    first, second = (cluster[name] for name in pair)
    assert first.lines == second.lines and first.lines[0] == first.lines[2]
    assert had <= set(first.queue) and first.queue == second.queue
    assert {b"new of " + name.encode() for name in pair} <= set(first.green) & set(second.green)
    if away == "down":
        cluster.restart(third)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert not cluster.report(stable=True).violations


# --- [COReL 1] where two-phase and three-phase commit block ----------------------------------------------------------


def two_phase_commit(phases: Mapping[str, str]) -> str:
    """What these decide when the rest is away: cooperative termination. Who voted yes may do nothing by itself."""
    known = set(phases.values())
    if known & {"not voted", "abort"}:
        return "abort"
    return "commit" if "commit" in known else "blocks"


def three_phase_commit(phases: Mapping[str, str]) -> str:
    """The same, by Skeen's rule with quorums, here two of the three servers."""
    phase = list(phases.values())
    for decided in ("abort", "commit"):
        if decided in phase:
            return decided
    if "pre-commit" in phase and phase.count("wait") + phase.count("pre-commit") >= 2:
        return "commit"
    return "abort" if phase.count("wait") + phase.count("pre-abort") >= 2 else "blocks"


def test_when_two_phase_commit_blocks() -> None:
    """Reference: [COReL 1]: all that are here voted yes, and none of them heard the outcome."""
    assert two_phase_commit({"b": "wait", "c": "wait"}) == "blocks"
    assert two_phase_commit({"b": "wait", "c": "not voted"}) == two_phase_commit({"b": "wait", "c": "abort"}) == "abort"
    assert two_phase_commit({"b": "wait", "c": "commit"}) == "commit"


def test_when_three_phase_commit_blocks() -> None:
    """Reference: [COReL 1]: one alone; or two in opposing phases. Nothing else stops two of three."""
    undecided = ("wait", "pre-commit", "pre-abort")
    assert {three_phase_commit({"b": phase}) for phase in undecided} == {"blocks"}
    pairs = combinations_with_replacement(undecided, 2)
    assert {pair: three_phase_commit(dict(zip("bc", pair, strict=True))) for pair in pairs} == {
        ("wait", "wait"): "abort",
        ("wait", "pre-commit"): "commit",
        ("wait", "pre-abort"): "abort",
        ("pre-commit", "pre-commit"): "commit",
        ("pre-commit", "pre-abort"): "blocks",
        ("pre-abort", "pre-abort"): "abort",
    }
    assert three_phase_commit({"b": "wait", "c": "commit"}) == "commit"
    assert three_phase_commit({"b": "wait", "c": "abort"}) == "abort"


def cascade(step: int) -> Cluster:
    """The story that docs/protocols/corel.md tells, up to this step."""
    cluster = joined("a", "b", "c")
    cluster.append("b", b"yes of b")
    cluster.append("c", b"yes of c")
    cluster.settle()
    cluster.append("a", b"commit")  # 1
    cluster.step("a")
    assert [cluster[name].lines for name in "abc"] == [(2, 3, 3), (2, 2, 2), (2, 2, 2)]
    for name in "abc":  # 2
        cluster.view(name)
    cluster.run()
    cluster.append("b", b"abort")
    cluster.run()
    if step >= 3:
        cluster.view("b", "c")
    if step >= 4:
        deliver_until(cluster, "bc", "commit")
        ledgers = [cluster[name].replica.ledger for name in "abc"]
        assert [(ledger.attempted, ledger.committed) for ledger in ledgers] == [(1, 1), (2, 2), (2, 1)]
        assert cluster["a"].lines == cluster["b"].lines == (2, 3, 3)  # both yellow at one place:
        assert (cluster["a"].at(3), cluster["b"].at(3)) == ("a.1:1", "b.1:2")  # "commit" here, "abort" there
        cluster.view("b")
        cluster.view("c")
        cluster.run()
    if step >= 5:
        cluster.view("a", "b")
    if step >= 6:
        cluster.run()
        cluster.view("a", "b", "c")
    return cluster


@pytest.mark.parametrize(
    ("step", "together", "two_phase", "three_phase", "ordered"),
    [
        (2, "b", "blocks", "blocks", None),
        (2, "c", "blocks", "blocks", None),
        (3, "bc", "blocks", "abort", [b"abort"]),
        (4, "b", "blocks", "blocks", None),
        (4, "c", "blocks", "blocks", None),
        (5, "ab", "commit", "blocks", [b"abort", b"commit"]),
        (6, "abc", "commit", "commit", [b"abort", b"commit"]),
    ],
)
def test_where_two_phase_and_three_phase_commit_block(
    step: int, together: str, two_phase: str, three_phase: str, ordered: list[bytes] | None
) -> None:
    """Reference: [COReL 1], [COReL 8.3], told in docs/protocols/corel.md: what those together do, if it lasts."""
    phases = {"a": "commit", "b": "wait", "c": "wait"}
    assert two_phase_commit({name: phases[name] for name in together}) == two_phase
    phases["a"] = "pre-commit"
    if step >= 4:
        phases["b"] = f"pre-{three_phase_commit({name: phases[name] for name in 'bc'})}"
    assert three_phase_commit({name: phases[name] for name in together}) == three_phase
    cluster = cascade(step)
    cluster.append(together[0], b"next")
    cluster.run(*together)
    votes = [b"yes of b", b"yes of c"]
    expected = votes if ordered is None else [*votes, *ordered, b"next"]
    assert [cluster[name].green for name in together] == [expected] * len(together)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].green[: len(expected)] == expected and len(cluster["c"].green) == 5
    assert not cluster.report(stable=True).violations
