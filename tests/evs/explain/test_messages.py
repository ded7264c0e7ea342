"""Why is this message not delivered: real situations, and what the daemon says about them."""

from __future__ import annotations

import msgspec

from isotone.cli.causes import causes_of
from isotone.core.contract import Address
from isotone.core.ids import ClientId, DaemonId, MessageId, Stamp
from isotone.core.services import Service
from isotone.evs.explain import MessageStage, Wait
from isotone.evs.groups import State as GroupsState
from isotone.evs.membership import MembershipSettings, State
from isotone.evs.transport.settings import TransportSettings
from isotone.sim.workload import JoinStep
from tests.evs.explain.house import House

# --- the agreed line -------------------------------------------------------------------------------------------------


def test_an_agreed_message_waits_for_the_line_of_a_site_that_is_cut_off() -> None:
    house = House("ab c d").start()
    house.world.partition("abd", "c")
    sent_at = house.now("a")
    message = house.send("a", Service.AGREED)
    house.run(80)
    for name in "abd":
        answer = house.message(name, message)
        assert answer.place is MessageStage.WAITING
        assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.LINE, "c")], answer.text
        assert "the line of site c is missing" in answer.text
    (blocker,) = house.message("a", message).blockers
    assert blocker.since is not None and 0 <= blocker.since - sent_at < 1_000, "when the site of a last promised"
    assert blocker.daemons == ("c",)
    assert blocker.until is not None and blocker.until > house.now("a")
    assert house.message("c", message).place is MessageStage.UNKNOWN


def test_the_same_message_by_its_stamp_until_it_is_delivered() -> None:
    house = House("ab c d").start()
    message = house.send("a", Service.AGREED)
    house.run(2)
    stamp = house.unit_stamp("a", message)
    for name, place in (
        ("a", MessageStage.WAITING),
        ("b", MessageStage.WAITING),
        ("c", MessageStage.MISSING),
        ("d", MessageStage.MISSING),
    ):
        assert house.message(name, stamp).place is place, house.message(name, stamp).text
    assert house.message("c", stamp).blockers[0].site == "ab"
    house.run(200)
    for name in "abcd":
        assert house.message(name, stamp).place is MessageStage.DELIVERED
    assert house.message("a", message).place is MessageStage.DELIVERED


def test_two_lines_are_missing_and_the_one_that_holds_the_agreed_line_is_named_first() -> None:
    house = House("a b c").start()
    house.world.partition("a", "bc")
    message = house.send("a", Service.AGREED)
    house.run(60)
    assert [(each.wait, each.site) for each in house.message("a", message).blockers] == [
        (Wait.LINE, "b"),
        (Wait.LINE, "c"),
    ]


def test_since_when_survives_progress_of_the_stable_line() -> None:
    """What a line waits for is dated by its own last move, not by that of the other line."""
    house = House("a b c").start()
    earlier = house.send("b", Service.RELIABLE)
    house.run(11)
    house.world.cut("c", "a")
    sent_at = house.now("a")
    message = house.send("a", Service.AGREED)
    house.run(60)
    blockers = house.message("a", message).blockers
    assert [(each.wait, each.site) for each in blockers] == [(Wait.LINE, "c")]
    assert blockers[0].since is not None and blockers[0].since <= sent_at + 21_000
    assert house.message("a", earlier).place in (MessageStage.DELIVERED, MessageStage.UNKNOWN)


# --- SAFE ------------------------------------------------------------------------------------------------------------


def test_a_safe_message_waits_for_the_acknowledgement_of_a_paused_member_of_the_own_site() -> None:
    house = House("ab c").start()
    house.world.pause("b")
    message = house.send("a", Service.SAFE)
    house.run(100)
    answer = house.message("a", message)
    assert answer.place is MessageStage.WAITING
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.ACKNOWLEDGEMENT, "ab")], answer.text
    assert "b was heard" in answer.text


