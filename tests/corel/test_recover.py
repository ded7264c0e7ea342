"""Recovery by force: what would be lost is shown, exactly that is lost, and the old side is fenced."""

from __future__ import annotations

import pytest

from isotone.core.contract import StoredLog
from isotone.core.errors import LocalProtocolError
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.events import ReconfigurationWanted, SnapshotOffered, Standing
from isotone.corel.explain import why_no_primary
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import DynamicVoting, Majority, Monarch
from isotone.corel.records import Forced, decode_record, encode_record
from isotone.corel.recover import assess, begin_anew, forced_record, forced_rule, lacking
from tests.corel.cluster import Cluster, identity_of, joined

MAYBE_TOLD = "may have been acknowledged to clients"


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
    lines = losses.text().splitlines()
    assert lines[:2] == ["2 green messages would be lost", f"1 yellow messages ({MAYBE_TOLD}) would be lost"]
    assert not losses.unread
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


def without_the_disk_of_b() -> Cluster:
    """a and b ordered a message of b's second life, without c; b comes back with an empty disk, and all stop."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.restart("b")
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("b", b"told")
    cluster.run("a", "b")
    cluster.lose_disk("b")
    cluster.view("a", "b")
    cluster.run("a", "b")
    assert cluster["a"].green == [b"told"] and cluster["b"].standing == "stranger"
    for name in "abc":
        cluster.crash(name)
    return cluster


@pytest.mark.parametrize("survivors", ["ab", "b", "bc"])
def test_a_stranger_is_no_survivor(survivors: str) -> None:
    """It would count for a log that it does not have, and send again under names that stand for other messages."""
    cluster = without_the_disk_of_b()
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    for ask in (assess, forced_record):
        with pytest.raises(LocalProtocolError, match="b has not the log that the others know under this name"):
            ask(ledgers, tuple(survivors))


def test_the_disk_of_a_stranger_is_as_one_that_cannot_be_read() -> None:
    cluster = without_the_disk_of_b()
    losses = assess({name: ledger_of(cluster, name) for name in "bc"}, ("c",))
    assert losses.unread == ("a", "b") and losses.strange == ("b",) and not losses.messages
    assert [each.servers for each in losses.doubtful] == [("a", "b", "c")]
    assert "b has not the log that the others know under this name" in losses.text()
    losses = assess({name: ledger_of(cluster, name) for name in "abc"}, ("a",))
    assert losses.unread == ("b",) and [each.servers for each in losses.doubtful] == [("a", "b")]
    force(cluster, "a")
    cluster.view("a")
    cluster.settle()
    assert cluster["a"].replica.flow.is_primary and not cluster.report().violations


def test_the_disk_of_another_log_of_the_same_names_says_nothing() -> None:
    """Somebody brings a disk of c from elsewhere: it has messages, but none of this log."""
    cluster, other = without_the_disk_of_b(), Cluster("a", "b", "c", met=False)
    for name in "abc":
        other.lose_disk(name)
    other.view("a", "b", "c")
    other.run()
    other.append("c", b"elsewhere")
    other.settle()
    ledgers = {"a": ledger_of(cluster, "a"), "c": ledger_of(other, "c")}
    losses = assess(ledgers, ("a",))
    assert losses.strange == ("c",) and not losses.messages
    forced = decode_record(forced_record(ledgers, ("a",)))
    assert isinstance(forced, Forced)
    assert dict(forced.configuration.identities) == {name: identity_of(name, 1) for name in "abc"}


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


def test_every_survivor_has_caught_up() -> None:
    """A learner that is still catching up does not know the order, and may have some of it that no other has."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1")
    cluster.settle()
    learner = ledger_of(cluster, "a")
    learner.ready = False
    with pytest.raises(LocalProtocolError, match="x had not caught up"):
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


def until_caught_up(cluster: Cluster, name: str) -> None:
    """Let it learn, as long as it gets on."""
    for _ in range(30):
        cluster.settle()
        if cluster[name].standing != "learning":
            return


