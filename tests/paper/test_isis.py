"""[ISIS], step by step: the protocols of 4.1 to 4.5 played by hand, and the examples of 1 and 3.2."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from isotone.core.ids import DaemonId
from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.kernel import Kernel
from isotone.isis.settings import WINDOW_MAX, IsisSettings
from tests.paper.isis_cluster import NAMES, SITES, A, C, Cluster, G

# --- 4.3.1 ------------------------------------------------------------------------------------------------------------


def placed(cluster: Cluster, site: str) -> dict[bytes, tuple[tuple[int, str], bool]]:
    """What stands undelivered in the priority queues of a site: body, priority, and whether it is deliverable."""
    queue = cluster.lives[site].site.queue
    return {each.abcast.body: (each.priority, each.final) for each in queue.values() if each.abcast is not None}


def test_4_3_1_step_1_the_sender_transmits_to_its_destinations() -> None:
    cluster = Cluster()
    cluster.cast("a.1", A, b"x", label="q")
    cluster.step()
    assert [to for to, _ in cluster.sent(w.AbcastStart, "a.1")] == ["b.1", "c.1"]


def test_4_3_1_step_2_a_recipient_proposes_more_than_stands_in_the_queue_and_tags_it_undeliverable() -> None:
    cluster = Cluster()
    cluster.lives["b.1"].site.highest = 8
    cluster.cut = {("b.1", "a.1")}
    cluster.cast("a.1", A, b"x", label="q")
    cluster.cast("a.1", A, b"y", label="q")
    cluster.run()
    assert placed(cluster, "b.1") == {b"x": ((9, "b.1"), False), b"y": ((10, "b.1"), False)}
    assert cluster.bodies("b.1") == []
    cluster.mend()
    assert [body.priority for _, body in cluster.sent(w.AbcastPriority, "b.1")] == [9, 10]  # type: ignore[attr-defined]


def test_4_3_1_step_3_the_sender_returns_the_maximum_of_those_that_remain_operational() -> None:
    cluster = Cluster()
    cluster.lives["b.1"].site.highest, cluster.lives["c.1"].site.highest = 8, 20
    cluster.cast("a.1", A, b"x", label="q")
    cluster.run()
    told = {(body.priority, body.suffix) for _, body in cluster.sent(w.AbcastCommit)}  # type: ignore[attr-defined]
    assert told == {(21, "c.1")}
    cluster.cut = {("c.1", "a.1")}
    cluster.cast("a.1", A, b"y", label="q")
    cluster.run()
    assert cluster.bodies("b.1") == [b"x"]
    cluster.fail("c.1")
    assert cluster.bodies("b.1") == [b"x", b"y"]


def test_4_3_1_step_4_an_undeliverable_message_at_the_head_stops_the_queue() -> None:
    cluster = Cluster()
    cluster.cut = {("c.1", "a.1")}  # a never gets the priority that c gives to x
    cluster.cast("a.1", A, b"x", label="q")
    cluster.run()
    cluster.cast("b.1", A, b"y", label="q")
    cluster.cast("b.1", A, b"z", label="other")
    cluster.cut |= {("a.1", "b.1")}
    cluster.run()
    cluster.cut = {("c.1", "a.1")}
    cluster.run()
    assert placed(cluster, "c.1")[b"y"][1] and not placed(cluster, "c.1")[b"x"][1]
    assert cluster.bodies("c.1") == [b"z"]  # a queue for each label
    cluster.mend()
    assert cluster.bodies("c.1") == [b"z", b"x", b"y"]


def test_4_3_1_step_4_the_final_priority_sorts_the_queue_anew() -> None:
    cluster = Cluster()
    cluster.lives["c.1"].site.highest = 8
    cluster.cut = {("c.1", "a.1")}
    cluster.cast("a.1", A, b"x", label="q")  # stands first at b
    cluster.run()
    cluster.lives["c.1"].site.highest = 0
    cluster.lives["b.1"].site.highest = 1
    cluster.cut |= {("b.1", "a.1")}
    cluster.cast("b.1", A, b"y", label="q")
    cluster.run()
    cluster.mend()
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == cluster.bodies("c.1")
    assert cluster.bodies("b.1")[0] == b"y"


def test_4_3_1_take_over_a_priority_that_one_has_as_deliverable_is_given_to_the_others() -> None:
    cluster = Cluster()
    cluster.lives["c.1"].site.highest = 8
    cluster.cast("a.1", A, b"x", label="q")
    cluster.step()
    cluster.cut = {("a.1", "c.1")}  # b alone gets the commit
    cluster.run()
    assert cluster.bodies("b.1") == [b"x"] and not placed(cluster, "c.1")[b"x"][1]
    cluster.carried.clear()
    cluster.fail("a.1")
    (found,) = {(each.priority, each.suffix) for _, each in cluster.sent(w.AbcastCommit)}  # type: ignore[attr-defined]
    assert found == (9, "c.1") and cluster.bodies("c.1") == [b"x"]


def test_4_3_1_take_over_otherwise_it_begins_at_step_1() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}  # only b hears of it
    cluster.cast("a.1", A, b"x", label="q")
    cluster.step()
    cluster.carried.clear()
    cluster.fail("a.1")
    assert cluster.sent(w.AbcastStart, "b.1")
    assert cluster.story("b.1") == cluster.story("c.1") == [b"x", ("a.1/p",)]


def test_4_3_1_correctness_nobody_delivers_before_all_destinations_have_it() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", A, b"x", label="q")
    cluster.run()
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == []
    cluster.mend()
    assert all(cluster.bodies(site) == [b"x"] for site in SITES)


def test_4_3_1_correctness_final_priorities_are_unique_and_order_the_deliveries() -> None:
    cluster = Cluster()
    for place, site in enumerate(SITES):
        cluster.cast(site, A, b"%d" % place, label="q")
    cluster.run()
    final = {body.id: (body.priority, body.suffix) for _, body in cluster.sent(w.AbcastCommit)}  # type: ignore[attr-defined]
    assert len(set(final.values())) == 3
    ids = [[each.message for each in cluster.heard[site] if isinstance(each, e.Deliver)] for site in SITES]
    assert ids[0] == ids[1] == ids[2] == sorted(final, key=lambda id: final[id])


def test_4_3_1_correctness_nothing_undeliverable_ever_stands_below_what_was_delivered() -> None:
    cluster = Cluster()
    delivered = dict.fromkeys(SITES, (0, ""))
    final: dict[str, tuple[int, str]] = {}
    for place in range(6):
        cluster.cast(SITES[place % 3], A, b"%d" % place, label="q")
        cluster.lives[SITES[(place * 2) % 3]].site.highest += place
        for _ in range(2):
            cluster.step()
            for site, life in cluster.lives.items():
                final |= {id: each.priority for id, each in life.site.queue.items() if each.final}
                told = [each.message for each in cluster.heard[site] if isinstance(each, e.Deliver)]
                delivered[site] = max([delivered[site], *(final[id] for id in told if id in final)])
                assert all(each.priority > delivered[site] for each in life.site.queue.values())
    cluster.run()
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == cluster.bodies("c.1")


def test_4_3_1_overlapping_abcasts_have_one_order() -> None:
    cluster = Cluster()
    for place, site in enumerate(SITES):
        cluster.cast(site, A, b"%d" % place, label="q")
    cluster.run()
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == cluster.bodies("c.1")
    assert sorted(cluster.bodies("a.1")) == [b"0", b"1", b"2"]


# --- 4.3.2 ------------------------------------------------------------------------------------------------------------


def packets(cluster: Cluster, source: str, target: str) -> list[list[bytes]]:
    """The transfer packets on one way."""
    found = [body for to, body in cluster.sent(w.Packet, source) if to == target]
    return [[each.body for each in packet.messages] for packet in found]  # type: ignore[attr-defined]


def test_4_3_2_steps_1_and_2_a_packet_has_all_that_precedes_its_message_in_that_order() -> None:
    """And, by D-along, what its sender was handed under other labels."""
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.cast("a.1", C, b"second")
    cluster.cast("a.1", C, b"apart", label="other", number=1)
    cluster.run()
    cluster.cast("b.1", C, b"third")
    cluster.run()
    assert packets(cluster, "b.1", "c.1") == [[b"first", b"second", b"apart", b"third"]]


def test_4_3_2_step_3_what_is_sent_is_taken_out_of_rem_dests() -> None:
    cluster = Cluster()
    cluster.cut = {("c.1", "a.1")}  # c acknowledges nothing
    cluster.cast("a.1", C, b"x")
    cluster.run()
    (buffered,) = cluster.lives["a.1"].cbcasts.buffer.values()
    assert buffered.remaining == {"c.1"}
    cluster.mend()
    assert buffered.remaining == set()


def test_4_3_2_step_4_a_second_copy_is_discarded() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.run()
    cluster.cast("b.1", C, b"second")
    cluster.run()
    cluster.mend()
    assert b"first" in packets(cluster, "a.1", "c.1")[0] and cluster.bodies("c.1") == [b"first", b"second"]


def test_4_3_2_step_5_it_is_delivered_and_a_copy_stays_in_the_buffer_without_this_destination() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.run()
    (buffered,) = cluster.lives["b.1"].cbcasts.buffer.values()
    assert cluster.bodies("b.1") == [b"x"] and buffered.remaining == {"c.1"}


def test_4_3_2_step_6_a_message_in_transit_is_only_placed_in_the_buffer() -> None:
    cluster = Cluster()
    cluster.ask("b.1", e.JoinWanted(0, "p", "h"))
    cluster.run()
    cluster.ask("a.1", e.BroadcastWanted(0, "p", "h", A, b"so that a knows the group"))
    cluster.run()
    cluster.cut = {("a.1", "b.1")}
    cluster.ask("a.1", e.BroadcastWanted(0, "p", "h", C, b"to b alone"))
    cluster.cast("a.1", C, b"to all")
    cluster.run()
    assert packets(cluster, "a.1", "c.1") == [[b"to b alone", b"to all"]]
    assert cluster.bodies("c.1") == [b"to all"]
    (transit,) = [each for each in cluster.lives["c.1"].cbcasts.buffer.values() if each.message.group == "h"]
    assert transit.remaining == {"b.1"}
    cluster.cast("c.1", C, b"answer")
    cluster.run()
    assert packets(cluster, "c.1", "b.1") == [[b"to b alone", b"to all", b"answer"]]
    assert cluster.bodies("b.1")[-3:] == [b"to b alone", b"to all", b"answer"]


def test_4_3_2_what_precedes_travels_along() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.run()
    assert cluster.bodies("b.1") == [b"first"] and cluster.bodies("c.1") == []
    cluster.cast("b.1", C, b"second")
    cluster.run()
    assert cluster.bodies("c.1") == [b"first", b"second"]  # by way of b


def test_4_3_2_correctness_atomic_whoever_has_it_sends_it_on_when_the_sender_fails() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.run()
    cluster.fail("a.1")
    assert cluster.bodies("c.1") == [b"x"]


def test_4_3_2_correctness_order_along_a_chain_of_senders() -> None:
    """The induction: a copy of the first is with the sender of each that follows, so it is in every packet."""
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1"), ("c.1", "a.1")}
    cluster.cast("a.1", C, b"0")
    cluster.run()
    for step, site in enumerate(("b.1", "c.1", "b.1", "a.1")):
        cluster.cast(site, C, b"%d" % (step + 1))
        cluster.run()
    cluster.mend()
    assert all(cluster.bodies(site) == [b"0", b"1", b"2", b"3", b"4"] for site in SITES)


def test_4_3_2_labels_that_do_not_compare_are_not_ordered() -> None:
    """x and y wait for a GBCAST; y alone is in the before list, and x stays behind although it came first."""
    for label, before in (("x", [b"x", b"y"]), ("y", [b"y"])):
        cluster = at_part_3()
        cluster.cast("b.1", C, b"x", label="x", number=1)
        cluster.cast("b.1", C, b"y", label=label, number=2)
        cluster.run()
        c = cluster.lives["c.1"]
        y = next(id for id, each in c.cbcasts.buffer.items() if each.message.body == b"y")
        assert [each.body for each in c.cbcasts.waiting or []] == [b"x", b"y"]
        listed = c.cbcasts.listed((y,))
        assert [c.cbcasts.buffer[id].message.body for id in sorted(listed)] == before


def test_4_3_2_optimisations_1_and_2_one_packet_and_one_copy_for_all_processes_of_a_site() -> None:
    cluster = Cluster()
    cluster.ask("b.1", e.JoinWanted(0, "q", "g"))
    cluster.run()
    cluster.carried.clear()
    cluster.cast("a.1", C, b"x")
    cluster.run()
    assert packets(cluster, "a.1", "b.1") == [[b"x"]] and len(cluster.lives["b.1"].cbcasts.buffer) == 1
    (heard,) = [each for each in cluster.heard["b.1"] if isinstance(each, e.Deliver)]
    assert heard.processes == ("b.1/p", "b.1/q")


def test_4_3_2_optimisation_3_nothing_goes_to_a_site_twice() -> None:
    cluster = Cluster()
    cluster.cut = {("c.1", "a.1")}  # not acknowledged: REM_DESTS keeps c
    cluster.cast("a.1", C, b"first")
    cluster.run()
    cluster.cast("a.1", C, b"second")
    cluster.run()
    assert packets(cluster, "a.1", "c.1") == [[b"first"], [b"second"]]


def test_3_5_what_precedes_something_that_a_survivor_has_is_not_lost() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.run()
    cluster.cast("b.1", C, b"second")
    cluster.run()
    cluster.fail("a.1", "b.1")
    assert cluster.story("c.1") == [b"first", b"second", ("a.1/p", "b.1/p")]


def test_3_5_a_cbcast_is_not_lost_where_an_abcast_arrives_that_was_sent_after_it() -> None:
    """Also where it was deferred: it stands before the other on the channel."""
    for primitive in (A, G):
        cluster = Cluster()
        a = cluster.lives["a.1"]
        a.ask(e.BroadcastWanted(0, "p", "g", C, b"first"))
        a.ask(e.BroadcastWanted(0, "p", "g", primitive, b"second"))
        a.settle(transmit=False)
        for peer in a.site.channels.peers.values():
            assert next(type(body) for _, body, _ in peer.queue) is w.Packet


@pytest.mark.parametrize("how", ["abcast", "gbcast", "other chain", "minimal", "join", "answer"])
def test_3_5_what_a_process_was_handed_is_not_lost_where_something_arrives_that_it_sent_then(how: str) -> None:
    """a sends x to b and d, and b alone gets it; b says something to c alone, and fails as a does: d has x from c."""
    cluster = Cluster(sites=("c.1", "a.1", "b.1", "d.1"), members=("b.1", "c.1"))
    for site in ("a.1", "b.1", "d.1"):
        cluster.ask(site, e.JoinWanted(0, "p", "h"))
        cluster.run()
    cluster.cast("c.1", A, b"question", call=True, token=1)
    cluster.run()
    question = next(each for each in cluster.heard["b.1"] if isinstance(each, e.Deliver))
    cluster.cut = {("a.1", "d.1"), ("a.1", "c.1"), ("b.1", "d.1")}
    cluster.ask("a.1", e.BroadcastWanted(0, "p", "h", C, b"x", "x", 1))
    cluster.run()
    assert cluster.bodies("b.1")[-1] == b"x" and not cluster.lives["c.1"].cbcasts.buffer
    match how:
        case "abcast" | "gbcast":
            cluster.cast("b.1", e.Primitive(how), b"y")
        case "other chain" | "minimal":
            cluster.cast("b.1", C, b"y", label="y", number=1 if how == "other chain" else -1)
        case "join":
            cluster.ask("b.1", e.JoinWanted(0, "p", "k"))
        case "answer":
            cluster.ask("b.1", e.AnswerGiven(0, "p", question.message, b"y"))
    cluster.step()
    cluster.fail("a.1", "b.1")
    assert cluster.bodies("d.1") == [b"x"]


@pytest.mark.parametrize("primitive", [A, C, G])
def test_3_5_what_follows_an_abcast_waits_until_that_is_at_its_destinations(primitive: e.Primitive) -> None:
    """a sends x to c, which does not get it, and y to b, who is no destination of x: b must not have y alone."""
    cluster = Cluster(members=("a.1", "c.1"))
    for site in ("a.1", "b.1"):
        cluster.ask(site, e.JoinWanted(0, "p", "h"))
        cluster.run()
    for lost in (False, True):
        cluster.cut = {("a.1", "c.1")}
        cluster.cast("a.1", A, b"x")
        cluster.ask("a.1", e.BroadcastWanted(0, "p", "h", primitive, b"y"))
        cluster.run()
        assert cluster.bodies("b.1") == ([] if not lost else [b"y"])
        if not lost:
            cluster.mend()
            assert cluster.bodies("c.1") == [b"x"] and cluster.bodies("b.1") == [b"y"]
    cluster.fail("a.1")
    assert cluster.bodies("c.1") == [b"x"] and cluster.bodies("b.1") == [b"y"]


# --- 3.4 --------------------------------------------------------------------------------------------------------------


def test_3_4_a_minimal_broadcast_stands_behind_nothing() -> None:
    """Its label compares with no other; but what its sender was handed travels along, by [3.5]."""
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first")
    cluster.run()
    cluster.cast("b.1", C, b"second", number=-1)
    cluster.run()
    labels = {each.message.body: each.message.label for each in cluster.lives["c.1"].cbcasts.buffer.values()}
    assert not labels[b"first"].precedes(labels[b"second"])
    assert packets(cluster, "b.1", "c.1") == [[b"first", b"second"]]


def test_3_4_a_causal_abcast_stands_behind_the_cbcasts_that_its_sender_heard() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"first", label="x", number=1)
    cluster.run()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("b.1", A, b"second", causal=True)
    cluster.run()
    assert cluster.bodies("c.1") == [b"first", b"second"]


def test_3_4_causal_abcasts_stand_in_the_order_of_their_cause_also_in_other_groups() -> None:
    """a sends to g, then to h; of g alone a third site proposes a high priority, which h never hears of."""
    orders = []
    for causal in (False, True):
        cluster = Cluster()
        for site in ("a.1", "b.1"):
            cluster.ask(site, e.JoinWanted(0, "p", "h"))
            cluster.run()
        cluster.lives["c.1"].site.highest += 50
        cluster.cast("a.1", A, b"cause", causal=causal)
        cluster.ask("a.1", e.BroadcastWanted(0, "p", "h", A, b"effect", causal=causal))
        cluster.run()
        assert cluster.bodies("a.1") == cluster.bodies("b.1")
        orders.append(cluster.bodies("b.1"))
    assert orders == [[b"effect", b"cause"], [b"cause", b"effect"]]


def test_3_4_a_causal_abcast_keeps_its_place_when_another_site_takes_over() -> None:
    cluster = Cluster()
    cluster.lives["a.1"].site.highest += 50
    cluster.cast("a.1", C, b"clock")
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", A, b"x", causal=True)
    cluster.step()
    cluster.fail("a.1")
    assert cluster.story("c.1") == [b"clock", b"x", ("a.1/p",)]
    (floor,) = {body.floor for _, body in cluster.sent(w.AbcastStart)}  # type: ignore[attr-defined]
    assert all(body.priority > floor for _, body in cluster.sent(w.AbcastCommit))  # type: ignore[attr-defined]


# --- 4.3.3 part 1 -----------------------------------------------------------------------------------------------------


def test_4_3_3_step_1_1_the_flush_holds_a_read_lock_and_asks_all_sites() -> None:
    cluster = Cluster()
    cluster.cut = {("b.1", "c.1")}
    view = w.SiteView(2, ("b.1", "c.1"), cluster.lives["b.1"].site.view.lives)
    del cluster.lives["a.1"]
    for site in ("b.1", "c.1"):
        cluster.lives[site].enter_view(view)
        cluster.lives[site].settle(transmit=True)
    cluster.run()
    assert cluster.lives["c.1"].read_locks == 1 and cluster.lives["b.1"].site.groups["g"].members[0] == "a.1/p"
    cluster.mend()
    assert cluster.lives["b.1"].read_locks == cluster.lives["c.1"].read_locks == 0
    assert {to for to, _ in cluster.sent(w.Flushed)} == {"b.1", "c.1"}
    assert cluster.story("b.1") == cluster.story("c.1") == [("a.1/p",)]


def test_4_3_3_step_1_2_what_the_failed_sent_goes_to_its_destinations_before_a_site_answers() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.run()
    cluster.carried.clear()
    cluster.fail("a.1", cut={("c.1", "b.1")})  # c cannot acknowledge
    assert packets(cluster, "b.1", "c.1") == [[b"x"]] and not cluster.sent(w.Flushed, "b.1")
    assert cluster.story("b.1") == [b"x"]  # no failure GBCAST yet
    cluster.mend()
    assert cluster.sent(w.Flushed, "b.1") and cluster.story("b.1") == cluster.story("c.1") == [b"x", ("a.1/p",)]


def test_4_3_3_step_1_3_a_site_waits_until_abcasts_of_the_failed_are_deliverable() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", A, b"x", label="q")
    cluster.step()
    cluster.carried.clear()
    cluster.fail("a.1", cut={("c.1", "b.1")})  # b cannot complete it without c
    assert not cluster.sent(w.Flushed, "b.1")
    cluster.mend()
    assert cluster.story("b.1") == cluster.story("c.1") == [b"x", ("a.1/p",)]


def test_4_3_3_step_1_4_the_failure_gbcast_begins_when_all_have_answered() -> None:
    cluster = Cluster()
    cluster.fail("a.1", cut={("c.1", "b.1")})
    assert not cluster.sent(w.GbcastStart) and cluster.lives["b.1"].read_locks == 1
    cluster.mend()
    assert cluster.sent(w.GbcastStart, "b.1") and cluster.lives["b.1"].read_locks == 0


# --- 4.3.3 part 2 -----------------------------------------------------------------------------------------------------


def test_4_3_3_step_2_1_the_action_goes_to_all_members() -> None:
    cluster = Cluster()
    cluster.cast("a.1", G, b"now")
    cluster.step()
    assert [to for to, _ in cluster.sent(w.GbcastStart, "a.1")] == ["b.1", "c.1"]


def test_4_3_3_step_2_2_it_stands_in_all_queues_with_a_priority_above_all_that_is_there() -> None:
    cluster = Cluster()
    cluster.cut = {("b.1", "a.1")}
    cluster.cast("a.1", A, b"x", label="q")
    cluster.cast("a.1", A, b"y", label="other")
    cluster.cast("a.1", G, b"now")
    cluster.run()
    b = cluster.lives["b.1"].site
    (gbcast,) = [each for each in b.queue.values() if each.gbcast is not None]
    assert not gbcast.final and all(each.priority <= gbcast.priority for each in b.queue.values())
    heads, first = b.queue_heads()
    assert set(heads) == {"q", "other"} and not first  # in each it stands behind what is there


def test_4_3_3_step_2_3_all_get_the_maximum_and_none_delivers_it_then() -> None:
    cluster = Cluster()
    cluster.lives["c.1"].site.highest += 8
    highest = cluster.lives["c.1"].site.highest
    cluster.cut = {("c.1", "b.1"), ("b.1", "a.1")}
    cluster.cast("a.1", G, b"now")
    cluster.run()
    cluster.cut = {("b.1", "c.1"), ("c.1", "a.1")}
    cluster.run()
    assert not cluster.sent(w.GbcastCommit)
    cluster.mend()
    told = {(each.priority, each.suffix) for _, each in cluster.sent(w.GbcastPriority) if not each.answer}  # type: ignore[attr-defined]
    assert told == {(highest + 1, "c.1")}
    assert all(cluster.bodies(site) == [b"now"] for site in SITES)


def test_4_3_3_step_2_3_at_the_head_it_suspends_the_queue_behind_it() -> None:
    cluster = Cluster()
    cluster.cast("a.1", G, b"now")
    for _ in range(2):
        cluster.step()
    assert cluster.lives["b.1"].gbcasts.at_head
    cluster.cut = {("a.1", "b.1")}  # the commit does not come
    cluster.cast("b.1", A, b"behind", label="q")
    cluster.run()
    assert cluster.bodies("b.1") == []
    cluster.mend()
    assert cluster.bodies("b.1") == [b"now", b"behind"]


def test_4_3_3_step_2_4_part_3_waits_until_it_is_at_the_head_of_every_queue() -> None:
    cluster = Cluster()
    cluster.cut = {("c.1", "b.1")}  # b's ABCAST lacks the priority of c
    cluster.cast("b.1", A, b"before", label="q")
    cluster.run()
    cluster.cast("a.1", G, b"now")
    cluster.run()
    assert cluster.lives["a.1"].gbcasts.at_head == "" and not cluster.sent(w.GbcastCommit)
    cluster.mend()
    assert all(cluster.bodies(site) == [b"before", b"now"] for site in SITES)


# --- 4.3.3 part 3 -----------------------------------------------------------------------------------------------------


def at_part_3() -> Cluster:
    """A GBCAST of a at the head of all queues, and c cannot tell a that it is ready."""
    cluster = Cluster()
    cluster.cast("a.1", G, b"now")
    cluster.step()
    cluster.cut = {("c.1", "a.1")}
    cluster.run()
    assert all(life.gbcasts.at_head for life in cluster.lives.values())
    return cluster


def test_4_3_3_step_3_2_cbcasts_that_come_now_wait() -> None:
    cluster = at_part_3()
    cluster.cast("b.1", C, b"x")
    cluster.run()
    assert all(cluster.bodies(site) == [] for site in SITES)
    assert [each.body for each in cluster.lives["c.1"].cbcasts.waiting or []] == [b"x"]
    cluster.mend()
    assert all(cluster.bodies(site) == [b"now", b"x"] for site in SITES)


def test_4_3_3_step_3_3_what_a_member_delivered_it_sends_to_the_others_before_it_answers() -> None:
    """x comes to b when its GBCAST is under way, so that it did not travel along."""
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("b.1", G, b"now")
    cluster.cast("a.1", C, b"x")
    cluster.run()
    told = [type(body) for source, to, body in cluster.carried if (source, to) == ("b.1", "c.1")]
    assert told.index(w.GbcastStart) < told.index(w.Packet)
    assert packets(cluster, "b.1", "c.1") == [[b"x"]]
    assert [to for to, _ in cluster.sent(w.GbcastReady)] == ["b.1"]  # a cannot send it to c: only c has answered
    assert cluster.bodies("c.1") == [] and cluster.bodies("b.1") == [b"x"]
    cluster.mend()
    assert all(cluster.bodies(site) == [b"x", b"now"] for site in SITES)


def test_4_3_3_step_3_4_the_before_list_merges_those_of_all_members() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "b.1"), ("a.1", "c.1"), ("c.1", "b.1"), ("c.1", "a.1")}
    cluster.cast("a.1", C, b"of a")
    cluster.cast("c.1", C, b"of c")
    cluster.run()
    cluster.cast("b.1", G, b"now")
    cluster.mend()
    (commit,) = {body for _, body in cluster.sent(w.GbcastCommit)}
    assert len(commit.before) == 2  # type: ignore[attr-defined]
    assert all(cluster.bodies(site)[-1] == b"now" and len(cluster.bodies(site)) == 3 for site in SITES)


def test_4_3_3_a_member_that_fails_in_part_3_may_have_delivered_what_waits_at_the_others() -> None:
    """D-arrived: c delivers x and fails before it answers; a leaves by this GBCAST, and has x all the same."""
    cluster = Cluster()
    cluster.cut = {("b.1", "a.1")}
    cluster.cast("b.1", C, b"x", label="far", number=1)  # c has it, a not yet
    cluster.run()
    cluster.cut = {("b.1", "a.1"), ("c.1", "a.1")}
    cluster.lives["a.1"].ask(e.LeaveWanted(0, "p", "g"))
    cluster.lives["a.1"].settle(transmit=True)
    cluster.run()
    cluster.fail("c.1")
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == [b"x"]
    assert e.Left("a.1/p", "g") in cluster.heard["a.1"]


# --- 4.3.3 part 4 -----------------------------------------------------------------------------------------------------


def test_4_3_3_steps_4_1_and_4_2_the_wait_queue_up_to_the_before_list_goes_first() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"before", label="x", number=1)
    cluster.run()  # b has delivered it, c lacks it
    cluster.cut = {("a.1", "c.1"), ("b.1", "a.1")}
    cluster.cast("b.1", G, b"now")
    cluster.step()
    cluster.cut = {("a.1", "c.1")}
    while not cluster.lives["c.1"].gbcasts.at_head:
        cluster.step()
    cluster.cast("c.1", C, b"behind", label="y", number=1)
    cluster.mend()
    assert all(cluster.bodies(site) == [b"before", b"now", b"behind"] for site in SITES)


def test_4_3_3_step_4_1_what_the_failed_sent_goes_before_its_failure() -> None:
    """It waits for another GBCAST when the flush is done, and stands before the failure all the same."""
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"last words")
    cluster.run()
    cluster.cut = {("a.1", "c.1"), ("a.1", "b.1")}
    cluster.cast("b.1", G, b"now")
    cluster.step()
    cluster.fail("a.1")
    assert cluster.story("b.1") == cluster.story("c.1")
    assert cluster.story("c.1").index(b"last words") < cluster.story("c.1").index(("a.1/p",))


def test_4_3_3_step_4_3_the_wait_queue_ends_with_the_gbcast() -> None:
    cluster = at_part_3()
    cluster.cast("b.1", C, b"x")
    cluster.cast("a.1", G, b"another")
    cluster.mend()
    assert all(life.cbcasts.waiting is None and not life.gbcasts.at_head for life in cluster.lives.values())
    assert all(sorted(cluster.bodies(site)) == [b"another", b"now", b"x"] for site in SITES)


def test_4_3_3_step_4_4_abcasts_go_on_behind_it() -> None:
    cluster = at_part_3()
    cluster.cast("b.1", A, b"x", label="q")
    cluster.cut |= {("a.1", "c.1")}
    cluster.run()
    assert cluster.bodies("b.1") == []
    cluster.mend()
    assert all(cluster.bodies(site) == [b"now", b"x"] for site in SITES)


def test_4_3_3_if_it_fails_a_participant_begins_again_with_the_priority_that_one_knows() -> None:
    cluster = Cluster()
    cluster.cast("a.1", G, b"now")
    cluster.step()
    cluster.cut = {("a.1", "c.1")}  # b alone has the final priority
    cluster.run()
    (known,) = [each.priority for each in cluster.lives["b.1"].site.queue.values() if each.final]
    cluster.carried.clear()
    cluster.fail("a.1")
    told = {(each.priority, each.suffix) for _, each in cluster.sent(w.GbcastPriority) if not each.answer}  # type: ignore[attr-defined]
    assert known in told and cluster.story("b.1") == cluster.story("c.1") == [b"now", ("a.1/p",)]


def test_4_3_3_correctness_atomic_nobody_delivers_it_before_all_have_it() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", G, b"now")
    cluster.run()
    assert cluster.bodies("b.1") == [] == cluster.bodies("a.1")
    cluster.fail("a.1")
    assert cluster.story("b.1") == cluster.story("c.1") == [b"now", ("a.1/p",)]


def test_4_3_3_correctness_gbcasts_have_one_order() -> None:
    cluster = Cluster()
    for site in SITES:
        cluster.cast(site, G, site.encode())
    cluster.run()
    assert cluster.bodies("a.1") == cluster.bodies("b.1") == cluster.bodies("c.1") and len(cluster.bodies("a.1")) == 3


def test_4_3_3_correctness_what_leaves_the_wait_queue_early_does_not_upset_causal_order() -> None:
    """y precedes x, which c has delivered: the others deliver both before the GBCAST, in that order."""
    cluster = Cluster()
    cluster.cut = {("a.1", "b.1")}
    cluster.cast("a.1", C, b"y")
    cluster.run()
    cluster.cut = {("a.1", "b.1"), ("c.1", "b.1")}
    cluster.cast("c.1", C, b"x")
    cluster.run()
    cluster.cut = set()
    cluster.cast("b.1", G, b"now")
    cluster.run()
    assert all(cluster.bodies(site) == [b"y", b"x", b"now"] for site in SITES)


def test_4_3_3_locking_members_that_broadcast_while_the_group_grows_are_never_rejected() -> None:
    cluster = Cluster()
    cluster.cut = {("c.1", "a.1")}
    cluster.ask("b.1", e.JoinWanted(0, "second", "g"))
    cluster.run()
    assert cluster.lives["b.1"].site.locked
    cluster.cast("b.1", C, b"x")
    cluster.cast("b.1", A, b"y", label="q")
    cluster.run()
    assert not cluster.sent(w.Packet, "b.1")  # they wait
    cluster.mend()
    heard = [each for each in cluster.heard["b.1"] if isinstance(each, e.Deliver)]
    assert [each.body for each in heard] == [b"x", b"y"] and heard[0].processes == ("b.1/p", "b.1/second")


# --- 4.3.3, 1, 3.1 ----------------------------------------------------------------------------------------------------


def test_1_every_data_manager_sees_the_update_before_the_failure() -> None:
    """Of the three outcomes of section 1 only one is seen, and by all."""
    for cut in ((), (("a.1", "b.1"),), (("a.1", "b.1"), ("a.1", "c.1"))):
        cluster = Cluster()
        cluster.cut = set(cut)
        cluster.cast("a.1", C, b"update")
        cluster.run()
        cluster.fail("a.1")
        seen = [("a.1/p",)] if len(cut) == 2 else [b"update", ("a.1/p",)]
        assert cluster.story("b.1") == cluster.story("c.1") == seen


def test_4_3_3_a_gbcast_is_ordered_against_everything() -> None:
    cluster = Cluster()
    for place, site in enumerate(SITES):
        cluster.cast(site, A, b"a%d" % place, label=f"q{place}")
        cluster.cast(site, C, b"c%d" % place)
        cluster.cast(site, G, b"g%d" % place)
    cluster.run()
    parts = []
    for site in SITES:
        told = cluster.bodies(site)
        assert len(told) == 9
        marks = [place for place, body in enumerate(told) if body.startswith(b"g")]
        cuts = [0, *marks, len(told)]
        parts.append([frozenset(told[low:high]) for low, high in pairwise(cuts)])
    assert parts[0] == parts[1] == parts[2]


def test_3_6_a_gbcast_from_outside_has_one_place_among_all_messages() -> None:
    """Also when it met a member that its sender did not know: then it is tried again, with the view of the group."""
    cluster = Cluster()
    for site in ("b.1", "c.1"):
        cluster.ask(site, e.JoinWanted(0, "p", "h"))
        cluster.run()
        cluster.ask("a.1", e.BroadcastWanted(0, "q", "h", G, f"from outside to {site}".encode()))
        cluster.run()
    assert cluster.bodies("b.1") == [b"from outside to b.1", b"from outside to c.1"]
    assert cluster.bodies("c.1") == [b"from outside to c.1"]


def test_4_3_3_a_participant_restarts_a_gbcast() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", G, b"now")
    cluster.step()
    cluster.fail("a.1")
    assert cluster.story("b.1") == cluster.story("c.1") == [b"now", ("a.1/p",)]


def test_4_3_3_whoever_joins_has_the_view_before_any_other_member() -> None:
    """D-newcomer: else all others could deliver the view and fail, and the newcomer would not find it again."""
    cluster = Cluster()
    for site in ("b.1", "c.1"):
        cluster.ask(site, e.JoinWanted(0, "p", "h"))
        if site == "b.1":
            cluster.run()
    for _ in range(20):
        if cluster.lives["c.1"].gbcasts.at_head:
            break
        cluster.step()
    cluster.cut = {("a.1", "c.1")}
    cluster.run()
    assert cluster.lives["b.1"].site.groups["h"].members == ("b.1/p",)
    cluster.cut = set()
    cluster.run()
    assert cluster.lives["b.1"].site.groups["h"] == cluster.lives["c.1"].site.groups["h"]
    assert cluster.lives["c.1"].site.groups["h"].members == ("b.1/p", "c.1/p")


# --- 3.2 --------------------------------------------------------------------------------------------------------------


def improbable(*, uniform: bool) -> Cluster:
    """The exercise of 3.2: a alone has both ABCASTs with high priorities, delivers, and fails before anybody knows."""
    cluster = Cluster()
    cluster.lives["a.1"].site.highest += 5
    cluster.cut = {("b.1", "c.1")}
    cluster.cast("b.1", A, b"y", label="q", uniform=uniform)
    cluster.step()
    cluster.cast("a.1", A, b"x", label="q", uniform=uniform)
    cluster.step()
    cluster.cut = {("a.1", "b.1"), ("a.1", "c.1")}
    cluster.run()
    cluster.fail("a.1")
    return cluster


def test_3_2_the_replicated_queue_is_the_same_at_all_that_stay() -> None:
    for uniform in (False, True):
        cluster = improbable(uniform=uniform)
        assert cluster.bodies("b.1") == cluster.bodies("c.1") and sorted(cluster.bodies("b.1")) == [b"x", b"y"]


def test_3_2_the_improbable_order_of_a_process_that_fails_needs_the_extra_phase() -> None:
    without = improbable(uniform=False)
    assert without.bodies("a.1") == [b"y", b"x"] and without.bodies("b.1") == [b"x", b"y"]
    extra = improbable(uniform=True)
    assert b"x" not in extra.bodies("a.1")  # nobody delivers before all know the priority


# --- 4.4 --------------------------------------------------------------------------------------------------------------


def test_4_4_step_1_a_site_lists_what_is_disposable_to_all_and_holds_a_read_lock() -> None:
    cluster = Cluster()
    cluster.cast("a.1", C, b"x")
    cluster.cast("a.1", A, b"y", label="q")
    cluster.run()
    cluster.cut = {("b.1", "a.1")}
    a = cluster.lives["a.1"]
    a.collect()
    a.settle(transmit=True)
    cluster.run()
    lists = [(to, body.ids) for to, body in cluster.sent(w.Garbage, "a.1")]  # type: ignore[attr-defined]
    assert lists == [("b.1", tuple(a.site.store)), ("c.1", tuple(a.site.store))] and a.read_locks == 1
    cluster.mend()
    assert a.read_locks == 0


def test_4_4_step_2_a_site_adds_the_ids_empties_rem_dests_and_notes_who_runs_the_protocol() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.run()
    b = cluster.lives["b.1"]
    (known,) = b.cbcasts.buffer
    assert b.cbcasts.buffer[known].remaining == {"c.1"}
    b.collectors[0].on_garbage("a.1", w.Garbage(1, (known, "c.1:99")))
    b.settle(transmit=True)
    assert "c.1:99" in b.site.store  # (2a)
    assert not b.cbcasts.buffer[known].remaining  # (2b): no further copies
    assert all(b.site.store[id].disposable and b.site.store[id].dont_send == {"a.1"} for id in (known, "c.1:99"))
    cluster.step()
    assert ("a.1", w.Garbage(1, (), answer=True)) in cluster.sent(w.Garbage, "b.1")


def test_4_4_step_2_a_site_that_has_not_delivered_what_is_listed_answers_later() -> None:
    """D-late: x waits for a GBCAST there."""
    cluster = at_part_3()
    cluster.cast("b.1", C, b"x")
    cluster.run()
    (id,) = cluster.lives["b.1"].cbcasts.buffer
    c = cluster.lives["c.1"]
    c.collectors[0].on_garbage("b.1", w.Garbage(1, (id,)))
    c.settle(transmit=True)
    cluster.run()
    assert not cluster.sent(w.Garbage, "c.1")
    cluster.mend()
    assert cluster.sent(w.Garbage, "c.1")


def test_4_4_step_3_an_id_is_deleted_when_all_operational_sites_have_answered() -> None:
    cluster = Cluster()
    cluster.cast("a.1", C, b"x")
    cluster.run()
    cluster.cut = {("c.1", "a.1")}
    a = cluster.lives["a.1"]
    (id,) = a.cbcasts.buffer
    a.collect()
    a.settle(transmit=True)
    cluster.run()
    assert id in a.site.store
    cluster.fail("c.1")
    assert id not in a.site.store and not a.cbcasts.delivered and not a.cbcasts.buffer


def test_4_4_a_site_that_is_in_dont_send_gets_no_list() -> None:
    cluster = Cluster()
    cluster.cast("a.1", C, b"x")
    cluster.run()
    for site in SITES:
        cluster.carried.clear()
        cluster.lives[site].collect()
        cluster.lives[site].settle(transmit=True)
        cluster.run()
        lists = [to for to, body in cluster.sent(w.Garbage, site) if body.ids]  # type: ignore[attr-defined]
        assert lists == [other for other in SITES if other > site]
    assert all(not life.site.store for life in cluster.lives.values())


def test_4_4_correctness_no_copy_is_taken_behind_the_deletion() -> None:
    cluster = Cluster()
    cluster.cast("a.1", C, b"x")
    cluster.cast("b.1", A, b"y", label="q")
    cluster.run()
    for _ in range(4):
        cluster.collect()
    for life in cluster.lives.values():
        assert not life.site.store and not life.cbcasts.buffer and not life.cbcasts.delivered
    old = w.Causal("a.1:1", "a.1/p", "g", w.Label("", 1), ("c.1/p",), ("c.1",), b"x")
    told = len(cluster.bodies("c.1"))
    c = cluster.lives["c.1"]
    c.cbcasts.on_packet("a.1", w.Packet((old,)))
    c.settle(transmit=True)
    cluster.run()
    assert len(cluster.bodies("c.1")) == told and not c.site.store


# --- 4.5, 3.6 ---------------------------------------------------------------------------------------------------------


def test_4_5_flush_waits_until_all_is_sent() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.ask("a.1", e.FlushWanted(0, 7))
    cluster.run()
    assert e.FlushDone(7) not in cluster.heard["a.1"]
    cluster.mend()
    assert e.FlushDone(7) in cluster.heard["a.1"]


def test_4_5_flush_is_for_what_others_sent_too_if_this_process_may_depend_on_it() -> None:
    cluster = Cluster()
    cluster.cut = {("a.1", "c.1"), ("b.1", "c.1")}
    cluster.cast("a.1", C, b"x")
    cluster.run()
    cluster.ask("b.1", e.FlushWanted(0, 7))
    cluster.run()
    assert e.FlushDone(7) not in cluster.heard["b.1"]
    cluster.cut = {("a.1", "c.1")}
    cluster.run()
    assert e.FlushDone(7) in cluster.heard["b.1"] and cluster.bodies("c.1") == [b"x"]


def test_4_5_a_new_address_of_a_group_is_used_when_nothing_sent_by_the_old_one_can_be_rejected() -> None:
    """The three broadcasts of 3.6: A is rejected, B not yet, and C waits behind both."""
    cluster = Cluster()
    outside = e.BroadcastWanted(0, "q", "h", C, b"", "x", 1)
    cluster.ask("b.1", e.JoinWanted(0, "p", "h"))
    cluster.run()
    cluster.ask("a.1", msgspec.structs.replace(outside, body=b"0"))
    cluster.run()
    cluster.ask("c.1", e.JoinWanted(0, "p", "h"))
    cluster.run()
    cluster.cut = {("b.1", "a.1")}
    cluster.ask("a.1", msgspec.structs.replace(outside, body=b"A", number=2))
    cluster.run()
    cluster.ask("a.1", msgspec.structs.replace(outside, body=b"B", number=3))
    cluster.cut = {("a.1", "b.1")}
    cluster.run()
    waiting = cluster.lives["a.1"].sending
    assert len(waiting.outside["h"].rejected) == 1 and len(waiting.outside["h"].open) == 1
    cluster.ask("a.1", msgspec.structs.replace(outside, body=b"C", number=4))
    assert [each.body for each in waiting.waiting] == [b"C"]
    cluster.mend()
    assert cluster.bodies("b.1") == [b"0", b"A", b"B", b"C"] and cluster.bodies("c.1") == [b"A", b"B", b"C"]


# --- 4.1, 3.5 ---------------------------------------------------------------------------------------------------------


def test_4_1_at_most_a_window_is_under_way_and_it_arrives_in_order() -> None:
    cluster = Cluster()
    cluster.cut = {("c.1", "a.1")}
    for number in range(WINDOW_MAX + 10):
        cluster.cast("a.1", C, b"%d" % number, number=-1)
    cluster.run()
    assert len(cluster.bodies("c.1")) == WINDOW_MAX
    cluster.mend()
    assert cluster.bodies("c.1") == [b"%d" % number for number in range(WINDOW_MAX + 10)]


def test_4_1_a_message_is_sent_when_it_is_acknowledged_or_its_destination_fails() -> None:
    for fails in (False, True):
        cluster = Cluster()
        cluster.cut = {("c.1", "a.1")}
        cluster.cast("a.1", C, b"x")
        cluster.run()
        (buffered,) = cluster.lives["a.1"].cbcasts.buffer.values()
        assert buffered.remaining == {"c.1"}
        if fails:
            cluster.fail("c.1")
        cluster.mend()
        assert not buffered.remaining


def test_4_1_a_frame_that_is_lost_is_sent_again_when_nothing_came_on_between_two_hellos() -> None:
    cluster = Cluster()
    a, c = cluster.lives["a.1"].site.channels, cluster.lives["c.1"].site.channels
    cluster.cast("a.1", C, b"x")
    assert len(a.pump()) == 2  # lost on the way
    for _ in range(2):
        a.receive(w.Frame("c.1", "a.1", 0, c.peers["a.1"].received, (1,), w.Hello(True, 1)))
    cluster.run()
    assert cluster.bodies("c.1") == [b"x"] and cluster.bodies("b.1") == []


def kernel_of_c() -> Kernel:
    """It is in a site view with a and b, and in touch with both."""
    kernel = Kernel(DaemonId("d", 1), IsisSettings("c", NAMES))
    kernel.views.life = 1
    kernel.views.learn((w.SiteView(1, ("a.1", "c.1"), (("a", 1), ("b", 2), ("c", 1))),))
    kernel._conclude(0)
    return kernel


def test_4_1_messages_of_a_failed_incarnation_are_discarded_and_it_is_told_that_it_is_dead() -> None:
    kernel = kernel_of_c()
    kernel._on_frame(w.Frame("b.2", "c.1", 0, 0, (1,), w.Hello(True, 1)), 10)
    assert kernel.views.said == [("b.2", w.Dead(1))]


def test_4_1_messages_to_another_incarnation_are_discarded() -> None:
    kernel = kernel_of_c()
    assert kernel.life is not None
    packet = w.Packet((w.Causal("a.1:1", "a.1/p", "g", w.Label("", 1), (), (), b""),))
    kernel._on_frame(w.Frame("a.1", "c.7", 1, 0, (1,), packet), 10)
    assert kernel.life.site.channels.peers["a.1"].received == 0 and not kernel.life.site.channels.inbox
    kernel._on_frame(w.Frame("a.1", "c.1", 1, 0, (1,), packet), 10)
    assert kernel.life.site.channels.peers["a.1"].received == 1


def test_4_1_a_failure_reply_comes_for_whoever_will_not_answer() -> None:
    cluster = Cluster()
    cluster.cast("a.1", A, b"call", label="q", token=3, call=True)
    cluster.run()
    call = next(each for each in cluster.heard["b.1"] if isinstance(each, e.Deliver))
    cluster.ask("b.1", e.AnswerGiven(0, "p", call.message, b"yes"))
    cluster.run()
    cluster.fail("c.1")
    answers = [each for each in cluster.heard["a.1"] if isinstance(each, e.AnswerHeard)]
    assert [(each.process, each.failed) for each in answers] == [("b.1/p", False), ("c.1/p", True)]