def test_a_safe_message_names_the_far_site_that_holds_it_and_holds_what_is_behind_it() -> None:
    """b does not hear d, so it cannot have everything; a hears all of them."""
    house = House("a b c d").start()
    house.world.cut("d", "b", one_way=True)
    safe = house.send("a", Service.SAFE)
    behind = house.send("a", Service.AGREED)
    house.run(100)
    answer = house.message("a", safe)
    assert answer.place is MessageStage.WAITING
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.ACKNOWLEDGEMENT, "b")], answer.text
    assert answer.blockers[0].since is not None
    answer = house.message("a", behind)
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.ORDER, "a"), (Wait.ACKNOWLEDGEMENT, "b")]
    assert "stands before it and waits" in answer.text


def test_what_is_delivered_and_kept_names_who_has_not_acknowledged() -> None:
    house = House("a b c d").start()
    house.world.cut("d", "b", one_way=True)
    message = house.send("a", Service.AGREED)
    house.run(100)
    answer = house.message("a", message)
    assert answer.place is MessageStage.DELIVERED
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.ACKNOWLEDGEMENT, "b")], answer.text


# --- sequences, sessions, past ---------------------------------------------------------------------------------------


def test_a_lost_unit_holds_up_its_session_and_is_named() -> None:
    house = House("a b c").start()
    house.world.cut("c", "a", one_way=True)
    first = house.send("c", Service.FIFO)
    house.run(5)
    house.world.heal()
    second = house.send("c", Service.FIFO)
    house.run(12)
    answer = house.message("a", second)
    assert answer.place is MessageStage.WAITING
    assert [each.wait for each in answer.blockers] == [Wait.SESSION, Wait.SEQUENCE], answer.text
    gap = house.network("a").transport.delivery.lines.sites[2].contiguous + 1
    assert [each.sequence for each in answer.blockers] == [gap, gap]
    assert house.message("a", first).blockers[0].wait is Wait.SEQUENCE
    stamp = house.unit_stamp("c", first)
    missing = house.message("a", stamp)
    assert missing.place is MessageStage.MISSING
    assert [(each.wait, each.sequence) for each in missing.blockers] == [(Wait.SEQUENCE, gap)]
    house.until(lambda: house.message("c", second).place is MessageStage.DELIVERED)


def test_fifo_behind_agreed_names_the_line_that_the_session_waits_for() -> None:
    house = House("ab c d").start()
    house.world.partition("abd", "c")
    house.send("b", Service.AGREED)
    message = house.send("b", Service.FIFO)
    house.run(60)
    answer = house.message("d", message)
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.SESSION, "ab"), (Wait.LINE, "c")]


def test_a_causal_message_waits_for_the_agreed_one_in_its_past() -> None:
    """a misses the line of c, which d has: d delivers, answers, and a has to wait with the answer."""
    house = House("a c d").start()
    house.world.cut("c", "a", one_way=True)
    question = house.send("a", Service.AGREED)
    house.run(60)
    assert house.message("d", question).place is MessageStage.DELIVERED
    answer = house.send("d", Service.CAUSAL)
    house.run(15)
    said = house.message("a", answer)
    assert said.place is MessageStage.WAITING
    assert [(each.wait, each.site) for each in said.blockers] == [(Wait.PAST, ""), (Wait.LINE, "c")], said.text
    assert f"the agreed unit {house.message('a', question).stamp} is in its past" in said.text


def test_a_causal_message_waits_for_a_weak_one_in_its_past() -> None:
    house = House("a c d").start()
    house.world.cut("c", "a", one_way=True)
    gap = house.network("a").transport.delivery.lines.sites[1].contiguous + 1
    house.send("c", Service.RELIABLE)
    house.run(15)
    answer = house.send("d", Service.CAUSAL)
    house.run(15)
    said = house.message("a", answer)
    assert [(each.wait, each.site, each.sequence) for each in said.blockers] == [(Wait.PAST, "c", gap)], said.text


# --- before the stamp ------------------------------------------------------------------------------------------------