@pytest.mark.parametrize("position", [0, 2, 40])
def test_who_is_added_after_a_force_learns_in_many_steps(position: int) -> None:
    """Longer than what one request brings; the state, if there is one, is from before the force or from behind it."""
    cluster = joined("a", "b", "c", "d", "e", snapshots=True)
    cluster.append("a", b"1", b"2")
    cluster.settle()
    for name in "cde":
        cluster.crash(name)
    if position == 2:
        offer(cluster, "a", "b", position=2)
    force(cluster, "a", "b")
    cluster.view("a", "b")
    cluster.settle()
    for number in range(38):
        cluster.append("a", b"%d" % number + b"." * 30_000)
        cluster.run("a", "b")
    cluster.settle()
    if position == 40:
        offer(cluster, "a", "b", position=40)
        cluster.append("b", b"the last")
        cluster.settle()
    cluster.join("x")
    cluster.view("a", "b", "x")
    until_caught_up(cluster, "x")
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    assert cluster["x"].configurations == [("a", "b", "x")] and cluster["x"].replica.flow.is_primary
    assert bool(cluster["x"].installed) == bool(position)
    assert cluster["x"].replica.ledger.queue.configuration.retired == ("c", "d", "e")
    cluster.restart("x")
    cluster.view("a", "x")
    cluster.settle()
    assert cluster["x"].replica.flow.is_primary
    assert not cluster.report().violations


def offer(cluster: Cluster, *names: str, position: int) -> None:
    for name in names:
        cluster.tell(name, SnapshotOffered(0, position, b"s" * 900_000))
    cluster.settle()


def test_what_the_force_made_void_is_void_for_who_learns_it() -> None:
    """A removal was under way and became green behind the force, which gave its number away: also where it is learned.

    What was changed after that counts, in its place.
    """
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="b"))
    for name in "abc":
        cluster.step(name)  # it is on disk, and not green
    for name in "abc":
        cluster.crash(name)
    force(cluster, "a")
    cluster.view("a")
    cluster.settle()
    cluster.join("x")
    cluster.view("a", "x")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    cluster.join("y")
    cluster.view("a", "x", "y")
    cluster.settle()
    assert [cluster[name].configurations for name in "axy"] == [[("a", "x")]] * 3
    assert not cluster.report().violations


def test_who_learned_from_the_old_side_is_fenced() -> None:
    """x has part of what a and b ordered, which c never saw: it must not go on with the order of c."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.view("a", "b")
    for number in range(90):
        cluster.append("a", b"%d" % number + b"." * 30_000)
        cluster.run("a", "b")
    cluster.join("x")
    cluster.view("a", "b", "x")
    cluster.run("a", "b", "x")
    assert cluster["x"].lines[0] > 0 and cluster["x"].standing == "learning"
    force(cluster, "c")
    cluster.view("c", "x")
    cluster.settle()
    assert cluster["x"].replica.standing is Standing.FENCED
    cluster.restart("x")
    cluster.view("c", "x")
    cluster.settle()
    assert cluster["x"].replica.standing is Standing.FENCED and cluster["c"].replica.flow.is_primary


def test_half_a_state_of_the_old_side_is_dropped() -> None:
    """x has half of the state of a and b, and nothing green: it may learn what c has."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1", b"2")
    cluster.settle()
    offer(cluster, "a", "b", "c", position=2)
    cluster.append("a", b"3")
    cluster.settle()  # that what stands before the state is forgotten is on all disks now
    cluster.join("x")
    cluster.view("a", "b", "x")
    cluster.run("a", "b", "x")
    assert cluster["x"].replica.ledger.arriving is not None
    force(cluster, "c")
    cluster.view("c", "x")
    until_caught_up(cluster, "x")
    assert cluster["x"].installed == [(2, b"s" * 900_000)] and cluster["x"].standing == "regular"


