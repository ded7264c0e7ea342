"""Memory and turns: clients that do not read, clients that write too much, a group service without room."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import CloseStream, Started, Stopping, StreamWritable
from isotone.core.services import Service
from isotone.daemon.spread import GatewaySettings
from isotone.daemon.spread.constants import PARCEL_OVERHEAD
from isotone.evs.sessions.notices import GroupsHeld, RoomChanged
from isotone.evs.sessions.settings import SlowPolicy
from tests.daemon.spread.house import Guest, House
from tests.spread_client.protocol import AGREED, FIFO, SpreadClient

SMALL = GatewaySettings(buffer_bytes_max=20_000, inbox_bytes_max=4_000, write_bytes_max=1_000)
BLOCK = GatewaySettings(buffer_bytes_max=20_000, policy=SlowPolicy.BLOCK, write_bytes_max=1_000)


def stick(guest: Guest) -> None:
    """The client reads nothing any more."""
    guest.house.booth(guest.daemon).stuck.add(guest.stream)


def sends(house: House) -> list[b4.Send]:
    return [each.request for each in house.booth().asked if isinstance(each.request, b4.Send)]


# --- slow readers --------------------------------------------------------------------------------------------------


def test_a_slow_reader_is_ended_and_others_go_on() -> None:
    house = House(settings=SMALL)
    slow, quick = house.joined("slow", "quick")
    stick(slow)
    sent = 0
    while not slow.is_ended and sent < 60:
        sent += 1
        quick.write(quick.client.multicast(FIFO, "g1", bytes(1000)))
        quick.expect()
        assert house.gateway().held_bytes <= 20_000 + 2 * (1080 + PARCEL_OVERHEAD)
    assert slow.is_ended
    assert 15 < sent < 25
    assert house.gateway().counters.warnings == 1
    assert house.gateway().held_bytes == 0
    assert quick.expect_view().type == 0x1400
    (remark,) = house.booth().remarks
    assert (remark.code, "20000" in remark.reason) == ("slow", True)


def test_one_frame_alone_is_never_too_much() -> None:
    house = House(settings=SMALL)
    (slow,) = house.joined("slow")
    stick(slow)
    native = house.native()
    native.send(Service.AGREED, ("g1",), bytes(100_000))
    house.until(lambda: house.gateway().held_bytes > 100_000)
    assert not slow.is_ended
    native.send(Service.AGREED, ("g1",), b"x")
    house.until(lambda: slow.is_ended)


def test_a_reader_that_catches_up_stays() -> None:
    house = House(settings=SMALL)
    (slow,) = house.joined("slow")
    native = house.native()
    stick(slow)
    for n in range(15):
        native.send(Service.AGREED, ("g1",), bytes((n,)) * 1000)
    house.booth().stuck.clear()
    house.tell("d1", StreamWritable(0, slow.stream))
    assert [slow.expect().data[0] for _ in range(15)] == list(range(15))
    assert house.gateway().held_bytes == 0


def test_what_several_hear_is_encoded_and_held_once() -> None:
    house = House()
    guests = house.joined(*(f"u{n}" for n in range(10)))
    for guest in guests:
        stick(guest)
    house.native().send(Service.AGREED, ("g1",), bytes(5000))
    house.native()
    before = house.gateway().counters.encoded
    house.until(lambda: house.gateway().held_bytes > 0)
    assert house.gateway().held_bytes == 5080 + PARCEL_OVERHEAD
    assert house.gateway().counters.encoded == before


def test_a_writer_of_what_is_rejected_must_read_it() -> None:
    house = House(settings=SMALL, permit=lambda principal, request: "no")
    alice = house.connect("alice")
    stick(alice)
    for _ in range(100):
        if not alice.is_ended:
            alice.write(alice.client.multicast(FIFO, "g1", bytes(1000)))
    assert alice.is_ended
    assert house.gateway().held_bytes == 0


def test_all_buffers_together_have_a_bound_and_who_holds_most_goes() -> None:
    house = House(settings=GatewaySettings(buffers_bytes_max=30_000))
    for group in ("a", "b"):
        (guest,) = house.joined(f"u{group}", group=group)
        stick(guest)
    native = house.native()
    for n in range(40):
        native.send(Service.AGREED, ("a" if n % 3 else "b",), bytes(1000))
    house.until(lambda: house.gateway().sessions == 1)
    assert house.gateway().counters.ended == {"memory": 1}
    assert house.gateway().clients[0].name == "ub"


def test_block_holds_senders_to_the_groups_of_the_reader_until_it_reads() -> None:
    house = House(settings=BLOCK)
    slow, quick = house.joined("slow", "quick")
    (other,) = house.joined("other", group="g2")
    stick(slow)
    for _ in range(40):
        quick.write(quick.client.multicast(FIFO, "g1", bytes(1000)))
    house.world.run_for(1_000_000)
    assert [client.name for client in house.gateway().blocking] == ["slow"]
    assert house.gateway().blocked_groups == {"g1", "#slow#d1"}
    handed_on = len(sends(house))
    assert 15 < handed_on < 25
    other.write(other.client.multicast(FIFO, "g2", b"not held"))
    assert other.expect().data == b"not held"
    house.booth().stuck.clear()
    house.tell("d1", StreamWritable(0, slow.stream))
    assert [len(slow.expect().data) for _ in range(40)] == [1000] * 40
    assert house.gateway().blocking == ()
    assert not slow.is_ended


def test_a_blocked_reader_is_ended_at_twice_the_bound() -> None:
    house = House(settings=BLOCK)
    (slow,) = house.joined("slow")
    stick(slow)
    native = house.native()
    for _ in range(60):
        native.send(Service.AGREED, ("g1",), bytes(1000))
    house.until(lambda: slow.is_ended)
    assert house.gateway().blocked_groups == frozenset()


def test_groups_may_have_policies_of_their_own() -> None:
    settings = GatewaySettings(buffer_bytes_max=5_000, policy=SlowPolicy.BLOCK, policies={"hot": SlowPolicy.DISCONNECT})
    house = House(settings=settings)
    slow, hot = house.joined("slow", group="cold")[0], house.joined("hot", group="hot")[0]
    stick(slow)
    stick(hot)
    native = house.native()
    for group in ("hot", "cold"):
        for _ in range(7):
            native.send(Service.AGREED, (group,), bytes(1000))
    house.until(lambda: hot.is_ended)
    assert not slow.is_ended


def test_the_policy_of_a_reader_goes_before_that_of_the_group() -> None:
    settings = GatewaySettings(
        buffer_bytes_max=5_000,
        policy=SlowPolicy.BLOCK,
        policies={"cold": SlowPolicy.BLOCK, "hot": SlowPolicy.DISCONNECT},
        client_policies={"weak": SlowPolicy.DISCONNECT, "dear": SlowPolicy.BLOCK},
    )
    house = House(settings=settings)
    weak, dear = house.joined("weak", group="cold")[0], house.joined("dear", group="hot")[0]
    stick(weak)
    stick(dear)
    native = house.native()
    for group in ("hot", "cold"):
        for _ in range(7):
            native.send(Service.AGREED, (group,), bytes(1000))
    house.until(lambda: weak.is_ended)
    assert not dear.is_ended


# --- room ----------------------------------------------------------------------------------------------------------


def test_without_room_requests_wait_in_order_and_the_stream_is_not_read() -> None:
    house = House(settings=SMALL)
    (alice,) = house.joined("alice")
    house.tell("d1", RoomChanged(0, 0))
    for n in range(6):
        alice.write(alice.client.multicast(FIFO if n % 2 else AGREED, "g1", bytes((n,)) * 1000))
    assert sends(house) == []
    assert house.booth().paused == {alice.stream}
    assert house.gateway().counters.paused == 1
    house.tell("d1", RoomChanged(0, 1))
    assert len(sends(house)) == 1
    assert house.booth().paused == {alice.stream}
    house.tell("d1", RoomChanged(0, 100_000))
    assert house.booth().paused == set()
    assert [alice.expect().data[0] for _ in range(6)] == list(range(6))


def test_the_room_is_used_up_until_it_is_told_anew() -> None:
    house = House()
    (alice,) = house.joined("alice")
    house.tell("d1", RoomChanged(0, 2_000))
    for n in range(4):
        alice.write(alice.client.multicast(AGREED, "g1", bytes((n,)) * 1000))
    assert len(sends(house)) == 2
    house.tell("d1", RoomChanged(0, 2_000))
    assert [each.bundle.count for each in sends(house)] == [1, 1, 2]


def test_sessions_are_served_in_turn() -> None:
    house = House()
    guests = house.joined("a", "b", "c")
    house.tell("d1", RoomChanged(0, 0))
    for guest in guests:
        for service in (FIFO, AGREED, FIFO):
            guest.write(guest.client.multicast(service, "g1", bytes(100)))
    for _ in range(9):
        house.tell("d1", RoomChanged(0, 1))
    assert [each.client.name for each in house.booth().asked if isinstance(each.request, b4.Send)] == list("abcabcabc")


def test_joins_wait_too_and_an_end_waits_behind_what_was_sent() -> None:
    house = House()
    alice, bob = house.joined("alice", "bob")
    house.tell("d1", RoomChanged(0, 0))
    alice.write(alice.client.multicast(AGREED, "g1", b"last") + alice.client.join("g2") + alice.client.disconnect())
    assert alice.is_ended
    bob.expect_nothing()
    assert house.gateway().sessions == 2
    again = house.guest(client := SpreadClient("alice"))
    again.write(client.hello())
    assert again.raw() == [b"\xfa"]
    house.tell("d1", RoomChanged(0, 10_000))
    assert bob.expect().data == b"last"
    assert bob.expect_view().type == 0x1400
    assert house.connect("alice").client.state == "open"


def test_groups_that_others_hold_are_held_here() -> None:
    house = House()
    (alice,) = house.joined("alice")
    house.tell("d1", GroupsHeld(0, ("g1",)))
    alice.write(alice.client.multicast(AGREED, "g1", b"x"))
    alice.expect_nothing()
    house.tell("d1", GroupsHeld(0, ()))
    assert alice.expect().data == b"x"


def test_an_unfinished_frame_is_no_reason_to_stop_reading() -> None:
    house = House(settings=SMALL)
    (alice,) = house.joined("alice")
    frame = alice.client.multicast(AGREED, "g1", bytes(100_000))
    alice.write(frame[:90_000])
    assert house.booth().paused == set()
    alice.write(frame[90_000:])
    assert len(alice.expect().data) == 100_000


# --- all of it together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_left_whatever_comes_together(seed: int) -> None:
    choice = Choice(f"load/{seed}")
    policy = choice.pick(list(SlowPolicy))
    settings = GatewaySettings(
        buffer_bytes_max=6_000, buffers_bytes_max=20_000, inbox_bytes_max=3_000, write_bytes_max=500, policy=policy
    )
    house = House(settings=settings, permit=lambda principal, request: "no" if choice.chance(0.1) else "")
    booth, gateway = house.booth(), house.gateway()
    guests: list[Guest] = []
    for step in range(400):
        guests = [guest for guest in guests if not guest.is_ended]
        if len(guests) < 4:
            guests.append(house.connect(f"u{step}", membership=choice.chance(0.8)))
        guest = choice.pick(guests)
        deed, group = choice.below(10), choice.pick(("a", "b"))
        if deed == 0:
            stick(guest)
        elif deed == 1:
            booth.stuck.discard(guest.stream)
            house.tell("d1", StreamWritable(0, guest.stream))
        elif deed == 2:
            house.tell("d1", RoomChanged(0, choice.pick((0, 1, 5_000, 1_000_000))))
        elif deed == 3:
            guest.write(guest.client.join(group) if choice.chance(0.8) else guest.client.leave(group))
        elif deed == 4 and choice.chance(0.2):
            guest.close()
            booth.closed.add(guest.stream)
        elif guest.stream not in booth.paused:
            guest.write(guest.client.multicast(choice.pick((FIFO, AGREED)), group, bytes(choice.below(2_000))))
        assert gateway.held_bytes <= 20_000
        house.world.run_for(choice.below(3_000))
    house.tell("d1", RoomChanged(0, 10_000_000))
    for guest in guests:
        if not guest.is_ended:
            guest.close()
    house.until(lambda: gateway.sessions == 0)
    table = gateway._table
    assert (gateway.held_bytes, gateway.blocking, gateway.blocked_groups) == (0, (), frozenset())
    assert (table.streams, table._members, table._condemned, table.handing._waiting) == ({}, {}, {}, {})
    assert not table.transitions._lost
    assert gateway.counters.warnings > 0


# --- the end of the daemon -----------------------------------------------------------------------------------------


def test_a_daemon_that_stops_ends_all_streams() -> None:
    house = House()
    alice, bob = house.joined("alice", "bob")
    newcomer = house.guest(SpreadClient("carol"))
    gateway = house.gateway()
    assert gateway.handle(Started(0)) == []
    out = gateway.handle(Stopping(1))
    closed = {each.stream for each in out if isinstance(each, CloseStream)}
    assert closed == {alice.stream, bob.stream, newcomer.stream}
    asked = [each for each in out if isinstance(each, b4.Ask)]
    assert [(each.client.name, each.request) for each in asked] == [
        ("alice", b4.Disconnect()),
        ("bob", b4.Disconnect()),
    ]
    assert gateway.handle(Stopping(2)) == []


@pytest.mark.parametrize("read", [1_000, 262_144])
def test_memory_has_a_bound_that_can_be_told(read: int) -> None:
    settings = GatewaySettings()
    assert settings.memory_max(read) > settings.buffers_bytes_max + settings.sessions_max * settings.inbox_bytes_max