def test_a_message_waits_for_the_token_that_a_paused_member_has() -> None:
    house = House("ab c").start()
    house.world.pause("b")
    house.send("a", Service.SAFE)  # after which the token goes to b
    message = house.send("a", Service.AGREED)
    house.run(50)
    answer = house.message("a", message)
    assert answer.place is MessageStage.UNSTAMPED
    assert [(each.wait, each.daemons) for each in answer.blockers] == [(Wait.TOKEN, ("b",))], answer.text
    assert "the token was handed to b" in answer.text and "b was heard" in answer.text


def test_a_full_window_names_the_site_that_does_not_acknowledge() -> None:
    narrow = MembershipSettings(transport=TransportSettings(site_window_bytes=4_000))
    house = House("a c d", settings=narrow).start()
    house.world.partition("ad", "c")
    messages = [house.send("a", Service.AGREED, 1_000) for _ in range(8)]
    house.run(60)
    assert house.message("a", messages[0]).place is MessageStage.WAITING
    answer = house.message("a", messages[-1])
    assert answer.place is MessageStage.UNSTAMPED
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.WINDOW, ""), (Wait.LINE, "c")]
    assert answer.groups == house.message("a", messages[0]).groups == ("g",)
    (cause,) = causes_of([], answers={"a": msgspec.to_builtins(answer, enc_hook=str)})
    assert cause.kind == "full window" and cause.text.startswith("the window of a is full, ")
    assert "bytes of this daemon are not everywhere" in cause.text and "the line of site c is missing" in cause.text
    assert "3 of its session before it" in answer.text


def test_a_full_link_is_named_at_the_gateway_and_the_gateway_elsewhere() -> None:
    house = House("ab c").start()
    house.world.partition("ab", "c")
    many = [house.send("a", Service.AGREED, 60_000) for _ in range(40)]
    house.send("b", Service.AGREED)
    house.run(40)
    answer = house.message("a", many[-1])
    assert answer.place is MessageStage.UNSTAMPED
    assert [each.wait for each in answer.blockers] == [Wait.LINK]
    assert "ab~c" in answer.text
    message = house.send("b", Service.AGREED)
    house.run(10)
    answer = house.message("b", message)
    assert answer.place is MessageStage.UNSTAMPED
    assert [(each.wait, each.daemons) for each in answer.blockers] == [(Wait.LINK, ("a",))], answer.text


def test_a_large_message_is_found_by_its_id() -> None:
    house = House("a b").start()
    message = house.send("a", Service.AGREED, 300_000)
    house.run(1)
    assert house.message("a", message).place in (MessageStage.UNSTAMPED, MessageStage.WAITING)
    house.until(lambda: house.message("b", message).place in (MessageStage.MISSING, MessageStage.WAITING))
    house.until(lambda: house.message("a", message).place is MessageStage.DELIVERED)


# --- between daemon views --------------------------------------------------------------------------------------------


def test_a_message_of_a_daemon_view_that_ended_is_owed_and_then_delivered() -> None:
    house = House("a b c").start()
    house.world.crash("c")
    message = house.send("a", Service.AGREED)
    house.until(lambda: house.stack("a").membership.state is not State.OP)
    late = house.send("a", Service.AGREED)
    answer = house.message("a", message)
    assert answer.place is MessageStage.OWED
    assert [each.wait for each in answer.blockers] == [Wait.DAEMON_VIEW]
    assert house.message("a", house.unit_stamp("a", message)).place is MessageStage.OWED
    answer = house.message("a", late)
    assert answer.place is MessageStage.QUEUED
    assert answer.blockers[0].wait is Wait.DAEMON_VIEW and answer.blockers[0].until is not None
    house.until(lambda: house.is_together("ab"))
    house.run(100)
    assert house.message("a", message).place is MessageStage.DELIVERED
    assert house.message("a", late).place is MessageStage.DELIVERED


