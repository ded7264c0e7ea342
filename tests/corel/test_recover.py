"""Recovery by force: what would be lost is shown, exactly that is lost, and the old side is fenced."""

from __future__ import annotations

import pytest

from isotone.core.contract import StoredLog
from isotone.core.errors import LocalProtocolError
from isotone.corel.events import ReconfigurationWanted, Standing
from isotone.corel.explain import why_no_primary
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority, Monarch
from isotone.corel.recover import assess, forced_record, lacking
from tests.corel.cluster import Cluster, joined


def ledger_of(cluster: Cluster, name: str) -> Ledger:
    """As its disk has it."""
    ledger = Ledger.founded(cluster.founders, Majority(cluster.founders))
    ledger.restore(StoredLog(cluster[name].first, tuple(cluster[name].log)))
    return ledger


def lost_quorum() -> Cluster:
    """a and b ordered two messages without c, have one yellow and one red that c lacks; c has one of its own."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"common")
    cluster.settle()
    cluster.view("c")
    cluster.run("c")
    cluster.append("c", b"of c")
    cluster.run("c")
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("a", b"green 1")
    cluster.run("a", "b")
    cluster.append("b", b"green 2")
    cluster.run("a", "b")
    cluster.append("b", b"yellow")
    cluster.step("a")
    cluster.signal("a")
    cluster.append("b", b"red")
    cluster.run("a")
    cluster.view("a")
    cluster.run("a")
    for name in "ab":
        cluster.crash(name)
    return cluster


def force(cluster: Cluster, *survivors: str) -> None:
    """The record goes to every survivor's disk, and they start again."""
    ledgers = {name: ledger_of(cluster, name) for name in survivors}
    record = forced_record(ledgers, survivors)
    for name in survivors:
        cluster[name].log.append(record)
        cluster.restart(name)


def test_what_it_shows_is_exactly_what_is_lost() -> None:
    cluster = lost_quorum()
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    losses = assess(ledgers, ("c",))
    shown = {(each.colour, each.place) for each in losses.messages}
    assert shown == {("green", 2), ("green", 3), ("yellow", 4), ("red", 5)}
    assert losses.text().startswith("2 green messages would be lost\n1 yellow") and not losses.unread
    force(cluster, "c")
    cluster.view("c")
    cluster.settle()
    assert cluster["c"].replica.flow.is_primary and cluster["c"].green == [b"of c"]
    had = {str(message) for message in cluster["c"].replica.ledger.queue.held}
    everything = {str(message) for name in "ab" for message in ledgers[name].queue.held}
    assert everything - had == {each.name for each in losses.messages}


def test_the_old_side_is_fenced() -> None:
    cluster = lost_quorum()
    force(cluster, "c")
    cluster.view("c")
    cluster.run("c")
    for name in "ab":
        cluster.restart(name)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert [cluster[name].replica.standing for name in "ab"] == [Standing.FENCED] * 2
    assert "forced a primary" in why_no_primary(cluster["a"].replica)
    cluster.append("c", b"later")
    cluster.settle()
    assert cluster["c"].green[-1] == b"later" and cluster["a"].green == []  # nothing of the new order came over


def test_two_survivors_go_on_and_grow_again() -> None:
    cluster = joined("a", "b", "c", "d", "e", snapshots=True)
    cluster.append("a", b"1")
    cluster.settle()
    for name in "cde":
        cluster.crash(name)
    cluster.view("a", "b")
    cluster.run("a", "b")
    assert why_no_primary(cluster["a"].replica)
    force(cluster, "a", "b")
    cluster.view("a", "b")
    cluster.settle()
    assert not why_no_primary(cluster["a"].replica)
    assert cluster["a"].replica.ledger.queue.configuration.servers == ("a", "b")
    cluster.join("x")
    cluster.view("a", "b", "x")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    assert cluster["x"].configurations == [("a", "b", "x")] and cluster["x"].green[0] == b"1"
    cluster.tell("a", ReconfigurationWanted(0, 2, add="c"))
    assert "new name" in cluster["a"].answers[-1]


def test_disks_that_cannot_be_read_leave_a_doubt() -> None:
    cluster = lost_quorum()
    losses = assess({"c": ledger_of(cluster, "c")}, ("c",))
    assert losses.unread == ("a", "b") and [each.number for each in losses.doubtful] == [1]
    assert "cannot be read" in losses.text() and "primary 1" in losses.text()


def test_what_is_refused() -> None:
    cluster = lost_quorum()
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    with pytest.raises(LocalProtocolError, match="survivor"):
        assess(ledgers, ("q",))
    ledgers["b"].fence = 1
    with pytest.raises(LocalProtocolError, match="forced"):
        forced_record(ledgers, ("b", "c"))
    with pytest.raises(LocalProtocolError, match="not even all"):
        forced_record(ledgers, ("c",), Monarch("a"))


def test_two_sides_that_were_both_forced_do_not_mix() -> None:
    cluster = joined("a", "b", "c", "d", snapshots=True)
    force(cluster, "a")
    force(cluster, "b")
    cluster.view("a", "b")
    cluster.run("a", "b")
    assert {cluster[name].standing for name in "ab"} == {"regular", "waiting"} or "configuration 1" in why_no_primary(
        cluster["b"].replica
    )
    assert "b" not in cluster["a"].replica.session.servers


def test_somebody_must_have_caught_up() -> None:
    """A learner that is still catching up does not know the order, and would wait for ever."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1")
    cluster.settle()
    learner = ledger_of(cluster, "a")
    learner.ready = False
    with pytest.raises(LocalProtocolError, match="no survivor had caught up"):
        forced_record({"x": learner}, ("x",))


def test_one_that_was_broken_off_is_finished() -> None:
    """The record reached a and not b, when the machine stopped: asked again, the same record goes to b alone."""
    cluster = joined("a", "b", "c", "d", "e", snapshots=True)
    cluster.append("a", b"1")
    cluster.settle()
    for name in "abcde":
        cluster.crash(name)
    ledgers = {name: ledger_of(cluster, name) for name in "ab"}
    record = forced_record(ledgers, ("a", "b"))
    cluster["a"].log.append(record)
    ledgers = {name: ledger_of(cluster, name) for name in "ab"}
    assert lacking(ledgers, ("a", "b")) == ("b",) and forced_record(ledgers, ("a", "b")) == record
    with pytest.raises(LocalProtocolError, match="not all survivors know"):
        forced_record({**ledgers, "c": ledger_of(cluster, "c")}, ("a", "b", "c"))
    cluster["b"].log.append(record)
    for name in "ab":
        cluster.restart(name)
    cluster.view("a", "b")
    cluster.run("a", "b")
    assert cluster["a"].replica.flow.is_primary and cluster["b"].replica.flow.is_primary