def restore(cluster: Cluster, *names: str, fence: int = 1_700_000_000) -> None:
    """All of them begin anew with what the first one has."""
    ledger = ledger_of(cluster, names[0])
    begin_anew(ledger, names, Majority(names), fence)
    for name in names:
        ledger.life = cluster[name].replica.ledger.life
        cluster[name].log[:], cluster[name].first = map(encode_record, checkpoint_of(ledger)), 1
        cluster.restart(name)


@pytest.mark.parametrize("position", [0, 40])
def test_who_is_added_after_a_restore_learns_in_many_steps(position: int) -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    for number in range(45):
        cluster.append("a", b"%d" % number + b"." * 30_000)
        cluster.run()
    cluster.settle()
    if position:
        offer(cluster, "a", "b", "c", position=position)
    restore(cluster, "a", "b")
    cluster.view("a", "b")
    cluster.settle()
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    until_caught_up(cluster, "x")
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    assert cluster["x"].configurations == [("a", "b", "x")] and cluster["x"].replica.flow.is_primary
    assert bool(cluster["x"].installed) == bool(position) and cluster["c"].replica.standing is Standing.FENCED


def test_restored_servers_of_other_names_are_one_primary_wherever_they_are_cut_off() -> None:
    """No server of the old log is left to ask: x, y and z, who met and established nothing, ask for each other."""
    old = joined("a", "b", "c", snapshots=True)
    old.append("a", b"1")
    old.settle()
    names, rule = ("x", "y", "z"), DynamicVoting(1)
    ledger = ledger_of(old, "a")
    begin_anew(ledger, names, rule, 7)
    ledger.life, ledger.identity = 0, b""
    cluster = Cluster(*names, quorum=rule, met=False, snapshots=True)
    for name in names:
        cluster.lose_disk(name, map(encode_record, checkpoint_of(ledger)))
    cluster.view(*names)
    for name in names:
        while cluster[name].standing != "attempt":
            cluster.step(name)
    cluster.view("x")
    cluster.view("y", "z")
    cluster.settle()
    assert [cluster[name].replica.flow.is_primary for name in names] == [False, True, True]
    assert not cluster.report().violations


def test_who_was_removed_never_comes_back_by_a_restore() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="c"))
    cluster.settle()
    ledger = ledger_of(cluster, "a")
    with pytest.raises(LocalProtocolError, match="c was removed"):
        begin_anew(ledger, ("a", "b", "c"), Majority(("a", "b", "c")), 7)
    restore(cluster, "a")
    assert cluster["a"].replica.ledger.queue.configuration.retired == ("b", "c")
    cluster.view("a")
    cluster.settle()
    cluster.join("x")
    cluster.view("a", "x")
    cluster.settle()
    for number, gone in enumerate("bc"):
        cluster.tell("a", ReconfigurationWanted(0, number, add=gone))
        assert "is or was a server" in cluster["a"].answers[-1]
    cluster.tell("a", ReconfigurationWanted(0, 3, add="x"))
    cluster.settle()
    for name in "ax":
        assert cluster.restart(name).replica.ledger.queue.configuration.retired == ("b", "c")