def test_gathering_groups_holds_messages_and_names_whose_groups_are_missing() -> None:
    house = House("a b c").start()
    house.world.partition("ab", "c")
    house.until(lambda: house.is_together("ab"))
    house.world.heal()
    house.until(lambda: house.stack("a").membership.state is State.STATETRANS)
    early = house.send("a", Service.RELIABLE)
    house.until(lambda: house.stack("a").groups.state is GroupsState.GGATHER)
    late = house.send("a", Service.RELIABLE)
    held, queued = house.message("a", early), house.message("a", late)
    assert held.place is MessageStage.HELD
    assert queued.place is MessageStage.QUEUED
    for answer in (held, queued):
        assert {each.wait for each in answer.blockers} == {Wait.GROUPS}
        assert "c" in [name for each in answer.blockers for name in each.daemons]
    assert house.view("a").groups_missing == tuple(name for each in held.blockers for name in each.daemons)
    house.until(house.is_together)
    assert house.message("a", late).place in (MessageStage.DELIVERED, MessageStage.UNSTAMPED)


def test_what_stands_behind_a_join_waits_for_it() -> None:
    house = House("a c d").start()
    house.world.cut("c", "a", one_way=True)
    house.step(JoinStep(0, "a", "a", "h"))
    house.run(60)
    assert house.stack("a").groups.desk.joining
    message = house.send("d", Service.RELIABLE, group="h")
    house.run(15)
    answer = house.message("a", message)
    assert answer.place is MessageStage.WAITING
    assert [(each.wait, each.site) for each in answer.blockers] == [(Wait.JOIN, ""), (Wait.LINE, "c")], answer.text
    assert "behind the join, leave or kill" in answer.text


# --- what is not there -----------------------------------------------------------------------------------------------


def test_what_was_never_sent_is_unknown_with_what_that_can_mean() -> None:
    house = House("a b").start()
    sent = house.send("a", Service.AGREED)
    house.run(100)
    client, daemon = sent.sender, sent.sender.daemon
    unsent = house.message("a", MessageId(client, 2))
    assert unsent.place is MessageStage.UNKNOWN
    assert "whose next message is 2" in unsent.text
    assert "no such session" in house.message("a", MessageId(ClientId(daemon, "zoe", 1), 1)).text
    foreign = house.message("b", MessageId(client, 2))
    assert foreign.place is MessageStage.UNKNOWN and "not sent yet" in foreign.text
    assert "stamped nothing of that time" in house.message("a", Stamp(10**9, daemon)).text
    assert house.message("b", Stamp(10**9, daemon)).place is MessageStage.MISSING
    assert "another start of it" in house.message("a", Stamp(5, DaemonId("b", 9))).text
    assert "not known" in house.message("a", Stamp(5, DaemonId("z", 1))).text


def test_a_message_that_was_pruned_here_left_its_place_in_the_order() -> None:
    house = House("a b c", pruning=True).start()
    house.step(JoinStep(0, "a", "a", "h"))
    house.run(100)
    message = house.send("b", Service.RELIABLE, group="h")
    house.run(2)
    stamp = house.unit_stamp("b", message)
    house.until(lambda: house.message("c", stamp).place is MessageStage.DELIVERED)
    assert "no client of this site was in its groups" in house.message("c", stamp).text
    near = house.message("a", stamp)
    assert near.place is MessageStage.DELIVERED and "no client" not in near.text


def test_every_message_of_a_bundle_has_the_same_answer() -> None:
    house = House("a b").start()
    first = house.send("a", Service.AGREED, 5, 6, 7)
    house.run(1)
    answers = [house.message("a", MessageId(first.sender, first.sequence + place)) for place in range(4)]
    assert [answer.place for answer in answers[:3]] == [MessageStage.WAITING] * 3
    assert answers[3].place is MessageStage.UNKNOWN
    assert len({answer.stamp for answer in answers[:3]}) == 1


def test_an_address_is_no_part_of_an_answer_and_encoding_is_stable() -> None:
    house = House("a b").start()
    message = house.send("a", Service.AGREED)
    house.run(1)
    encoded = msgspec.json.encode(house.message("a", message))
    assert encoded == msgspec.json.encode(house.message("a", message))
    assert Address("b.1").encode() not in encoded
