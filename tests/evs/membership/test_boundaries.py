"""The exact limits of one daemon's membership: who is told what, when, and from which value on."""

from __future__ import annotations

import pytest

from isotone.core.contract import (
    Address,
    CancelTimer,
    DatagramsReceived,
    DatagramsRefused,
    Persist,
    Put,
    SendDatagrams,
    SetTimer,
    Started,
    Stop,
    Stopping,
    Storage,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.boundary import DeliverDaemonView
from isotone.evs.membership import KnownDaemon, PeersChanged, State
from isotone.evs.membership.floors import EPOCH_BLOCK, LAMPORT_BLOCK, Floors
from isotone.evs.membership.messages import (
    DAEMONS_MAX,
    Alive,
    Answer,
    Contact,
    Distance,
    Join,
    Leave,
    NewMemb,
    PlannedLink,
    Probe,
    Refer,
    Refuse,
    ViewName,
    view_name,
)
from isotone.evs.membership.neighbours import INTRODUCE_EVERY_US, INTRODUCTIONS_MAX
from isotone.evs.membership.node import (
    AVOID_US,
    LOOKUP_TIMER,
    REFUSE_EVERY_US,
    REPEAT_TIMER,
    REPORT_TIMER,
    STATE_TIMER,
)
from isotone.evs.membership.peers import Peer
from isotone.evs.membership.reach import plan_topology
from isotone.evs.membership.segment import DECLINED_MAX
from isotone.evs.membership.settings import InterimViews, LinkPlan
from isotone.evs.membership.states import Entered, Reason
from isotone.evs.membership.watch import DETECTOR_TIMER, HEARD_EVERY_US, PENALTY_TIMER
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.evs.transport.events import Submitted
from isotone.evs.transport.settings import UNIT_BYTES_MAX
from tests.evs.membership.solo import NOWHERE, Solo, card, in_view

ME = DaemonId("m", 1)
MS = 1_000


def waiting(**settings: object) -> Solo:
    """Without a daemon view, looking for others of the site."""
    return Solo(first_wait_us=1_000_000, **settings)


def set_timers(solo: Solo) -> dict[object, int]:
    return {each.key: each.after_us for each in solo.actions if isinstance(each, SetTimer)}


# --- the beginning and the end -------------------------------------------------------------------------------------


def test_a_daemon_alone_installs_itself_announces_itself_and_looks_around() -> None:
    solo = Solo()
    (view,) = [each.view for each in solo.actions if isinstance(each, DeliverDaemonView)]
    assert view.id == DaemonViewId(1, ME) and view.members == view.transitional == (ME,)
    assert [where for where, _ in solo.sent] == ["all of s"]
    assert solo.timers[LOOKUP_TIMER] == solo.settings.lookup_us
    told = solo.sent[0][1].card
    assert told.attached == told.accepted == view_name(view.id) and told.installed and told.count == 1
    assert isinstance(solo.actions[0], Persist), "the floors first"


def test_who_waits_first_is_in_no_daemon_view_and_says_so() -> None:
    solo = waiting()
    assert solo.membership.state is State.SEG and solo.timers[STATE_TIMER] == 1_000_000
    told = solo.sent[0][1].card
    assert (told.attached, told.accepted, told.installed, told.epoch) == (None, NOWHERE, False, 0)
    assert not any(isinstance(each, DeliverDaemonView) for each in solo.actions)


def test_who_waited_in_vain_gathers_and_is_then_alone() -> None:
    solo = waiting()
    solo.fire(STATE_TIMER)
    assert solo.membership.state is State.OP and solo.membership.members == (ME,), "nobody is waited for"
    assert dict(solo.membership.standing(0).entries) == {
        Reason.STARTED: 1,
        Reason.SMALLEST_IN_SITE: 1,
        Reason.FORMED: 1,
        Reason.STATES_COMPLETE: 1,
        Reason.INSTALLED: 1,
    }


def test_who_reaches_others_while_it_waits_gathers_them() -> None:
    solo = waiting()
    solo.meet(card("x"))
    solo.meet(card("y", cut=("x",)))
    solo.fire(STATE_TIMER)
    assert (solo.membership.state, solo.node.reason) == (State.GATHER, Reason.SMALLEST_IN_SITE)
    assert solo.timers[STATE_TIMER] == solo.at + solo.settings.gather_us
    assert solo.timers[REPEAT_TIMER] == solo.at + solo.settings.join_us
    began = solo.at
    while solo.membership.state is State.GATHER:
        solo.fire(STATE_TIMER)
    window = solo.settings.gather_us
    assert 0 <= solo.at - began - solo.settings.gather_max_us - window < solo.settings.join_us, "x and y may yet meet"
    assert [each.name for each in solo.node.members] == ["m", "x"]


def test_what_is_submitted_before_the_first_view_waits_and_no_draft_of_it_may_be_too_large() -> None:
    solo = waiting(waiting_bytes_max=10)

    def drafts(*sizes: int) -> list[Draft]:
        return [Draft("s", UnitKind.BUNDLE, Service.FIFO, bytes(size)) for size in sizes]

    assert solo.membership.room == 10
    solo.give(Submitted(0, drafts(3, 4)))
    assert solo.membership.room == 3
    solo.give(Submitted(0, drafts(4)))
    assert solo.membership.room == -1
    solo.give(Submitted(0, drafts(UNIT_BYTES_MAX)))
    for sizes in ((1, UNIT_BYTES_MAX + 1), (UNIT_BYTES_MAX + 1, 1)):
        with pytest.raises(LocalProtocolError):
            solo.give(Submitted(0, drafts(*sizes)))
    assert not solo.membership.takes(drafts(1))


def test_a_daemon_that_stops_says_good_bye_to_all_and_ends_its_timers() -> None:
    solo = Solo()
    solo.meet(card("x"))
    solo.hear(Alive(card("y")))
    solo.give(Stopping(5))
    assert solo.sent_to(Leave) == ["x.1", "y.1"] and solo.membership.stopped
    ended = [each.key for each in solo.actions if isinstance(each, CancelTimer)]
    for key in (DETECTOR_TIMER, PENALTY_TIMER, LOOKUP_TIMER, REPORT_TIMER, STATE_TIMER, REPEAT_TIMER):
        assert key in ended
    assert solo.give(TimerFired(9, LOOKUP_TIMER)) == []


def test_floors_are_raised_by_a_block_when_they_are_reached() -> None:
    floors = Floors(2)
    assert floors.start(Storage()) == (0, 0)
    assert floors.reserve(epoch=0, lamport=0) and (floors.epoch_floor, floors.lamport_floor) == (
        EPOCH_BLOCK,
        LAMPORT_BLOCK,
    )
    assert floors.reserve(epoch=EPOCH_BLOCK - 1, lamport=LAMPORT_BLOCK - 1) == []
    assert len(floors.reserve(epoch=EPOCH_BLOCK, lamport=0)) == 1
    assert (floors.epoch_floor, floors.lamport_floor) == (2 * EPOCH_BLOCK, LAMPORT_BLOCK)
    assert len(floors.reserve(epoch=0, lamport=LAMPORT_BLOCK)) == 1
    assert (floors.epoch_floor, floors.lamport_floor) == (2 * EPOCH_BLOCK, 2 * LAMPORT_BLOCK)


# --- timers and cards ----------------------------------------------------------------------------------------------


def test_a_state_ends_at_once_when_its_time_is_over_already() -> None:
    solo = Solo()
    solo.node.at = 7
    solo.node.end_within(-5)
    assert solo.node.out == [SetTimer(STATE_TIMER, 0)] and solo.node.ends_at == 7
    solo.node.end_within(3)
    assert solo.node.out[1:] == [SetTimer(STATE_TIMER, 3)] and solo.node.ends_at == 10


def test_a_card_counts_its_changes_and_only_those() -> None:
    node = Solo().node
    assert node.card().count == 1
    node.card_changed()
    assert node.card().count == 1, "nothing changed"
    node.progressed()
    assert (node.card().count, node.card().progress) == (2, 1)


def test_changes_of_reach_are_reported_together_and_each_time_anew() -> None:
    solo = Solo()
    solo.meet(in_view("a", "a"))
    assert set_timers(solo)[REPORT_TIMER] == solo.settings.report_us
    solo.meet(in_view("b", "b"))
    assert REPORT_TIMER not in set_timers(solo), "it is armed already"
    solo.fire(REPORT_TIMER)
    assert solo.sent_to(Alive) == ["a.1", "b.1"], "to all smaller representatives"
    solo.meet(in_view("c", "c"))
    assert set_timers(solo)[REPORT_TIMER] == solo.settings.report_us


def test_only_smaller_daemons_that_speak_for_themselves_are_told() -> None:
    solo = Solo()
    solo.meet(in_view("a", "a"))
    solo.meet(in_view("b", "a", epoch=2))
    solo.meet(card("c"))
    solo.meet(in_view("x", "x"))
    assert [each.name for each in solo.node.smaller_representatives()] == ["a", "c"]


# --- refusing ------------------------------------------------------------------------------------------------------


def test_who_is_refused_is_told_once_in_a_second_and_every_address_apart() -> None:
    solo = Solo()
    bad = card("x", low=9, high=9)
    told = []
    for at in (0, REFUSE_EVERY_US - 1, REFUSE_EVERY_US, REFUSE_EVERY_US + 1):
        solo.at = at
        solo.hear(Alive(bad))
        told.append(solo.sent_to(Refuse))
    assert told == [["x.1"], [], ["x.1"], []]
    solo.hear(Alive(card("y", low=9, high=9)))
    assert solo.sent_to(Refuse) == ["y.1"]
    assert not solo.node.watch.reaches("x")


def test_who_is_reached_and_then_refused_is_reached_no_longer() -> None:
    solo = Solo()
    solo.meet(card("x"))
    solo.hear(Alive(card("x", count=2, low=9, high=9)))
    assert not solo.node.watch.reaches("x")
    (refusal,) = solo.membership.standing(0).refusals
    assert refusal.evidence.startswith("we refuse it: x speaks versions 9")


def test_a_daemon_view_that_we_are_not_in_is_refused_each_time_with_its_reason() -> None:
    solo = Solo()
    view = view_name(DaemonViewId(5, DaemonId("a", 1)))
    own, other = Contact("a", 1, "s", "a.1"), Contact("m", 2, "s", "m.1")
    message = NewMemb(card("a"), view, (own, other), ("a",), (), 1)
    for _ in range(2):
        solo.hear(message)
        ((where, refused),) = [each for each in solo.sent if isinstance(each[1], Refuse)]
        assert isinstance(refused, Refuse) and (where, refused.about) == ("a.1", view)
        assert refused.reason == "m#1 is not a member"


def newmemb(coordinator: str, epoch: int, *, version: int = 1, others: str = "m") -> NewMemb:
    names = sorted({coordinator, *others})
    members = tuple(Contact(name, 1, "s", f"{name}.1") for name in names)
    view = view_name(DaemonViewId(epoch, DaemonId(coordinator, 1)))
    return NewMemb(card(coordinator, epoch=epoch), view, members, (names[0],), (), version)


def refused(solo: Solo) -> list[str]:
    return [message.reason for _, message in solo.sent if isinstance(message, Refuse)]


def test_a_daemon_view_is_followed_only_upwards_and_to_smaller_coordinators() -> None:
    solo = Solo()
    solo.hear(newmemb("a", 2, version=200))
    assert refused(solo) == [f"version 200 is not among {solo.settings.versions}"]
    solo.hear(newmemb("a", 1))
    assert refused(solo) == ["daemon view 1!m#1 was entered before"]
    solo.hear(newmemb("x", 2))
    assert refused(solo) == [] and solo.node.peers.malformed == 1, "its coordinator is not its smallest"
    solo.hear(newmemb("a", 2))
    assert refused(solo) == [] and solo.membership.state is State.STATETRANS
    assert solo.timers[STATE_TIMER] == solo.settings.exchange_us
    solo.hear(newmemb("a", 2))
    assert refused(solo) == [], "it was repeated"
    solo.hear(newmemb("b", 3))
    assert refused(solo) == ["daemon view 2!a#1 of a smaller coordinator works"]
    solo.hear(newmemb("a", 1))
    assert refused(solo) == ["daemon view 2!a#1 was entered before"]
    solo.hear(newmemb("a", 3))
    assert refused(solo) == [] and solo.node.accepted == DaemonViewId(3, DaemonId("a", 1))
    solo.fire(STATE_TIMER)
    assert (solo.membership.state, solo.node.reason) == (State.SEG, Reason.STATE_TIMEOUT)
    assert solo.node.culprit == "a, m", "not even our own state came back"
    assert solo.node.failures == 0, "it was not ours"


def test_only_a_member_that_does_not_follow_ends_an_attempt() -> None:
    solo = Solo()
    solo.meet(card("x"))
    solo.fire(STATE_TIMER)
    assert solo.membership.state is State.STATETRANS
    about = view_name(solo.node.accepted)
    solo.hear(Refuse(card("y"), about, "why should I"))
    assert solo.membership.state is State.STATETRANS, "y is not asked to follow"
    solo.hear(Refuse(card("x"), view_name(DaemonViewId(1, DaemonId("m", 1))), "no"))
    assert solo.membership.state is State.STATETRANS, "that was about another one"
    solo.hear(Refuse(card("x"), about, "I do not"))
    assert solo.membership.state is State.GATHER, "there is nobody else in the site to look for"
    assert Entered(State.SEG, Reason.REFUSED_BY_MEMBER, "x: I do not") in solo.node.entered


@pytest.mark.parametrize("ends", [(0, 2), (2, 0), (2, 2)])
def test_a_link_of_a_newmemb_ends_at_sites_that_are_in_it(ends: tuple[int, int]) -> None:
    solo = Solo()
    members = (Contact("a", 1, "r", "a.1"), Contact("m", 1, "s", "m.1"))
    view = view_name(DaemonViewId(2, DaemonId("a", 1)))
    link = PlannedLink(*ends, 1, False, 0, 0)
    solo.hear(NewMemb(card("a", site="r", epoch=2), view, members, ("a", "m"), (link,), 1))
    assert (solo.node.peers.malformed, solo.membership.state) == (1, State.OP)


def test_a_view_that_forms_is_left_for_a_smaller_coordinators_unless_it_shall_be_delivered_first() -> None:
    for interim, objection in ((InterimViews.SKIP, []), (InterimViews.DELIVER, ["daemon view 2!b#1 is forming"])):
        solo = Solo(interim_views=interim)
        solo.hear(newmemb("b", 2))
        assert refused(solo) == [], "the one that works is left in any case"
        solo.hear(newmemb("a", 3))
        assert refused(solo) == objection
        solo.hear(newmemb("b", 4))
        assert refused(solo) == ([] if objection else ["daemon view 3!a#1 of a smaller coordinator works"])


# --- learning ------------------------------------------------------------------------------------------------------


def test_a_higher_epoch_is_learnt_and_told_and_a_lower_one_is_not() -> None:
    solo = Solo()
    solo.hear(Alive(card("x", epoch=1)))
    assert solo.node.epoch == 1
    before = solo.node.card().count
    solo.hear(Alive(card("x", epoch=7, count=2)))
    assert solo.node.epoch == solo.node.card().epoch == 7 and solo.node.card().count == before + 1


def test_a_table_that_is_full_takes_nobody_more() -> None:
    peers = Solo().node.peers
    for number in range(DAEMONS_MAX):
        peers.by_name[f"d{number}"] = Peer(f"d{number}", "s", Address(f"d{number}.1"))
    assert not peers.mention(Contact("new", 1, "s", "n.1"), 0) and "new" not in peers.by_name
    assert peers.learn(card("new"), Address("n.1"), 0)[1] == "too many daemons are known already"
    assert peers.turned_away == 1
    del peers.by_name["d0"]
    assert peers.mention(Contact("new", 1, "s", "n.1"), 3) and peers.by_name["new"].heard_at == 3


def test_datagrams_of_other_clusters_and_broken_ones_are_counted() -> None:
    solo, other = Solo(), Solo(cluster="another")
    solo.give(DatagramsReceived(0, Address("x.1"), b"".join(other.envelope.seal(Alive(card("x")))), 5_000))
    assert (solo.node.peers.foreign, solo.node.peers.malformed) == (1, 0) and not solo.node.peers.by_name
    good = b"".join(solo.envelope.seal(Alive(card("x"))))
    with pytest.raises(RemoteProtocolError):
        solo.give(DatagramsReceived(0, Address("x.1"), good[:9], 5_000))
    assert solo.node.peers.malformed == 1
    bad = good[:-1] + b"\xff"
    solo.give(DatagramsReceived(0, Address("x.1"), bad + good, len(good)))
    assert solo.node.peers.malformed == 2 and "x" in solo.node.peers.by_name, "the other one in the buffer counts"
    assert solo.give(DatagramsReceived(0, Address("x.1"), b"", 100)) == []


def test_packets_of_links_are_nobodys_when_their_sender_is_not_in_the_daemon_view() -> None:
    solo = Solo()
    solo.meet(card("x"))
    before = solo.node.peers.by_name["x"].heard_at
    solo.at = 9_000_000
    assert solo.give(DatagramsReceived(solo.at, Address("x.1"), b"\x01" * 40, 40)) == []
    assert solo.node.peers.by_name["x"].heard_at == before


# --- looking around ------------------------------------------------------------------------------------------------


def test_every_eighth_look_is_an_announcement() -> None:
    solo = Solo()
    told = []
    for _ in range(10):
        before = solo.at
        solo.fire(LOOKUP_TIMER)
        told.append(len(solo.sent))
        assert solo.at - before == solo.settings.lookup_us and solo.timers[LOOKUP_TIMER] == solo.at + 2_000_000
        assert solo.node.looks_at == solo.at + 2_000_000
    assert told == [1, 0, 0, 0, 0, 0, 0, 0, 1, 0]


def test_strangers_are_forgotten_after_their_time_and_named_ones_are_not() -> None:
    solo = Solo(forget_us=1_999_999, known=(KnownDaemon("named", "s", Address("n.1")),))
    solo.hear(Alive(card("x")))
    solo.at = 1
    solo.hear(Alive(card("y")))
    solo.fire(LOOKUP_TIMER)
    assert sorted(solo.node.peers.by_name) == ["named", "y"]
    assert solo.node.watch.cut == ("named", "y")


def test_daemons_that_do_not_reach_each_other_are_introduced_twice_a_second_at_most() -> None:
    solo = Solo()
    solo.meet(in_view("x", "a", cut=("y",)))
    solo.meet(in_view("y", "a"))
    introduce = solo.node.neighbours.introduce_all
    told = []
    for at in (0, INTRODUCE_EVERY_US - 1, INTRODUCE_EVERY_US):
        solo.node.at = at
        solo.node.out.clear()
        introduce()
        told.append([str(each.destination) for each in solo.node.out if isinstance(each, SendDatagrams)])
    assert told == [["x.1", "y.1"], [], ["x.1", "y.1"]]


def test_so_many_introductions_at_a_time() -> None:
    solo = Solo()
    names = [f"x{number:02}" for number in range(INTRODUCTIONS_MAX + 3)]
    solo.meet(in_view("p", "a", cut=tuple(names)))
    for name in names:
        solo.meet(in_view(name, "a"))
    solo.node.out.clear()
    solo.node.at = 10_000_000
    solo.node.neighbours.introduce_all()
    sent = [each for each in solo.node.out if isinstance(each, SendDatagrams)]
    assert len(sent) == 2 * INTRODUCTIONS_MAX
    solo.node.neighbours.introduce_all()
    sent = [each for each in solo.node.out if isinstance(each, SendDatagrams)]
    assert len(sent) == 2 * (INTRODUCTIONS_MAX + 3)


def test_the_distance_of_sites_is_the_least_that_anybody_measured() -> None:
    solo = Solo()
    solo.hear(Alive(card("x", site="far", distances=(Distance("s", 700), Distance("farther", 90)))))
    solo.hear(Alive(card("y", site="far", distances=(Distance("s", 500),))))
    solo.hear(Alive(card("z", distances=(Distance("far", 600),))))
    neighbours = solo.node.neighbours
    assert neighbours.distance("s", "far") == neighbours.distance("far", "s") == 500
    assert neighbours.distance("farther", "far") == 90 and neighbours.distance("s", "farther") is None
    assert neighbours.round_trip_us() == 0


def test_measured_distances_are_coarse_and_on_the_card() -> None:
    solo = Solo()
    solo.hear(Alive(card("x", site="far")))
    (nonce,) = [each.nonce for where, each in solo.sent if isinstance(each, Probe)]
    solo.at = 9 * MS
    solo.hear(Answer(card("x", site="far"), nonce))
    solo.node.neighbours.measure()
    ((site, us),) = [(each.site, each.round_trip_us) for each in solo.node.card().distances]
    exact = solo.node.watch.detector.report("x", solo.at).smoothed_us
    assert (site, exact, us) == ("far", 9_000, 3 << 12), "rounded up to two binary digits"
    assert solo.node.neighbours.round_trip_us() == us


def test_a_link_that_failed_is_avoided_for_its_time() -> None:
    solo = Solo()
    solo.hear(Alive(card("x", site="far")))
    node = solo.node
    assert list(node.broken_links(["m", "x"])) == []
    node.link_broke("x")
    node.at = 1
    node.link_broke("y")
    assert node.card().broken == ("x", "y") and list(node.broken_links(["m", "x"])) == [("m", "x"), ("m", "y")]
    for at, left in ((AVOID_US - 1, ("x", "y")), (AVOID_US, ("y",)), (AVOID_US + 1, ())):
        node.at = at
        node.forget_broken()
        assert node.card().broken == left
    solo.hear(Alive(card("x", site="far", count=2, broken=("m", "z"))))
    assert list(node.broken_links(["m", "x"])) == [("m", "x"), ("x", "z")], "as the other end says"
    assert list(node.broken_links(["m"])) == []


# --- gathering -----------------------------------------------------------------------------------------------------


def test_a_larger_daemon_that_is_reached_is_gathered_at_once_and_a_view_forms() -> None:
    solo = Solo()
    solo.meet(card("x"))
    assert (solo.membership.state, solo.node.reason) == (State.GATHER, Reason.REACHED_OTHERS)
    assert solo.sent_to(Join) == ["x.1"]
    ((_, join),) = [each for each in solo.sent if isinstance(each[1], Join)]
    assert isinstance(join, Join) and join.proposed == ("m", "x") and not join.of_segment
    assert [each.name for each in join.members] == ["m"]
    began = solo.at
    solo.fire(REPEAT_TIMER)
    assert solo.sent_to(Join) == ["x.1"] and solo.at == began + solo.settings.join_us
    solo.fire(STATE_TIMER)
    assert solo.at == began + solo.settings.gather_us
    assert solo.membership.state is State.STATETRANS and solo.sent_to(NewMemb) == ["x.1"]
    ((_, formed),) = [each for each in solo.sent if isinstance(each[1], NewMemb)]
    assert isinstance(formed, NewMemb) and formed.id == ViewName(2, "m", 1) and formed.gateways == ("m",)
    assert solo.timers[REPEAT_TIMER] == solo.at + solo.settings.newmemb_us
    solo.fire(REPEAT_TIMER)
    assert solo.sent_to(NewMemb) == ["x.1"] and solo.timers[REPEAT_TIMER] == solo.at + solo.settings.newmemb_us
    following = formed.id
    solo.hear(Alive(card("x", count=2, epoch=2, attached=following, accepted=following)))
    solo.fire(REPEAT_TIMER)
    assert solo.sent_to(NewMemb) == [], "it says that it follows"


def test_a_vain_attempt_is_repeated_later_and_later_and_counts_against_who_did_not_come() -> None:
    solo = Solo()
    solo.meet(card("x"))
    solo.fire(STATE_TIMER)
    solo.fire(STATE_TIMER)
    assert solo.node.entries[Reason.STATE_TIMEOUT] == 1
    assert solo.node.not_before == solo.at + solo.settings.retry_us and solo.node.failures == 1
    assert not solo.node.watch.reaches("x"), "a penalty"
    pauses = []
    for _ in range(6):
        solo.membership.transfer.failed()
        pauses.append(solo.node.not_before - solo.node.at)
    assert pauses == [200_000, 400_000, 800_000, 1_600_000, 2_000_000, 2_000_000]


def test_a_smaller_daemon_is_not_taken_but_asked() -> None:
    solo = Solo()
    solo.meet(in_view("a", "a"))
    assert (solo.membership.state, solo.node.reason) == (State.GATHER, Reason.REACHED_OTHERS)
    assert solo.sent_to(Join) == ["a.1"]
    ((_, join),) = [each for each in solo.sent if isinstance(each[1], Join)]
    assert isinstance(join, Join) and join.proposed == ("m",)
    solo.fire(STATE_TIMER)
    assert solo.membership.state is State.GATHER, "it is given time"
    while solo.membership.state is State.GATHER:
        solo.fire(STATE_TIMER)
    assert (solo.membership.state, solo.node.reason) == (State.OP, Reason.LEFT_TO_SMALLER)
    assert solo.at >= 2 * solo.settings.gather_us and solo.at < 2 * solo.settings.gather_us + solo.settings.join_us


def test_a_daemon_of_a_smaller_coordinators_view_is_asked_through_its_coordinator_or_itself() -> None:
    solo = Solo()
    solo.meet(in_view("x", "a"))
    assert solo.membership.state is State.OP, "nobody could be added, and no representative is reached"
    solo.meet(in_view("y", "n"))
    assert solo.membership.state is State.GATHER
    assert solo.sent_to(Join) == ["x.1", "y.1"], "their coordinators are not reached"
    ((_, join), _) = [each for each in solo.sent if isinstance(each[1], Join)]
    assert isinstance(join, Join) and join.proposed == ("m", "y")


def test_a_gathering_is_answered_by_gathering() -> None:
    solo = Solo()
    solo.meet(in_view("a", "a"))
    while solo.membership.state is not State.OP:
        solo.fire(STATE_TIMER)
    solo.join(in_view("a", "a", count=2), "a", of_segment=False)
    assert solo.membership.state is State.OP, "it would not take us, and we looked a moment ago"
    solo.join(in_view("a", "a", count=2), "a", "m", of_segment=False)
    assert (solo.membership.state, solo.node.reason) == (State.GATHER, Reason.JOIN_RECEIVED)


def test_a_daemon_that_is_not_reached_gathers_in_vain() -> None:
    solo = Solo()
    solo.join(in_view("a", "a"), "a", "m", of_segment=False)
    assert solo.membership.state is State.OP


# --- without a daemon view -----------------------------------------------------------------------------------------


def test_the_smallest_of_the_site_represents_it() -> None:
    solo = waiting()
    solo.meet(card("b"))
    solo.meet(card("a", site="elsewhere"))
    solo.meet(in_view("aa", "aa"))
    solo.fire(REPEAT_TIMER)
    assert solo.sent_to(Alive) == ["aa.1", "b.1", "all of s"] and solo.timers[REPEAT_TIMER] == solo.at + 50_000
    solo.fire(STATE_TIMER)
    assert (solo.membership.state, solo.node.reason) == (State.REP, Reason.SMALLER_IN_SITE)
    assert solo.membership.standing(0).waiting_for == ("b",)
    assert solo.timers[STATE_TIMER] == solo.at + solo.settings.represented_us
    solo.fire(STATE_TIMER)
    assert (solo.membership.state, solo.node.reason) == (State.SEG, Reason.REPRESENTATIVE_SILENT)
    assert solo.node.culprit == "b"


def test_a_join_of_the_site_makes_its_sender_the_representative() -> None:
    solo = waiting()
    solo.meet(card("b"))
    solo.at = 5
    solo.join(card("b"), "b", "m")
    assert (solo.membership.state, solo.node.reason) == (State.REP, Reason.JOIN_IN_SITE)
    solo.meet(card("c"))
    solo.at = 9
    solo.join(card("c"), "c", "m")
    assert solo.membership.segment.representative == "b" and solo.timers[STATE_TIMER] == 5 + 1_000_000
    solo.join(card("b"), "b", "m")
    assert solo.timers[STATE_TIMER] == 9 + 1_000_000, "it is still there"
    solo.meet(card("a"))
    solo.join(card("a"), "a", "m")
    assert solo.membership.segment.representative == "a", "a smaller one"
    solo.hear(Leave(card("a", count=2)))
    assert (solo.membership.state, solo.node.reason) == (State.SEG, Reason.REPRESENTATIVE_LOST)


@pytest.mark.parametrize(
    ("told", "of_segment"), [(card("b", site="t"), True), (card("b"), False), (card("x"), True)], ids=str
)
def test_others_who_gather_are_referred_to_the_smallest_of_the_site(told: object, of_segment: bool) -> None:
    solo = waiting()
    solo.meet(told)  # type: ignore[arg-type]
    solo.meet(card("a"))
    solo.join(told, "b", "m", of_segment=of_segment)  # type: ignore[arg-type]
    assert solo.membership.state is State.SEG
    ((_, refer),) = [each for each in solo.sent if isinstance(each[1], Refer)]
    assert isinstance(refer, Refer) and refer.representative.name == "a"


def test_the_smallest_itself_is_not_referred_to_itself() -> None:
    solo = waiting()
    solo.meet(card("a"))
    solo.join(card("a"), "a", "m", of_segment=False)
    assert solo.sent_to(Refer) == []


def test_a_representative_that_leaves_us_out_is_left_after_four_times_within_its_time() -> None:
    solo = waiting()
    solo.meet(card("b"))
    solo.join(card("b"), "b", "m")
    for number in range(DECLINED_MAX):
        assert solo.membership.state is State.REP, number
        solo.join(card("b"), "b")
        assert "b.1" in solo.sent_to(Alive)
    assert (solo.membership.state, solo.node.reason) == (State.SEG, Reason.REPRESENTATIVE_DECLINES)
    assert solo.membership.segment.members() == [ME], "it does not count"
    solo.node.at += solo.settings.represented_us - 1
    assert solo.membership.segment.members() == [ME]
    solo.node.at += 1
    assert solo.membership.segment.members() == [DaemonId("b", 1), ME]


# --- why somebody is not there -------------------------------------------------------------------------------------


def reasons(solo: Solo) -> dict[str, str]:
    return {each.daemon: each.evidence for each in solo.membership.standing(solo.at).exclusions}


def test_why_a_daemon_is_not_in_the_view() -> None:
    solo = Solo()
    solo.hear(Alive(card("silent")))
    solo.meet(card("new"))
    solo.meet(card("blind", cut=("m",)))
    solo.meet(in_view("taken", "a", epoch=3))
    solo.meet(card("gone"))
    solo.hear(Leave(card("gone", count=2)))
    solo.hear(Alive(card("old", low=7, high=7)))
    solo.hear(Alive(card("old", low=7, high=7)))
    told = reasons(solo)
    assert told["silent"] == "it has not answered yet"
    assert told["new"] == "it is about to be added"
    assert told["blind"] == "it does not reach us"
    assert told["taken"] == "it is in daemon view 3!a#1 of a smaller coordinator"
    assert told["gone"] == "it said good-bye"
    solo.node.watch.penalise("new", solo.at)
    assert reasons(solo)["new"] == "it came and went, and is under a penalty"


def test_a_view_of_a_larger_coordinator_is_no_reason() -> None:
    solo = Solo()
    solo.meet(in_view("x", "n", epoch=3))
    assert reasons(solo)["x"] == "it is about to be added"


def test_who_refuses_us_is_named_until_it_answers() -> None:
    solo = Solo()
    solo.meet(card("x"))
    solo.hear(Refuse(card("x"), None, "your name is taken"))
    (refusal,) = solo.membership.standing(0).refusals
    assert (refusal.daemon, refusal.evidence) == ("x", "it refuses us: your name is taken")
    solo.hear(Answer(card("x"), 1))
    assert solo.membership.standing(0).refusals == ()


# --- the settings --------------------------------------------------------------------------------------------------


def test_daemons_are_added_and_removed_at_run_time() -> None:
    solo = Solo()
    known = KnownDaemon("x", "s", Address("x.1"))
    solo.give(PeersChanged(0, known=(known,), removed=()))
    assert solo.sent_to(Probe) == ["x.1"]
    solo.give(PeersChanged(0, known=(), removed=("x",)))
    assert "x" not in solo.node.peers.by_name and solo.node.watch.cut == ()
    solo.hear(Alive(card("x")))
    assert refused(solo) == ["x was removed from the settings of m"]
    solo.give(PeersChanged(0, known=(known,), removed=()))
    solo.meet(card("x"))


def test_a_disk_that_knows_this_incarnation_stops_the_daemon() -> None:
    first = Solo()
    (persist,) = [each for each in first.actions if isinstance(each, Persist)]
    cells = {each.cell: each.value for each in persist.writes if isinstance(each, Put)}
    second = Solo()
    assert any(isinstance(each, Stop) for each in second.give(Started(0, Storage(cells=cells))))
    assert second.membership.stopped


# --- who is reached ------------------------------------------------------------------------------------------------


def test_an_answer_counts_only_if_its_question_was_asked_since_the_daemon_was_met() -> None:
    solo = Solo()
    solo.hear(Alive(card("x")))
    (nonce,) = [each.nonce for _, each in solo.sent if isinstance(each, Probe)]
    for wrong in (nonce - 1, nonce + 1):
        solo.hear(Answer(card("x"), wrong))
        assert not solo.node.watch.reaches("x")
    solo.hear(Answer(card("x"), nonce))
    assert solo.node.watch.reaches("x") and solo.node.watch.reached == ["x"] and solo.node.watch.cut == ()
    solo.hear(Alive(card("x", 2)))
    assert not solo.node.watch.reaches("x"), "a new incarnation is met anew"
    solo.hear(Answer(card("x", 2), nonce))
    assert not solo.node.watch.reaches("x")


def test_a_question_is_answered() -> None:
    solo = Solo()
    solo.hear(Probe(card("x"), 77))
    assert [(where, each.nonce) for where, each in solo.sent if isinstance(each, Answer)] == [("x.1", 77)]


def test_packets_count_as_signs_of_life_once_in_a_while() -> None:
    solo = Solo()
    solo.meet(card("x"))
    peer = solo.node.peers.by_name["x"]
    heard = []
    for at in (100_000, 100_000 + HEARD_EVERY_US - 1, 100_000 + HEARD_EVERY_US):
        solo.node.watch.heard(peer, at)
        heard.append(peer.heard_at)
    assert heard == [100_000, 100_000, 100_000 + HEARD_EVERY_US]


def test_a_penalty_ends_by_its_timer() -> None:
    solo = Solo()
    solo.meet(in_view("a", "a"))
    solo.at = 5_000
    solo.node.watch.penalise("a", solo.at)
    assert not solo.node.watch.reaches("a") and solo.node.watch.changed
    assert [each for each in solo.node.out if isinstance(each, SetTimer) and each.key == PENALTY_TIMER] == [
        SetTimer(PENALTY_TIMER, solo.settings.penalty_us)
    ]
    solo.node.watch.penalise("a", solo.at)
    assert len([each for each in solo.node.out if isinstance(each, SetTimer) and each.key == PENALTY_TIMER]) == 1, (
        "a later end needs no earlier timer"
    )
    solo.at += 2 * solo.settings.penalty_us
    solo.give(TimerFired(solo.at, PENALTY_TIMER))
    assert solo.node.watch.reaches("a")


def test_a_port_that_refuses_accuses_its_daemon_once() -> None:
    solo = Solo()
    solo.meet(card("x"))
    solo.give(DatagramsRefused(0, Address("nobody.1")))
    solo.give(DatagramsRefused(0, Address("x.1")))
    if solo.node.peers.by_name["x"].suspected:
        assert solo.node.watch.is_absent("x")
    assert not solo.node.watch.is_absent("y")
    solo.hear(Leave(card("y")))
    assert solo.node.watch.is_absent("y")


def test_seeds_are_called_until_somebody_there_is_reached() -> None:
    solo = Solo(seeds=(Address("x.1"), Address("m.1"), Address("z.1")), multicast=False)
    assert solo.sent_to(Alive) == ["x.1", "z.1"], "not oneself"
    solo.hear(Alive(card("x")))
    solo.fire(LOOKUP_TIMER)
    assert "x.1" in solo.sent_to(Alive)
    solo.meet(card("x", 2))
    solo.fire(LOOKUP_TIMER)
    assert solo.sent_to(Alive) == ["z.1"]


def test_sites_that_the_plan_leaves_apart_get_one_bridge_each() -> None:
    def links(*plans: LinkPlan) -> list[str]:
        homes = {name: name for name in "abcd"}
        return [link.name for link in plan_topology(homes, plans, distance=lambda one, other: None).links]

    assert links(LinkPlan(a="b", b="c")) == ["a~b", "a~d", "b~c"]
    assert links(LinkPlan(a="b", b="c"), LinkPlan(a="c", b="d")) == ["a~b", "b~c", "c~d"]
    assert links(LinkPlan(a="a", b="d"), LinkPlan(a="b", b="c")) == ["a~b", "a~d", "b~c"]


def test_a_daemon_that_slept_begins_its_patience_anew() -> None:
    solo = waiting()
    solo.meet(card("x"))
    solo.timers[DETECTOR_TIMER] += 3_600_000_000
    solo.fire(DETECTOR_TIMER)
    assert solo.node.watch.doubts == 1 and set_timers(solo)[STATE_TIMER] == solo.settings.segment_us
