"""A replica among views, sessions and faults of others: what the thesis leaves to whoever builds it."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import PersistFailed, Started, Stop, Stopping, Storage, StoredLog
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import NO_DAEMON, ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView
from isotone.corel.events import (
    AppendNamed,
    AppendRefused,
    AppendsWanted,
    AppendWanted,
    DiskRoom,
    ReconfigurationWanted,
    SnapshotOffered,
    StandingChanged,
)
from isotone.corel.explain import whom_it_waits_for, why_no_primary
from isotone.corel.message import Message, Origin
from isotone.corel.records import Received, decode_record
from isotone.corel.replica import Replica
from isotone.corel.wire import CODEC, Acknowledged, Attempt, Commit, Regular, Retransmitted, State, Wire
from tests.corel.cluster import GROUP, Cluster, joined


def said(cluster: Cluster, sender: str, receiver: str, wire: Wire) -> list[object]:
    """What a replica does when a member says this in its view."""
    client = cluster[sender].replica.session.client
    target = cluster[receiver].replica.session.client
    assert client is not None and target is not None
    bundle = bundle_of(client, 99, Service.AGREED, (GROUP,), (CODEC.encode(wire),))
    message = b4.Message(bundle, Stamp(99, DaemonId("d", 1)))
    return list(cluster[receiver].replica.handle(b4.Indicated(0, (target,), message)))


def view_of(cluster: Cluster, name: str) -> str:
    return cluster[name].replica.session.view


def test_after_the_signal_messages_are_kept_red_and_nothing_is_green() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    cluster.step("a")
    cluster.signal("a")
    cluster.append("b", b"y")
    cluster.step("b", 2)
    cluster.step("c", 2)
    cluster.run("a")  # the message of b, and all acknowledgements, come behind the signal
    assert cluster["a"].lines == (0, 1, 2) and cluster["a"].green == []
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].green == [b"x", b"y"] and not cluster.report(stable=True).violations


def test_a_message_of_another_view_counts_for_nothing_and_is_sent_again() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    stale = cluster.sent[view_of(cluster, "a")][-1][1]
    cluster.view("a", "b")
    cluster.sent[view_of(cluster, "a")].insert(0, ("a", stale))  # the transport carried it over
    cluster.run("a", "b")
    assert cluster["b"].green == [b"x"]
    assert not cluster["a"].replica.outbox.pending


def test_a_message_that_lived_on_elsewhere_is_not_doubled() -> None:
    """b has it, its sender never heard it, sends it again, and then they meet."""
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    cluster.step("b")
    cluster.view("a", "c")
    cluster.run("a", "c")
    assert cluster["c"].green == [b"x"]
    cluster.view("a", "b", "c")
    cluster.settle()
    assert [cluster[name].green for name in "abc"] == [[b"x"]] * 3
    assert not cluster.report(stable=True).violations


def test_a_lost_session_is_opened_again_and_pending_messages_are_sent_again() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("a", b"x")
    server = cluster["a"]
    client = server.replica.session.client
    assert client is not None
    cluster.lose_session("a")
    assert server.standing == "detached"
    assert server.replica.handle(b4.Indicated(0, (client,), b4.Connected())) == []  # of the session that is over
    cluster.settle()  # the timer runs out, and it connects
    assert server.replica.session.client != client
    cluster.indicate(server, b4.Connected())
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["c"].green == [b"x"]


def test_two_sessions_of_one_server_in_a_view_are_waited_out() -> None:
    cluster = joined("a", "b", "c")
    session = cluster["b"].replica.session
    old = cluster["a"].replica.session.client
    cluster.restart("a")
    new = cluster["a"].replica.session.client
    assert old is not None and new is not None and old != new
    assert session.client is not None
    view = GroupView(
        GROUP, GroupViewId(DaemonViewId(50, DaemonId("d", 1))), (old, new, session.client), (), Cause.NETWORK
    )
    cluster.indicate(cluster["b"], b4.View(view))
    assert cluster["b"].standing == "waiting"


def test_strangers_in_the_group_are_passed_over() -> None:
    """A member that is no server says nothing, and nobody waits for it."""
    cluster = Cluster("a", "b", "c")
    cluster.view("a", "b", strangers=("x",))
    cluster.run("a", "b")
    assert cluster["a"].replica.session.servers == ("a", "b") and cluster["a"].standing == "regular"


@pytest.mark.parametrize(
    "make",
    [
        lambda view: Regular(view, 0, 0, Message(Origin("b", 1), 2, 9, (b"x",))),
        lambda view: Regular(view, 0, 0, Message(Origin("c", 1), 1, 9, (b"x",))),
        lambda view: Regular(view, 0, 0, Message(Origin("b", 1), 1, 9, ())),
        lambda view: Attempt(view, 7),
        lambda view: Commit(view, 1),
        lambda view: Retransmitted(view, ()),
    ],
    ids=["gap", "not its own", "no records", "attempt", "commit", "retransmission"],
)
def test_what_no_server_says_is_refused_and_changes_nothing(make: object) -> None:
    cluster = joined("a", "b", "c")
    before = cluster["a"].lines
    assert callable(make)
    with pytest.raises(RemoteProtocolError):
        said(cluster, "b", "a", make(view_of(cluster, "a")))
    assert cluster["a"].lines == before


def test_a_message_that_is_there_is_passed_over() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("b", b"x")
    cluster.run()
    message = Message(Origin("b", 1), 1, 1, (b"x",))
    said(cluster, "b", "a", Regular(view_of(cluster, "a"), 1, 0, message))
    assert cluster["a"].lines == (1, 1, 1)


def test_a_state_is_ones_own_and_comes_once() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.view("a", "b", "c")
    history = cluster["b"].replica.ledger.history
    state = State(view_of(cluster, "a"), "c", 0, 0, 0, 0, (), history, ())
    with pytest.raises(RemoteProtocolError, match="b sent the state of c"):
        said(cluster, "b", "a", state)
    cluster.step("a")
    with pytest.raises(RemoteProtocolError, match="a sent the state of a"):
        said(cluster, "a", "a", State(view_of(cluster, "a"), "a", 0, 0, 0, 0, (), history, ()))
    cluster.run()
    assert cluster["a"].replica.flow.is_primary


def test_an_acknowledgement_never_falls() -> None:
    cluster = joined("a", "b", "c")
    said(cluster, "b", "a", Acknowledged(view_of(cluster, "a"), 3, 0))
    with pytest.raises(RemoteProtocolError, match="acknowledged 2 after 3"):
        said(cluster, "b", "a", Acknowledged(view_of(cluster, "a"), 2, 0))


def test_appends_are_refused_when_too_many_wait_or_one_is_too_large() -> None:
    cluster = Cluster("a", "b", "c")
    replica = cluster["a"].replica
    replica.flow.settings = type(replica.settings)(
        server="a",
        servers=("a", "b", "c"),
        group=GROUP,
        quorum=replica.settings.quorum,
        waiting_records_max=2,
        record_bytes_max=10,
    )
    assert isinstance(replica.handle(AppendWanted(0, 1, b"x" * 11))[0], AppendRefused)
    assert replica.handle(AppendWanted(0, 2, b"x")) == replica.handle(AppendWanted(0, 3, b"y")) == []
    (refused,) = replica.handle(AppendWanted(0, 4, b"z"))
    assert isinstance(refused, AppendRefused) and (refused.request, "2 records wait" in refused.reason) == (4, True)


def test_appends_before_a_view_are_named_and_ordered_when_there_is_one() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.append("a", b"1", b"2")
    cluster.view("a", "b", "c")
    cluster.run()
    assert cluster["c"].green == [b"1", b"2"] and cluster["c"].lines == (1, 1, 1)


def test_requests_are_answered_with_the_message_that_carries_them() -> None:
    cluster = joined("a", "b", "c")
    named = [each for each in cluster["a"].replica.handle(AppendWanted(0, 41, b"x")) if isinstance(each, AppendNamed)]
    assert [(each.requests, str(each.message)) for each in named] == [((41,), "a.1:1")]


def test_a_total_stop_and_restart_finds_the_primary_by_itself() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("a", b"1")
    cluster.run()
    cluster.append("b", b"2")
    cluster.step("c")
    for name in "abc":
        cluster.restart(name)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert [cluster[name].lines for name in "abc"] == [(2, 2, 2)] * 3
    assert not cluster.report(stable=True).violations


def test_what_comes_in_behind_the_good_bye_counts_for_nothing() -> None:
    """The session may tell more while the good-bye waits for the disk."""
    cluster = joined("a", "b", "c")
    replica, view = cluster["a"].replica, view_of(cluster, "a")
    asked = [action.request for action in replica.handle(Stopping(0)) if isinstance(action, b4.Ask)]
    assert asked == [b4.Disconnect()]
    assert said(cluster, "b", "a", Attempt(view, 7)) == []


def test_messages_that_a_session_packed_are_taken_one_by_one() -> None:
    cluster = joined("a", "b", "c")
    for body in (b"x", b"y"):
        cluster.append("a", body)
    sent = cluster.sent[view_of(cluster, "a")]
    bodies = [bytes(message.bundle.payload) for sender, message in sent if sender == "a"][-2:]
    client, target = cluster["a"].replica.session.client, cluster["b"].replica.session.client
    assert client is not None and target is not None
    packed = bundle_of(client, 99, Service.AGREED, (GROUP,), bodies)
    replica, before = cluster["b"].replica, cluster["b"].replica.ledger.queue.end
    replica.handle(b4.Indicated(0, (target,), b4.Message(packed, Stamp(99, DaemonId("d", 1)))))
    assert replica.ledger.queue.end == before + len(bodies)


def refused(cluster: Cluster, name: str) -> str:
    """Why an append is not taken here."""
    actions = cluster[name].replica.handle(AppendWanted(0, 7, b"x"))
    return next((action.reason for action in actions if isinstance(action, AppendRefused)), "")


def test_with_too_much_in_memory_appends_are_refused_and_nothing_else() -> None:
    """c is away, and what it lacks cannot be forgotten; then nobody offers a state."""
    cluster = joined("a", "b", "c", snapshots=True, held_bytes_max=30_000)
    cluster.view("a", "b")
    cluster.run("a", "b")
    for _ in range(4):
        cluster.append("a", b"." * 10_000)
        cluster.run("a", "b")
    assert "of at most 30000: c must have them too, or be removed" in refused(cluster, "a")
    assert cluster["b"].lines == (3, 3, 3), "what came before it is ordered"
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["c"].lines == (3, 3, 3)
    assert "must offer a state" in refused(cluster, "a") and "must offer a state" in refused(cluster, "c")
    cluster.tell("a", SnapshotOffered(0, 2, b"state"))
    cluster.append("a", b"room")
    cluster.settle()
    assert cluster["c"].green[-1] == b"room", "from one that has room, though this one has none"


def test_who_has_too_much_in_memory_may_remove_the_server_that_is_away() -> None:
    cluster = joined("a", "b", "c", held_bytes_max=1_000)
    cluster.view("a", "b")
    cluster.run("a", "b")
    cluster.append("a", b"." * 2_000)
    cluster.run("a", "b")
    assert "c must have them too" in refused(cluster, "b")
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="c"))
    cluster.run("a", "b")
    cluster.settle()
    assert cluster["a"].answers == ["accepted"] and not refused(cluster, "a") and not refused(cluster, "b")


def test_a_disk_that_is_nearly_full_takes_no_new_messages_and_votes_on() -> None:
    cluster = joined("a", "b", "c")
    cluster.tell("c", DiskRoom(0, True))
    (refused,) = cluster["c"].replica.handle(AppendWanted(0, 7, b"x"))
    assert isinstance(refused, AppendRefused) and "nearly full" in refused.reason
    cluster.append("a", b"1")
    cluster.settle()
    assert cluster["a"].green == cluster["c"].green == [b"1"]  # with the acknowledgement of c
    (told,) = cluster["c"].replica.handle(DiskRoom(0, False))
    assert isinstance(told, StandingChanged) and told.primary and "room again" in told.reason
    cluster.append("c", b"2")
    cluster.settle()
    assert cluster["a"].green == [b"1", b"2"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [("disk full: no space left", "the disk is full"), ("sync failed", "the disk failed: sync failed")],
)
def test_a_write_that_fails_stops_the_server_and_is_not_tried_again(reason: str, said: str) -> None:
    cluster = joined("a", "b", "c")
    (stop,) = cluster["a"].replica.handle(PersistFailed(0, 1, reason))
    assert isinstance(stop, Stop) and stop.reason.startswith(said)


def test_a_damaged_log_stops_the_server_before_it_says_anything() -> None:
    cluster = joined("a", "b", "c")
    settings, log = cluster["a"].replica.settings, cluster["a"].log
    storage = Storage({}, {"log": StoredLog(1, tuple(log), (2,))})
    (stop,) = Replica(settings, DaemonId("da", 2), b"a").handle(Started(0, storage))
    assert isinstance(stop, Stop) and "damaged at 2" in stop.reason and "repaired from another server" in stop.reason


def test_after_a_total_stop_each_says_whom_it_waits_for() -> None:
    """All come back, at other daemons; one alone names those with whom it would be a quorum."""
    cluster = joined("a", "b", "c", "d", "e")
    cluster.append("a", b"1")
    cluster.settle()
    for name in "abcde":
        cluster.restart(name)
    cluster.view("b", "d")
    cluster.run("b", "d")
    assert whom_it_waits_for(cluster["b"].replica) == [("a",), ("c",), ("e",)]
    assert "It waits for a, or c, or e." in why_no_primary(cluster["b"].replica)
    cluster.view("b", "d", "e")
    cluster.run("b", "d", "e")
    assert cluster["e"].replica.flow.is_primary


def test_over_a_session_the_daemon_says_who_we_are() -> None:
    cluster = Cluster("a", "b", "c")
    replica = Replica(cluster["a"].replica.settings, NO_DAEMON, b"a")
    replica.handle(Started(0, Storage()))
    real = ClientId(DaemonId("d9", 4), "a", 17)
    (ask,) = replica.handle(b4.Indicated(0, (real,), b4.Connected()))
    assert isinstance(ask, b4.Ask) and ask.client == real == replica.session.client


def test_a_message_from_one_who_is_not_in_the_view_is_passed_over() -> None:
    """The transport may hand over what a server sent before it left."""
    cluster = joined("a", "b", "c")
    view, replica = view_of(cluster, "a"), cluster["a"].replica
    gone, target = ClientId(DaemonId("dz", 1), "z", 1), replica.session.client
    assert target is not None
    bundle = bundle_of(gone, 1, Service.AGREED, (GROUP,), (CODEC.encode(Acknowledged(view, 9, 9)),))
    assert replica.handle(b4.Indicated(0, (target,), b4.Message(bundle, Stamp(99, DaemonId("d", 1))))) == []


# --- what travels and is written together -----------------------------------------------------------------------------


def received_in(cluster: Cluster, name: str) -> list[int]:
    """How many messages each write of received ones held."""
    records = [decode_record(data) for data in cluster[name].log]
    return [len(record.messages) for record in records if isinstance(record, Received)]


def test_appends_that_come_at_once_travel_in_one_message() -> None:
    cluster = joined("a", "b", "c")
    cluster.tell("a", AppendsWanted(0, ((1, b"1"), (2, b"2"), (3, b"x" * 9_000_000), (4, b"4"))))
    cluster.run()
    assert cluster["c"].green == [b"1", b"2", b"4"]
    assert received_in(cluster, "a") == received_in(cluster, "c") == [1]


def test_a_write_waits_for_own_messages_that_are_on_their_way() -> None:
    """They come with the same round: one sync for all, and not one for the first and another for the rest."""
    cluster = joined("a", "b", "c")
    for record in (b"1", b"2", b"3"):
        cluster.append("a", record)
    cluster.append("b", b"of b")
    cluster.step("a", 2)
    assert received_in(cluster, "a") == []
    cluster.step("a")
    assert received_in(cluster, "a") == [3]
    cluster.run()
    assert received_in(cluster, "a") == [3, 1] and cluster["c"].green == [b"1", b"2", b"3", b"of b"]


def test_a_write_does_not_wait_for_what_was_sent_since() -> None:
    """Else one that sends all the time would never write."""
    cluster = joined("a", "b", "c")
    cluster.append("b", b"of b")
    cluster.append("a", b"1")
    cluster.step("a")  # b's: a waits for its own first one
    cluster.append("a", b"2")
    cluster.step("a")
    assert received_in(cluster, "a") == [2]


def test_a_message_alone_is_written_at_once() -> None:
    cluster = joined("a", "b", "c")
    cluster.append("a", b"1")
    for name in "abc":
        cluster.step(name)
        assert received_in(cluster, name) == [1]