def test_who_was_removed_never_comes_back_by_force() -> None:
    """c did not hear of its removal, and is no survivor."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="c"))
    for name in "ab":
        cluster.step(name)
    cluster.crash("c")
    cluster.view("a", "b")
    cluster.settle()
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    assert ledgers["a"].queue.configuration.retired == ("c",)
    with pytest.raises(LocalProtocolError, match="c was removed"):
        forced_record(ledgers, ("a", "c"))
    with pytest.raises(LocalProtocolError, match="c was removed"):
        assess(ledgers, ("b", "c"))
    force(cluster, "a")
    assert cluster["a"].replica.ledger.queue.configuration.retired == ("b", "c")


def test_survivors_go_on_when_all_of_them_have_met() -> None:
    """Two of three would be a quorum, but only the third has what a client was told: they wait for it, once."""
    cluster = joined("a", "b", "c", "d", "e", quorum=Monarch("c"), snapshots=True)
    cluster.view("a", "b")
    cluster.view("c")
    cluster.run()
    cluster.append("c", b"told")
    cluster.run()
    assert cluster["c"].green == [b"told"]
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    record = forced_record(ledgers, ("a", "b", "c"), Majority(("a", "b", "c")))
    for name in "abc":
        cluster[name].log.append(record)
        cluster.restart(name)
    cluster.view("a", "b")
    cluster.settle()
    assert not cluster["a"].replica.flow.is_primary
    assert "all of a, b, c" in why_no_primary(cluster["a"].replica) and "waits for c" in why_no_primary(
        cluster["a"].replica
    )
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].green == [b"told"]
    cluster.view("a", "b")
    cluster.settle()
    assert cluster["a"].replica.flow.is_primary and not cluster.report().violations


def test_a_forced_primary_has_a_number_of_its_own() -> None:
    """c adopted primary 2 of a and b, and never attempted one of that number: its own must not be called so."""
    cluster = joined("a", "b", "c", "d", snapshots=True, quorum=Monarch("a"))
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("a", b"1")
    cluster.settle()
    cluster.view("b", "c")
    cluster.run("b", "c")  # no quorum: c learns of primary 2 by b, and neither attempts one
    ledger = ledger_of(cluster, "c")
    assert (ledger.committed, ledger.attempted) == (2, 1)
    force(cluster, "c")
    cluster.view("c")
    cluster.settle()
    assert cluster["c"].replica.flow.is_primary and cluster["c"].replica.ledger.committed > 2
    assert not cluster.report().violations


def test_a_rule_that_asks_for_more_than_are_left_becomes_a_majority() -> None:
    cluster = joined("a", "b", "c", quorum=DynamicVoting(2), snapshots=True)
    assert forced_rule({"a": cluster["a"].replica.ledger}, ("a",)) == Majority(("a",))
    force(cluster, "a")
    cluster.view("a")
    cluster.run("a")
    assert cluster["a"].replica.flow.is_primary


def test_what_the_old_side_has_green_makes_nothing_white_on_the_new_one() -> None:
    """A log that was restored has fewer places under the same names: c, not restored yet, tells of the old ones."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"kept")
    cluster.settle()
    copy = ledger_of(cluster, "a")
    for number in range(5):
        cluster.append("a", b"%d" % number)
        cluster.settle()
    begin_anew(copy, "abc", Majority(("a", "b", "c")), 7)
    copy.life, copy.identity = 9, b""
    restored = list(map(encode_record, checkpoint_of(copy)))
    cluster.lose_disk("a", restored)
    cluster.lose_disk("b", restored)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["c"].replica.standing is Standing.FENCED
    cluster.lose_disk("c", restored)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert all(cluster[name].replica.flow.is_primary for name in "abc")
    cluster.view("a", "b")
    cluster.settle()
    known = cluster["c"].replica.ledger.queue.green
    for number in range(8):
        cluster.append("b", b"new %d" % number)
        cluster.settle()
    assert cluster["a"].replica.ledger.queue.green > known + 5
    assert cluster["a"].replica.flow.white <= known and cluster["b"].replica.flow.white <= known


def test_a_fenced_server_that_stops_still_says_why() -> None:
    cluster = lost_quorum()
    for name in "abc":
        cluster.crash(name)
    record = forced_record({name: ledger_of(cluster, name) for name in "abc"}, ("c",))
    cluster.restart("c", [*cluster["c"].log, record])
    cluster.restart("a")
    cluster.view("a", "c")
    cluster.settle()
    replica = cluster["a"].replica
    assert replica.standing is Standing.FENCED
    replica.views.leave()
    assert replica.views.round is None and "an operator" in why_no_primary(replica).lower()
