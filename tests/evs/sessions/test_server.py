"""The daemon's side: who gets in, what is handed on when, slow readers, ends with reasons."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    Stopping,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    WriteStream,
)
from isotone.core.ids import ClientId, Stamp
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from isotone.evs.sessions.admission import Admitted, Denied
from isotone.evs.sessions.frames import bundle_frame, control_frame
from isotone.evs.sessions.greeting import pack_greeting
from isotone.evs.sessions.messages import CreditWanted, EndCode, Hello, JoinAsked, PartAsked, client_codec
from isotone.evs.sessions.notices import Dropped, Ended, GroupsHeld, Held, RoomChanged, Slow
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ClientSettings, ServerSettings, SlowPolicy
from tests.evs.sessions.pair import DAEMON, SECRET, App, FakeGroups, Pair

PEER = Address("somewhere")


def ended(app: App) -> Ended:
    last = app.notices[-1]
    assert isinstance(last, Ended)
    return last


def member(pair: Pair, name: str, group: str = "g", settings: ClientSettings | None = None) -> App:
    app = pair.connect(name, settings=settings)
    pair.ask(app, b4.Join(group))
    pair.run()
    return app


# --- who gets in -------------------------------------------------------------------------------------------------


def test_a_name_is_used_once_at_a_time() -> None:
    pair = Pair()
    pair.connect("alice")
    second = pair.client("alice")
    pair.ask(second, b4.Connect())
    pair.run()
    assert second.heard == [
        b4.Refused("connect", "the name alice is in use"),
        b4.Disconnected("the name alice is in use"),
    ]
    assert ended(second).code is EndCode.REFUSED
    assert pair.server.counters.turned_away[EndCode.REFUSED] == 1 and pair.server.sessions == 1


def test_the_next_session_of_a_name_has_a_higher_number() -> None:
    pair = Pair()
    first = pair.connect("alice")
    pair.ask(first, b4.Disconnect())
    pair.run()
    beside = pair.server.next_id("embedded")
    second = pair.connect("alice")
    assert first.session.client < second.session.client and beside.session < second.session.client.session


def test_a_client_that_was_killed_gets_its_name_back_at_once() -> None:
    pair = Pair()
    first = member(pair, "alice")
    pair.kill(first)
    second = pair.connect("alice")
    assert second.heard == [b4.Connected()]
    assert pair.groups.asked[-2:] == [(first.session.client, b4.Disconnect()), (second.session.client, b4.Connect())]
    assert pair.server.counters.ended[EndCode.REPLACED] == 1


def test_a_client_that_never_heard_its_welcome_is_let_in_again() -> None:
    """Its first stream broke, the daemon does not know it yet, and the name is taken by itself."""
    pair = Pair()
    hello = control_frame(client_codec.encode(Hello("alice", b"", b"x" * 16)))
    for stream in (-1, -2):
        pair.tell_server(StreamOpened(1, stream, PEER, True))
        pair.tell_server(StreamReceived(1, stream, pack_greeting(VersionRange(1, 1)) + hello))
        pair.run()
    asked = [request for _, request in pair.groups.asked]
    assert asked == [b4.Connect(), b4.Disconnect(), b4.Connect()] and pair.server.sessions == 1
    pair.tell_server(StreamOpened(1, -3, PEER, True))
    other = control_frame(client_codec.encode(Hello("alice", b"", b"y" * 16)))
    pair.tell_server(StreamReceived(1, -3, pack_greeting(VersionRange(1, 1)) + other))
    assert pair.server.counters.turned_away[EndCode.REFUSED] == 1


def test_credentials_are_checked_by_whoever_was_handed_in() -> None:
    def admit(name: str, credential: bytes, peer: Address) -> Admitted | Denied:
        return Admitted(f"user/{name}") if credential == b"right" else Denied("a wrong credential")

    def permit(principal: str, request: b4.Request) -> str:
        return "" if principal == "user/alice" else "not for you"

    pair = Pair(make_server=lambda: ServerSessions(DAEMON, secret=SECRET, admit=admit, permit=permit))
    assert pair.connect("alice", credential=b"wrong").heard[-1] == b4.Disconnected("a wrong credential")
    alice, bob = pair.connect("alice", credential=b"right"), pair.connect("bob", credential=b"right")
    for app in (alice, bob):
        pair.ask(app, b4.Join("g"))
        pair.send(app, b"from " + app.session.name.encode())
    pair.run()
    assert alice.messages() == [b"from alice"]
    assert bob.heard == [b4.Connected(), b4.Refused("join", "not for you", "g")]
    assert bob.notices == [Dropped(1, 1, "not for you")]
    assert alice.session.tickets.ticket_of(1) == 1 and bob.session.tickets.ticket_of(1) == 2


def test_a_name_that_breaks_the_rules_is_refused() -> None:
    server = ServerSessions(DAEMON, secret=SECRET)
    server.handle(StreamOpened(1, -1, PEER, True))
    hello = control_frame(client_codec.encode(Hello("with space", b"", bytes(16))))
    actions = server.handle(StreamReceived(1, -1, pack_greeting(VersionRange(1, 1)) + hello))
    assert b"is not allowed" in written(actions) and actions[-1] == CloseStream(-1)


def test_the_group_service_may_refuse_too() -> None:
    groups = FakeGroups()
    groups.refuses["alice"] = "played beside"
    pair = Pair(groups=groups)
    assert pair.connect("alice").heard[-1] == b4.Disconnected("played beside")
    assert pair.server.sessions == 0 and not pair.pipes


def test_there_are_no_more_sessions_than_the_settings_say() -> None:
    pair = Pair(server=ServerSettings(sessions_max=2))
    pair.connect("a"), pair.connect("b")
    third = pair.connect("c")
    assert third.heard == [] and pair.server.counters.turned_away[EndCode.FULL] == 1
    pair.pass_time(30_000_000)
    assert "2 sessions" in ended(third).reason and ended(third).code is EndCode.UNREACHABLE


def written(actions: list[Action]) -> bytes:
    return b"".join(part for action in actions if isinstance(action, WriteStream) for part in action.data)


def test_versions_without_a_common_one_are_refused_with_both_ranges() -> None:
    pair = Pair(server=ServerSettings(versions=VersionRange(3, 4)))
    app = pair.connect("alice")
    assert "the daemon speaks versions 3 to 4, this client 1" in ended(app).reason
    assert pair.server.counters.turned_away[EndCode.VERSION] == 1


def test_the_highest_common_version_is_chosen() -> None:
    pair = Pair(server=ServerSettings(versions=VersionRange(1, 4)))
    app = pair.connect("alice", settings=ClientSettings(versions=VersionRange(1, 2)))
    assert app.heard == [b4.Connected()]
    assert pair.written[0].data[0] == b"ISOD\x02\x01\x04\x00"


def test_streams_that_say_nothing_cost_little_and_not_for_long() -> None:
    server = ServerSessions(DAEMON, secret=SECRET, settings=ServerSettings(handshakes_max=3))
    actions = [action for stream in range(5) for action in server.handle(StreamOpened(stream, -stream - 1, PEER, True))]
    assert [action for action in actions if isinstance(action, CloseStream)] == [CloseStream(-1), CloseStream(-2)]
    late = server.handle(TimerFired(10_000_003, ("sessions due",)))
    assert [action for action in late if isinstance(action, CloseStream)] == [CloseStream(-3), CloseStream(-4)]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1",
        b"ISOC\x01\x01\x00\x00" + bytes(9),
        b"ISOC\x01\x01\x00\x00" + control_frame(client_codec.encode(JoinAsked("g"))),
        b"ISOC\x01\x01\x00\x00" + b"\x03\0\0\0\xff\xff\xff\xff",
        b"ISOC\x01\x01\x00\x00" + b"\x01\0\0\0\x04\0\0\0abcd",
    ],
)
def test_strangers_are_turned_away(data: bytes) -> None:
    server = ServerSessions(DAEMON, secret=SECRET)
    server.handle(StreamOpened(1, -1, PEER, True))
    assert server.handle(StreamReceived(2, -1, data))[-1] == CloseStream(-1)
    assert server.counters.malformed == 1 and server.handle(StreamReceived(3, -1, data)) == []


# --- indications -------------------------------------------------------------------------------------------------


def test_an_indication_is_encoded_once_and_written_to_all_without_copying() -> None:
    pair = Pair()
    apps = [member(pair, f"c{number}") for number in range(10)]
    encoded = pair.server.counters.encoded
    pair.written.clear()
    payload = bytes(1000)
    pair.send(apps[0], payload)
    pair.run()
    assert pair.server.counters.encoded == encoded + 1
    payloads = [write.data[-1] for write in pair.written if len(write.data[-1]) == 1000]
    assert len(payloads) == 10 and all(each is payloads[0] for each in payloads)
    assert pair.server.held_bytes < 2 * 1200
    pair.pass_time(5_000_000)  # heartbeats acknowledge
    assert pair.server.held_bytes == 0


def test_receivers_that_are_not_ours_are_passed_over() -> None:
    pair = Pair()
    alice = member(pair, "alice")
    stranger = ClientId(DAEMON, "embedded", 77)
    message = b4.Message(bundle_of(stranger, 1, Service.AGREED, ["g"], [b"x"]), Stamp(5, DAEMON))
    pair.tell_server(b4.Indicated(1, (stranger, alice.session.client), message))
    pair.run()
    assert alice.messages() == [b"x"]


def test_a_service_that_throws_a_client_out_is_heard_behind_all_before() -> None:
    pair = Pair()
    alice = member(pair, "alice")
    pair.send(alice, b"last words")
    pair.run()
    client = alice.session.client
    pair.tell_server(b4.Indicated(1, (client,), b4.Disconnected("thrown out")))
    pair.run()
    assert alice.messages() == [b"last words"] and alice.heard[-1] == b4.Disconnected("thrown out")
    assert (client, b4.Disconnect()) not in pair.groups.asked
    assert pair.server.sessions == 0


# --- handing on --------------------------------------------------------------------------------------------------


def test_sends_wait_for_room_and_clients_run_out_of_credit() -> None:
    pair = Pair(server=ServerSettings(window_bytes=4_000))
    alice = member(pair, "alice", settings=ClientSettings(queue_bytes_max=10_000, bundle_bytes_max=1_000))
    pair.tell_server(RoomChanged(1, 0))
    count = 0
    while alice.session.room:
        pair.send(alice, b"%04d" % count + bytes(496))
        pair.run()
        count += 1
    assert pair.groups.bodies("alice") == []
    assert 12_000 <= count * 500 <= 14_000  # a window with the daemon, a queue with the client
    pair.tell_server(RoomChanged(2, 1))  # one of any size
    pair.run()
    assert len(pair.groups.bundles("alice")) == 1
    for at in range(100):
        pair.tell_server(RoomChanged(3 + at, 2_000))
        pair.run()
    assert [int(body[:4]) for body in pair.groups.bodies("alice")] == list(range(count))


def test_sends_to_groups_that_are_held_from_outside_wait_and_others_pass() -> None:
    pair = Pair()
    alice, bob = pair.connect("alice"), pair.connect("bob")
    pair.tell_server(GroupsHeld(1, ("g", "#slow#d")))
    for app, groups in ((alice, ("g", "h")), (alice, ("h",)), (bob, ("h",))):
        pair.send(app, b"x", groups=groups)
        pair.run()
    assert pair.groups.bodies("alice") == [] and pair.groups.bodies("bob") == [b"x"]
    pair.tell_server(GroupsHeld(2, ()))
    pair.run()
    assert [bundle.groups for bundle in pair.groups.bundles("alice")] == [("g", "h"), ("h",)]


def test_joins_pass_without_room_but_not_before_earlier_sends() -> None:
    pair = Pair()
    alice, bob = pair.connect("alice"), pair.connect("bob")
    pair.tell_server(RoomChanged(1, 0))
    pair.send(alice, b"x")
    for app in (alice, bob):
        pair.ask(app, b4.Join("g"))
    pair.run()
    assert [client.name for client, request in pair.groups.asked if isinstance(request, b4.Join)] == ["bob"]


def test_sessions_take_turns() -> None:
    pair = Pair()
    apps = [pair.connect(name) for name in ("a", "b", "c")]
    pair.tell_server(RoomChanged(1, 0))
    for app in apps:
        for number in range(4):
            pair.send(app, b"%d" % number, groups=(f"g{number}",))
        pair.run()
    for at in range(12):
        pair.tell_server(RoomChanged(2 + at, 1))
    names = [client.name for client, request in pair.groups.asked if isinstance(request, b4.Send)]
    assert names == ["a", "b", "c"] * 4


def test_a_deadline_expires_only_before_it_is_handed_on() -> None:
    pair = Pair()
    alice = member(pair, "alice")
    pair.send(alice, b"in time", deadline_us=1_000)
    pair.run()
    pair.tell_server(RoomChanged(pair.now, 0))
    pair.send(alice, b"too late", deadline_us=1_000)
    pair.send(alice, b"late too", deadline_us=1_000)
    pair.send(alice, b"patient")
    pair.run()
    pair.pass_time(2_000)
    assert alice.noticed(Dropped) == [Dropped(2, 2, "deadline")] or len(alice.noticed(Dropped)) == 2
    pair.tell_server(RoomChanged(pair.now, 1 << 20))
    pair.run()
    assert alice.messages() == [b"in time", b"patient"]
    assert [bundle.first_sequence for bundle in pair.groups.bundles("alice")] == [1, 2]
    assert alice.session.tickets.ticket_of(2) == 4 and alice.session.settled == 4
    assert pair.server.counters.dropped_messages == 2


def test_a_large_message_passes_and_one_byte_more_does_not() -> None:
    pair = Pair(chunk=1 << 22)
    alice, bob = member(pair, "alice"), member(pair, "bob")
    body = bytes(16 << 20)
    pair.send(alice, b"before")
    pair.send(alice, body)
    pair.run()
    pair.send(alice, b"after")
    pair.run()
    assert [len(each) for each in bob.messages()] == [6, 16 << 20, 5]
    with pytest.raises(Exception, match="a message of 16777217 bytes; the bound is 16777216"):
        pair.send(alice, body + b"x")
    pair.pass_time(5_000_000)
    assert pair.server.held_bytes == 0 and pair.server._table.pool.free == pair.server.settings.large_bytes_max


def test_large_messages_of_many_share_their_credit() -> None:
    settings = ServerSettings(window_bytes=2_000, large_bytes_max=25_000, message_bytes_max=20_000)
    pair = Pair(server=settings, chunk=700)
    apps = [member(pair, f"c{number}") for number in range(4)]
    for number, app in enumerate(apps):
        for _ in range(3):
            pair.send(app, bytes([number]) * 15_000)
    peak = 0
    while pair._step():
        taken = [sum(each.cost for each in s.inbox) for s in pair.server._table.admission.sessions.values()]
        parts = [s._reader.held_bytes for s in pair.server._table.admission.sessions.values()]
        peak = max(peak, sum(taken) + sum(parts))
    assert peak <= 4 * 2_000 + 25_000
    assert all(len(app.messages()) == 12 for app in apps)


def test_credit_that_lies_unused_ends_the_session() -> None:
    pair = Pair(server=ServerSettings(window_bytes=1_000, large_bytes_max=100_000))
    alice, bob = member(pair, "alice"), member(pair, "bob")
    stream = pair.pipe(alice).far
    pair.tell_server(StreamReceived(pair.now, stream, control_frame(client_codec.encode(CreditWanted(90_000)))))
    pair.send(bob, bytes(50_000))
    pair.pass_time(25_000_000)
    assert bob.messages() == []
    pair.pass_time(25_000_000)
    assert len(bob.messages()) == 1 and ended(alice).reason == "credit for a large message was not used"


# --- what a client must not do -----------------------------------------------------------------------------------


def bad_frames(client: ClientId) -> dict[str, bytes]:
    def framed(sender: ClientId, first: int, count: int = 1, size: int = 1, stamp: Stamp | None = None) -> bytes:
        from isotone.core.codec.bundle import encode_bundle

        bundle = bundle_of(sender, first, Service.AGREED, ["g"], [bytes(size)] * count)
        return b"".join(bundle_frame(encode_bundle(bundle, stamp, payload_max=1 << 24))[0])

    other = ClientId(DAEMON, "other", 1)
    part = control_frame(client_codec.encode(PartAsked()))
    return {
        "another's name": framed(other, 1),
        "a sequence again": framed(client, 1) + framed(client, 1),
        "a stamp": framed(client, 1, stamp=Stamp(4, DAEMON)),
        "more than the credit": framed(client, 1, size=2_000_000),
        "too much in one bundle": framed(client, 1, count=2, size=40_000),
        "a second hello": control_frame(client_codec.encode(Hello("x", b"", bytes(16)))),
        "after parting": part + framed(client, 1),
        "nonsense": b"\x03\0\0\0\x04\0\0\0abcd",
        "a half deadline": b"\x01\1\0\0\x04\0\0\0abcd",
        "heard what was not said": b"\x03\0\0\0\x03\0\0\0" + client_codec.encode(JoinAsked("g"))[:1] + b"\x65\x7f",
        "credit without end": control_frame(client_codec.encode(CreditWanted(1 << 40))),
    }


@pytest.mark.parametrize("fault", bad_frames(ClientId(DAEMON, "alice", 1)))
def test_what_a_client_does_wrongly_ends_its_session_and_nothing_else(fault: str) -> None:
    pair = Pair()
    alice, bob = member(pair, "alice"), member(pair, "bob")
    assert alice.session.client == ClientId(DAEMON, "alice", 1)
    pair.tell_server(StreamReceived(pair.now, pair.pipe(alice).far, bad_frames(alice.session.client)[fault]))
    pair.run()
    assert ended(alice).code is EndCode.PROTOCOL and ended(alice).reason, fault
    assert pair.server.sessions == 1 and pair.server.counters.malformed == 1
    assert [client for client, request in pair.groups.asked if request == b4.Disconnect()] == [alice.session.client]
    pair.send(bob, b"still here")
    pair.run()
    assert bob.messages()[-1] == b"still here"


def test_what_was_taken_before_a_fault_is_handed_on_before_the_session_ends() -> None:
    pair = Pair()
    alice = member(pair, "alice")
    pair.tell_server(RoomChanged(pair.now, 0))
    pair.send(alice, b"taken")
    pair.run()
    pair.tell_server(StreamReceived(pair.now, pair.pipe(alice).far, b"\x03\0\0\0\x04\0\0\0abcd"))
    pair.run()
    assert pair.groups.bodies("alice") == [] and pair.server.sessions == 1
    second = pair.connect("alice")
    assert second.heard[-1] == b4.Disconnected("the name alice is in use")
    pair.tell_server(RoomChanged(pair.now, 1000))
    assert pair.groups.bodies("alice") == [b"taken"] and pair.groups.asked[-1][1] == b4.Disconnect()
    assert pair.server.sessions == 0


# --- slow readers ------------------------------------------------------------------------------------------------

SLOW = ServerSettings(buffer_bytes_max=10_000, write_bytes_max=1_000, window_bytes=3_000)


def flood(pair: Pair, app: App, count: int, group: str = "g") -> int:
    sent = 0
    for _ in range(count):
        if app.session.room:
            pair.send(app, bytes(400), groups=(group,))
            sent += 1
        pair.run()
    return sent


def test_block_holds_the_senders_to_its_groups_until_the_reader_reads() -> None:
    pair = Pair(server=SLOW)
    small = ClientSettings(queue_bytes_max=5_000, bundle_bytes_max=500)
    alice, slow = member(pair, "alice", settings=small), member(pair, "slow")
    carol = member(pair, "carol", "elsewhere")
    pair.pipe(slow).stalled = True
    sent = flood(pair, alice, 200)
    assert pair.server.blocking == (slow.session.client,) and alice.session.room == 0
    assert sent < 60 and pair.server.held_bytes < 10_000 + 2 * 3_000
    held = pair.groups.bodies("alice")
    assert flood(pair, carol, 20, "elsewhere") == 20 and len(carol.messages()) == 20  # others go on
    pair.send(carol, b"to the blocked one", groups=(slow.session.client.private_group,))
    pair.run()
    assert len(pair.groups.bodies("carol")) == 20 and pair.groups.bodies("alice") == held
    assert alice.noticed(Held) == carol.noticed(Held) == [Held((slow.session.client,))], "the sender hears for whom"
    pair.pipe(slow).stalled = False
    pair.pass_time(10_000_000)
    assert pair.server.blocking == () and len(slow.messages()) == sent + 1
    assert len(alice.messages()) == sent and pair.server.counters.blocked >= 1
    assert len(slow.noticed(Slow)) >= 1 and pair.server.counters.warnings >= 1
    assert alice.noticed(Held)[-1] == carol.noticed(Held)[-1] == Held(())


def test_disconnect_ends_the_slow_reader_with_a_reason_and_others_go_on() -> None:
    pair = Pair(server=ServerSettings(buffer_bytes_max=10_000, write_bytes_max=1_000, policy=SlowPolicy.DISCONNECT))
    alice, slow = member(pair, "alice"), member(pair, "slow")
    pair.pipe(slow).stalled = True
    assert flood(pair, alice, 100) == 100
    assert len(alice.messages()) == 100 and pair.server.counters.ended[EndCode.SLOW] == 1
    assert pair.groups.members["g"] == [alice.session.client]
    assert ended(slow).code is EndCode.SLOW and "the bound is 10000" in ended(slow).reason


def test_the_policy_is_that_of_the_group_whose_message_came() -> None:
    policies = {"strict": SlowPolicy.DISCONNECT}
    pair = Pair(server=ServerSettings(buffer_bytes_max=10_000, policies=policies, window_bytes=3_000))
    alice, slow = pair.connect("alice"), member(pair, "slow")
    pair.ask(slow, b4.Join("strict"))
    pair.run()
    pair.pipe(slow).stalled = True
    flood(pair, alice, 100, "strict")
    assert pair.server.counters.ended[EndCode.SLOW] == 1 and pair.server.counters.blocked == 0


def test_the_policy_of_a_reader_goes_before_that_of_the_group() -> None:
    settings = ServerSettings(
        buffer_bytes_max=10_000,
        policies={"strict": SlowPolicy.DISCONNECT},
        client_policies={"patient": SlowPolicy.BLOCK, "hasty": SlowPolicy.DISCONNECT},
        window_bytes=3_000,
    )
    for name, group, ends in (("patient", "strict", 0), ("hasty", "lax", 1), ("other", "lax", 0)):
        pair = Pair(server=settings)
        alice, slow = pair.connect("alice"), member(pair, name)
        pair.ask(slow, b4.Join(group))
        pair.run()
        pair.pipe(slow).stalled = True
        flood(pair, alice, 100, group)
        assert pair.server.counters.ended[EndCode.SLOW] == ends and pair.server.counters.blocked == 1 - ends


def test_a_blocked_reader_of_remote_senders_is_disconnected_at_twice_the_bound() -> None:
    pair = Pair(server=SLOW)
    slow = member(pair, "slow")
    pair.pipe(slow).stalled = True
    remote = ClientId(DAEMON, "remote", 99)
    for number in range(100):
        message = b4.Message(bundle_of(remote, number + 1, Service.AGREED, ["g"], [bytes(400)]), Stamp(5, DAEMON))
        pair.tell_server(b4.Indicated(pair.now, (slow.session.client,), message))
        assert pair.server.held_bytes <= 20_000 + 500
    assert pair.server.counters.ended[EndCode.SLOW] == 1 and pair.server.held_bytes == 0
    assert pair.server.blocking == ()


def test_all_buffers_together_have_a_bound() -> None:
    pair = Pair(server=ServerSettings(buffers_bytes_max=20_000))
    alice = pair.connect("alice")
    readers = [member(pair, f"r{number}", f"g{number}") for number in range(5)]
    for reader in readers:
        pair.pipe(reader).stalled = True
    for number in (0, 1, 2, 3, 4, 3, 3):
        flood(pair, alice, 10, f"g{number}")
    assert pair.server.held_bytes <= 20_000 and pair.server.counters.ended[EndCode.SLOW] == 1
    assert ended(readers[3]).code is EndCode.SLOW


def test_a_single_message_above_the_bound_makes_no_slow_reader() -> None:
    settings = ServerSettings(buffer_bytes_max=10_000, policy=SlowPolicy.DISCONNECT)
    pair = Pair(server=settings)
    alice = member(pair, "alice")
    pair.pass_time(5_000_000)
    pair.send(alice, bytes(50_000))
    pair.run()
    assert [len(each) for each in alice.messages()] == [50_000] and pair.server.counters.ended[EndCode.SLOW] == 0


def test_refusals_fill_a_buffer_too() -> None:
    pair = Pair(server=ServerSettings(buffer_bytes_max=2_000))
    alice = member(pair, "alice")
    pair.pipe(alice).stalled = True
    for _ in range(200):
        if alice.session.life.value != "open":
            break
        pair.ask(alice, b4.Join("g"))
        pair.run()
    assert pair.server.counters.ended[EndCode.SLOW] == 1 and pair.server.held_bytes == 0


# --- time --------------------------------------------------------------------------------------------------------


def test_a_silent_stream_is_given_up_and_the_session_after_a_while_too() -> None:
    pair = Pair()
    alice = member(pair, "alice")
    pair.kill(alice, silent=True)
    pair.pass_time(12_600_000)
    assert not pair.server._table.streams and pair.server.sessions == 1
    pair.pass_time(31_000_000)
    assert pair.server.sessions == 0 and pair.groups.asked[-1] == (alice.session.client, b4.Disconnect())
    assert pair.server.counters.ended[EndCode.GONE] == 1


def test_a_stream_that_closes_before_the_service_answered_ends_the_session() -> None:
    server = ServerSessions(DAEMON, secret=SECRET)
    server.handle(StreamOpened(1, -1, PEER, True))
    hello = control_frame(client_codec.encode(Hello("alice", b"", bytes(16))))
    (ask,) = [
        action
        for action in server.handle(StreamReceived(1, -1, pack_greeting(VersionRange(1, 1)) + hello))
        if isinstance(action, b4.Ask)
    ]
    assert b4.Ask(ask.client, b4.Disconnect()) in server.handle(StreamClosed(2, -1, "reset"))
    assert server.sessions == 0
    assert server.handle(b4.Indicated(3, (ask.client,), b4.Connected())) == []


def test_who_missed_too_much_already_is_not_kept() -> None:
    pair = Pair(server=ServerSettings(resume_bytes_max=3_000))
    alice, slow = member(pair, "alice"), member(pair, "slow")
    pair.pipe(slow).stalled = True
    flood(pair, alice, 10)
    assert pair.server.sessions == 2 and pair.server.counters.ended[EndCode.MISSED] == 0
    pair.cut(pair.pipe(slow))
    pair.run()
    assert pair.server.sessions == 1 and ended(slow).code is EndCode.MISSED


def test_a_daemon_that_slept_does_not_blame_its_clients() -> None:
    pair = Pair()
    member(pair, "alice")
    pair.now += 60_000_000  # nobody ran
    pair.tell_server(TimerFired(pair.now, ("sessions sweep",)))
    assert pair.server._table.streams
    pair.pass_time(60_000_000)
    assert pair.server._table.streams and pair.server.counters.resumed == 0


def test_an_idle_daemon_has_no_timer() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    pair.ask(alice, b4.Disconnect())
    pair.pass_time(60_000_000)
    assert pair._timers == {}


def test_a_daemon_that_stops_tells_its_clients() -> None:
    pair = Pair()
    alice, bob = member(pair, "alice"), member(pair, "bob")
    pair.tell_server(Stopping(pair.now))
    pair.run()
    for app in (alice, bob):
        assert app.heard[-1] == b4.Disconnected("the daemon stops") and ended(app).code is EndCode.SHUTDOWN
    assert [request for _, request in pair.groups.asked[-2:]] == [b4.Disconnect(), b4.Disconnect()]
    assert pair.server.handle(StreamWritable(pair.now, -1)) == []
