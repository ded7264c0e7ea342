"""The client's side: looking for a daemon, what a caller may ask, coming back, and ends with reasons."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    OpenStream,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    TimerFired,
    WriteStream,
)
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import NO_DAEMON, ClientId, DaemonId
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.greeting import pack_answer
from isotone.evs.sessions.messages import (
    EndCode,
    Farewell,
    Granted,
    Heard,
    Resume,
    SelfLeaveTold,
    Welcome,
    server_codec,
)
from isotone.evs.sessions.notices import (
    Broken,
    Dropped,
    Ended,
    Notify,
    ReadingPaused,
    ReadingResumed,
    Reconnected,
    Roomy,
    SendWanted,
)
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from tests.evs.sessions.pair import DAEMON, SECRET, App, Pair

ME = ClientId(NO_DAEMON, "alice", 0)
REAL = ClientId(DAEMON, "alice", 4)
ANSWER = pack_answer(VersionRange(1, 1), VersionRange(1, 1))[0]
A, B = Address("a"), Address("b")


def session(*addresses: Address, settings: ClientSettings | None = None) -> ClientSession:
    return ClientSession("alice", addresses or (A,), choice=Choice(1), settings=settings)


def opened(actions: list[Action]) -> list[OpenStream]:
    return [action for action in actions if isinstance(action, OpenStream)]


def last_notice(actions: list[Action]) -> object:
    return next(action.notice for action in reversed(actions) if isinstance(action, Notify))


def welcome(**changes: int) -> bytes:
    terms = {"credit": 100_000, "window": 100_000, "message_bytes_max": 1 << 24, "acknowledge_bytes": 1000}
    terms |= {"heartbeat_us": 1_000_000, "silence_us": 5_000_000, "resume_within_us": 20_000_000} | changes
    return control_frame(server_codec.encode(Welcome(client=str(REAL), key=bytes(16), **terms)))


def entered(*addresses: Address, settings: ClientSettings | None = None, **terms: int) -> ClientSession:
    made = session(*addresses, settings=settings)
    made.handle(b4.Requested(0, ME, b4.Connect()))
    made.handle(StreamOpened(1, 0, A, False))
    made.handle(StreamReceived(2, 0, ANSWER))
    assert b4.Indicate((REAL,), b4.Connected()) in made.handle(StreamReceived(3, 0, welcome(**terms)))
    return made


# --- looking for a daemon ----------------------------------------------------------------------------------------


def test_addresses_are_tried_until_one_answers() -> None:
    made = session(A, B)
    assert opened(made.handle(b4.Requested(0, ME, b4.Connect()))) == [OpenStream(0, A)]
    assert opened(made.handle(StreamClosed(10, 0, "refused"))) == [OpenStream(1, B)]
    assert opened(made.handle(StreamClosed(20, 1, "refused"))) == []
    assert opened(made.handle(TimerFired(60_000, ("session due", "alice")))) == [OpenStream(2, A)]
    actions = made.handle(StreamOpened(70_000, 2, A, False))
    assert WriteStream(2, [b"ISOC\x01\x01\x00\x00"]) in actions
    silent = made.handle(TimerFired(5_060_000, ("session due", "alice")))
    assert silent[:2] == [CloseStream(2), OpenStream(3, B)]
    over = made.handle(TimerFired(20_000_000, ("session due", "alice")))
    assert over[-1] == Notify(
        "alice",
        Ended(
            EndCode.UNREACHABLE,
            "the session was not opened in time: a: the daemon does not answer the greeting",
        ),
    )
    assert b4.Indicate((ME,), b4.Disconnected(over[-1].notice.reason)) in over  # type: ignore[attr-defined]
    assert made.life is Life.ENDED


def test_what_is_no_daemon_is_not_tried_again() -> None:
    made = session(A)
    made.handle(b4.Requested(0, ME, b4.Connect()))
    made.handle(StreamOpened(1, 0, A, False))
    actions = made.handle(StreamReceived(2, 0, b"HTTP/1.1 400"))
    assert "no daemon of ours" in str(last_notice(actions)) and made.malformed == 1


def test_a_full_or_stopping_daemon_leads_to_the_next_address() -> None:
    made = session(A, B)
    made.handle(b4.Requested(0, ME, b4.Connect()))
    made.handle(StreamOpened(1, 0, A, False))
    made.handle(StreamReceived(2, 0, ANSWER))
    full = control_frame(server_codec.encode(Farewell(EndCode.FULL, "full")))
    assert opened(made.handle(StreamReceived(3, 0, full))) == [OpenStream(1, B)]


def test_a_session_is_opened_once_and_asked_only_when_open() -> None:
    made = session()
    for request in (b4.Join("g"), b4.Disconnect()):
        with pytest.raises(LocalProtocolError):
            made.handle(b4.Requested(0, ME, request))
    made.handle(b4.Requested(0, ME, b4.Connect()))
    for request in (b4.Connect(), b4.Join("g"), b4.Leave("g")):
        with pytest.raises(LocalProtocolError):
            made.handle(b4.Requested(0, ME, request))
    assert made.room == 0


def test_parting_before_the_session_is_open_ends_it() -> None:
    made = session()
    made.handle(b4.Requested(0, ME, b4.Connect()))
    actions = made.handle(b4.Requested(1, ME, b4.Disconnect()))
    assert actions[0] == CloseStream(0) and last_notice(actions) == Ended(EndCode.ASKED, "asked for")
    assert not any(isinstance(action, b4.Indicate) for action in actions)
    assert made.handle(StreamOpened(2, 0, A, False)) == []


# --- what a caller may ask ---------------------------------------------------------------------------------------


def wanted(**changes: object) -> SendWanted:
    fields = {"service": Service.FIFO, "groups": ("g",), "bodies": (b"x",)} | changes
    return SendWanted(9, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (wanted(groups=()), "1 to 100 groups"),
        (wanted(groups=("with space",)), "not allowed"),
        (wanted(groups=tuple(f"g{number}" for number in range(101))), "1 to 100 groups"),
        (wanted(bodies=()), "nothing to send"),
        (wanted(bodies=(bytes((1 << 24) + 1),)), "a message of 16777217 bytes; the bound is 16777216"),
        (wanted(bodies=(bytes(1 << 20), b"x")), "1048577 bytes at once"),
        (wanted(types=(1, 2)), "1 messages with 2 types"),
        (wanted(types=(70_000,)), "numbers up to 65535"),
        (wanted(flags=-1), "numbers up to 65535"),
        (wanted(deadline_us=-1), "a deadline 1 us ago"),
        (b4.Requested(9, REAL, b4.Join("#alice#d")), "private"),
        (b4.Requested(9, REAL, b4.Join("")), "1 to 64"),
        (b4.Requested(9, ME, b4.Join("g")), "no open session"),
        (b4.Requested(9, REAL, b4.Send(bundle_of(REAL, 2, Service.FIFO, ["g"], [b"x"]))), "the next of"),
        (b4.Requested(9, REAL, b4.Send(bundle_of(ME, 1, Service.FIFO, ["g"], [b"x"]))), "the next of"),
        (b4.Requested(9, REAL, b4.Send(bundle_of(REAL, 1, Service.FIFO, ["g"], [bytes(40_000)] * 2))), "a bundle has"),
    ],
)
def test_wrong_requests_are_refused_before_anything_changes(event: SendWanted | b4.Requested, why: str) -> None:
    made = entered()
    with pytest.raises(LocalProtocolError, match=why):
        made.handle(event)
    assert made.submitted == 0
    assert any(isinstance(action, WriteStream) for action in made.handle(wanted())) or made._connection.stream.busy  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["#bob#d#1#4", "#alice##1#4", "#alice#d d#1#4", f"#alice#d#{1 << 63}#4", "alice"])
def test_a_welcome_for_a_client_that_cannot_be(name: str) -> None:
    made = session()
    made.handle(b4.Requested(0, ME, b4.Connect()))
    made.handle(StreamOpened(1, 0, A, False))
    made.handle(StreamReceived(2, 0, ANSWER))
    wrong = Welcome(name, bytes(16), 1000, 1000, 1000, 1000, 2_000_000, 2_000_000, 2_000_000)
    made.handle(StreamReceived(3, 0, control_frame(server_codec.encode(wrong))))
    assert made.malformed == 1 and made.life is Life.ENDED


def test_the_daemon_may_lower_the_bound_of_a_message() -> None:
    with pytest.raises(LocalProtocolError, match="the bound is 1000"):
        entered(message_bytes_max=1000).handle(wanted(bodies=(bytes(1001),)))


def test_bundles_of_b4_and_messages_share_one_count() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    me = alice.session.client
    pair.ask(alice, b4.Send(bundle_of(me, 1, Service.SAFE, ["g"], [b"a", b"b"], types=[7, 8], flags=2)))
    pair.send(alice, b"c")
    pair.ask(alice, b4.Send(bundle_of(me, 4, Service.SAFE, ["g"], [b"d"])))
    pair.run()
    found = pair.groups.bundles("alice")
    assert [(each.first_sequence, each.types) for each in found] == [(1, (7, 8)), (3, (0,)), (4, (0,))]
    assert [each.flags for each in found] == [2, 0, 0]
    assert alice.session.settled == alice.session.submitted == 4


def test_at_low_load_each_message_goes_alone_and_at_once() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    for _ in range(5):
        pair.client_writes.clear()
        pair.send(alice, b"x")
        assert len(pair.client_writes) == 1
        pair.run()
    assert [each.count for each in pair.groups.bundles("alice")] == [1] * 5


def test_while_the_stream_is_busy_messages_are_bundled() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    for number in range(1000):
        pair.send(alice, b"%d" % number)
    pair.run()
    assert [each.count for each in pair.groups.bundles("alice")] == [1, 999]
    pair.send(alice, *[bytes(1000)] * 200)
    pair.run()
    assert [each.count for each in pair.groups.bundles("alice")[2:]] == [63, 63, 63, 11]


def test_without_credit_the_caller_is_refused_and_told_when_there_is_room() -> None:
    settings = ClientSettings(queue_bytes_max=2_000)
    made = entered(settings=settings, credit=0)
    made._connection.stream.busy = False  # type: ignore[union-attr]
    while made.room:
        made.handle(wanted(bodies=(bytes(300),)))
    with pytest.raises(LocalProtocolError, match="no room"):
        made.handle(wanted())
    actions = made.handle(StreamReceived(9, 0, control_frame(server_codec.encode(Granted(0, 1 << 20)))))
    assert Notify("alice", Roomy()) in actions and made.room == 2_000


def test_a_deadline_expires_in_the_queue() -> None:
    made = entered(credit=0)
    made.handle(wanted(bodies=(b"a", b"b"), deadline_us=1_000))
    made.handle(wanted(bodies=(b"c",)))
    actions = made.handle(TimerFired(1_100, ("session due", "alice")))
    assert Notify("alice", Dropped(1, 2, "deadline")) in actions
    assert made.settled == 2 and made.tickets.ticket_of(1) == 3


# --- what a daemon may say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        welcome(),
        control_frame(server_codec.encode(Granted(5, 1 << 20))),
        control_frame(server_codec.encode(Granted(0, 5))),
        b"\x01\0\0\0\x04\0\0\0abcd",
        b"\x01\0\0\0\xff\xff\xff\xff",
        b"\x03\0\0\0\x02\0\0\0\x91\x65",
    ],
)
def test_what_a_daemon_says_wrongly_ends_the_session(frame: bytes) -> None:
    made = entered()
    actions = made.handle(StreamReceived(9, 0, frame))
    notice = last_notice(actions)
    assert isinstance(notice, Ended) and notice.code is EndCode.PROTOCOL and made.life is Life.ENDED
    assert CloseStream(0) in actions
    assert made.handle(StreamReceived(10, 0, frame)) == []


def test_what_is_heard_is_acknowledged_with_what_is_written() -> None:
    made = entered(acknowledge_bytes=60)
    made._connection.stream.busy = False  # type: ignore[union-attr]
    told = control_frame(server_codec.encode(SelfLeaveTold("g")))
    assert made.handle(StreamReceived(5, 0, told)) == [b4.Indicate((REAL,), b4.SelfLeave("g"))]
    (write,) = [each for each in made.handle(wanted()) if isinstance(each, WriteStream)]
    from isotone.evs.sessions.messages import client_codec

    assert write.data[0] == control_frame(client_codec.encode(Heard(1)))
    made._connection.stream.busy = False  # type: ignore[union-attr]
    actions = made.handle(StreamReceived(6, 0, told * 5))  # now there is much
    assert WriteStream(0, [control_frame(client_codec.encode(Heard(6)))]) in actions


# --- coming back -------------------------------------------------------------------------------------------------


def test_a_broken_session_goes_on_and_says_so() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    pair.ask(alice, b4.Join("g"))
    pair.run()
    pair.cut(pair.pipe(alice))
    pair.send(alice, b"while broken")
    pair.run()
    assert alice.notices == [Broken("reset"), Reconnected()] and alice.messages() == [b"while broken"]
    assert alice.heard.count(b4.Connected()) == 1


def end_of(app: App) -> Ended:
    last = app.notices[-1]
    assert isinstance(last, Ended)
    assert app.heard[-1] == b4.Disconnected(last.reason)
    return last


def broken(pair: Pair) -> App:
    alice = pair.connect("alice")
    pair.ask(alice, b4.Join("g"))
    pair.run()
    pair.refusing = True
    pair.cut(pair.pipe(alice))
    pair.run()
    return alice


def visiting(pair: Pair) -> App:
    alice = pair.connect("alice", settings=ClientSettings(resume_within_us=0))
    pair.ask(alice, b4.Join("g"))
    pair.run()
    return alice


def test_a_visit_ends_with_its_stream_at_both_ends() -> None:
    pair = Pair()
    alice, bob = visiting(pair), pair.connect("bob")
    pair.send(alice, b"taken")
    pair.run()
    pair.cut(pair.pipe(alice))
    pair.run()
    assert end_of(alice).code is EndCode.UNREACHABLE and not alice.noticed(Broken)
    assert pair.server.sessions == 1 and pair.server.counters.ended[EndCode.SILENT] == 1
    assert pair.groups.bodies("alice") == [b"taken"], "what was taken is handed on"
    assert pair.groups.asked[-1] == (alice.session.client, b4.Disconnect())
    assert not bob.noticed(Broken)


def test_a_visit_is_not_resumed_by_anybody() -> None:
    pair = Pair()
    alice = visiting(pair)
    key = pair.server._table.admission.key_of(alice.session.client)
    verdict = pair.server._table.admission.judge_resume(Resume(str(alice.session.client), key, 0), 1)
    assert verdict == Farewell(EndCode.GONE, "the session ends with its stream")


def test_too_late() -> None:
    pair = Pair(server=ServerSettings(resume_within_us=5_000_000))
    alice = broken(pair)
    pair.pass_time(5_100_000)
    assert end_of(alice).code is EndCode.UNREACHABLE and "not resumed in time" in end_of(alice).reason
    assert pair.server.sessions == 0


def test_too_late_by_the_daemons_clock_only() -> None:
    pair = Pair(server=ServerSettings(resume_within_us=5_000_000))
    alice = broken(pair)
    pair.pass_time(4_000_000)
    pair.tell_server(TimerFired(pair.now + 2_000_000, ("sessions due",)))
    pair.refusing = False
    pair.pass_time(900_000)
    assert end_of(alice) == Ended(EndCode.GONE, "the client did not come back within 5000 ms", 0)


def test_too_much_missed() -> None:
    pair = Pair(server=ServerSettings(resume_bytes_max=5_000))
    alice = broken(pair)
    pair.refusing = False
    bob = pair.connect("bob")
    alice_waits = alice.notices[-1]
    pair.refusing = True
    pair.cut(pair.pipe(alice)) if isinstance(alice_waits, Reconnected) else None
    pair.run()
    for _ in range(10):
        pair.send(bob, bytes(1_000))
        pair.run()
    pair.refusing = False
    pair.pass_time(5_000_000)
    assert end_of(alice).code is EndCode.MISSED and "no more than 5000 are kept" in end_of(alice).reason
    assert pair.server.held_bytes == 0


@pytest.mark.parametrize(
    ("daemon", "secret", "code", "reason"),
    [
        (DaemonId("d", 2), SECRET, EndCode.GONE, "the daemon was restarted"),
        (DaemonId("d", 1), SECRET, EndCode.GONE, "there is no such session"),
        (DaemonId("d", 1), b"another secret of it", EndCode.GONE, "there is no such session"),
        (DaemonId("e", 1), SECRET, EndCode.UNREACHABLE, "this is e, not d"),
    ],
)
def test_another_daemon(daemon: DaemonId, secret: bytes, code: EndCode, reason: str) -> None:
    pair = Pair()
    alice = broken(pair)
    pair.refusing = False
    pair.restart(ServerSessions(daemon, secret=secret))
    pair.pass_time(40_000_000)
    assert end_of(alice).code is code and reason in end_of(alice).reason


def test_messages_of_unknown_fate_are_counted() -> None:
    pair = Pair()
    alice = broken(pair)
    for _ in range(3):
        pair.send(alice, b"x")
    pair.restart(ServerSessions(DaemonId("d", 2), secret=SECRET))
    pair.refusing = False
    pair.pass_time(10_000_000)
    assert end_of(alice).untaken == 3


def test_a_session_of_the_right_daemon_is_found_at_another_address() -> None:
    made = entered(A, B)
    assert opened(made.handle(StreamClosed(9, 0, "reset"))) == [OpenStream(1, A)]
    assert opened(made.handle(StreamClosed(10, 1, "refused"))) == [OpenStream(2, B)]
    made.handle(StreamOpened(11, 2, B, False))
    made.handle(StreamReceived(12, 2, ANSWER))
    elsewhere = control_frame(server_codec.encode(Farewell(EndCode.ELSEWHERE, "this is e, not d")))
    actions = made.handle(StreamReceived(13, 2, elsewhere))
    assert CloseStream(2) in actions and made.life is Life.SEEKING


# --- time --------------------------------------------------------------------------------------------------------


def test_a_silent_daemon_is_left_and_looked_for_again() -> None:
    made = entered()
    beat = ("session beat", "alice")
    for second in range(1, 5):
        made.handle(TimerFired(second * 1_000_000 + 3, beat))
    actions = made.handle(TimerFired(5_000_003, beat))
    assert actions[:1] == [CloseStream(0)] and opened(actions) == [OpenStream(1, A)]
    assert Notify("alice", Broken("nothing was heard for 5000 ms")) in actions


def test_a_client_that_slept_or_does_not_read_blames_nobody() -> None:
    made = entered()
    assert opened(made.handle(TimerFired(60_000_000, ("session beat", "alice")))) == []
    made.handle(ReadingPaused(60_000_001))
    for second in range(61, 80):
        assert opened(made.handle(TimerFired(second * 1_000_000, ("session beat", "alice")))) == []
    made.handle(ReadingResumed(80_000_000))
    actions = [made.handle(TimerFired(second * 1_000_000, ("session beat", "alice"))) for second in range(80, 86)]
    assert [len(opened(each)) for each in actions] == [0, 0, 0, 0, 0, 1]


def test_heartbeats_keep_an_idle_session() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    pair.pass_time(120_000_000)
    assert alice.notices == [] and pair.server.counters.frames_received < 70


# --- the end -----------------------------------------------------------------------------------------------------


def test_parting_waits_for_all_that_was_sent() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    pair.cut(pair.pipe(alice))
    for number in range(50):
        pair.send(alice, b"%d" % number)
    pair.ask(alice, b4.Disconnect())
    with pytest.raises(LocalProtocolError):
        pair.send(alice, b"too late")
    pair.run()
    assert len(pair.groups.bodies("alice")) == 50 and pair.groups.asked[-1][1] == b4.Disconnect()
    assert alice.notices[-1] == Ended(EndCode.ASKED, "asked for", 0)
    assert not any(isinstance(each, b4.Disconnected) for each in alice.heard)


def test_what_was_never_written_is_known() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    assert alice.session.unwritten == 1
    pair.send(alice, b"written")
    pair.send(alice, b"waits", b"waits too")
    assert alice.session.unwritten == 2
    pair.run()
    assert alice.session.unwritten == 4
    pair.cut(pair.pipe(alice))
    pair.refusing = True
    pair.run()
    pair.send(alice, b"nobody has this")
    assert alice.session.unwritten == 4 and alice.session.submitted == 4


def test_a_client_may_have_less_patience_than_its_daemon() -> None:
    pair = Pair(server=ServerSettings(resume_within_us=30_000_000))
    alice = pair.connect("alice", settings=ClientSettings(resume_within_us=1_000_000))
    pair.refusing = True
    pair.cut(pair.pipe(alice))
    pair.pass_time(900_000)
    assert alice.session.life is Life.SEEKING
    pair.pass_time(200_000)
    assert alice.session.life is Life.ENDED
