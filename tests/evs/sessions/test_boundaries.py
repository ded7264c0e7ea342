"""The exact limits of sessions: the last byte, message, stream or microsecond that passes, the first that does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import GROUPS_MAX, MESSAGES_MAX, Bundle, bundle_of
from isotone.core.choice import Choice
from isotone.core.codec.frame import FRAME, FrameKind
from isotone.core.contract import Address, CloseStream, SetTimer, Stopping, TimerFired
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId, Stamp
from isotone.core.services import Service
from isotone.evs.sessions.admission import DEPARTED_MAX, Admission, admit_all
from isotone.evs.sessions.asking import Asking
from isotone.evs.sessions.attempts import Attempts
from isotone.evs.sessions.backlog import Backlog, Memory, Parcel
from isotone.evs.sessions.client_stream import Hearing
from isotone.evs.sessions.credit import Credit, Pool
from isotone.evs.sessions.entry import Newcomers
from isotone.evs.sessions.frames import HEAD_BYTES, FrameReader, bundle_frame, control_frame
from isotone.evs.sessions.handing import in_turn
from isotone.evs.sessions.messages import EndCode, Farewell
from isotone.evs.sessions.notices import Dropped, Ended, SendWanted, SessionCounters
from isotone.evs.sessions.requests import NEVER
from isotone.evs.sessions.server import SWEEP, SWEEPS
from isotone.evs.sessions.server_session import ServerSession
from isotone.evs.sessions.settings import KIB, WINDOW_BYTES, ClientSettings, ServerSettings, SlowPolicy
from isotone.evs.sessions.slow import SlowReaders
from isotone.evs.sessions.submission import SMALL_MAX, check_bundle, check_groups, check_join, check_send, cuts
from isotone.evs.sessions.tickets import DROPS_MAX, Tickets
from tests.evs.sessions.pair import DAEMON, SECRET, Pair
from tests.evs.sessions.test_parts import add, requests

ALICE = ClientId(DaemonId("d", 1), "alice", 1)
PLENTY = 1 << 30


# --- what a caller may ask -----------------------------------------------------------------------------------------


def test_a_message_goes_to_one_group_at_least_and_not_to_too_many() -> None:
    names = tuple(f"g{number}" for number in range(GROUPS_MAX + 1))
    assert check_groups(("b", "a", "b")) == ("a", "b")
    assert len(check_groups(names[:-1])) == GROUPS_MAX
    for bad in ((), names, ("",)):
        with pytest.raises(LocalProtocolError):
            check_groups(bad)
    check_join(b4.Join("g"))
    with pytest.raises(LocalProtocolError):
        check_join(b4.Join(ALICE.private_group))


def test_a_bundle_that_a_caller_made_agrees_with_itself() -> None:
    def check(
        lengths: tuple[int, ...] = (4, 6),
        types: tuple[int, ...] = (0, SMALL_MAX),
        payload: bytes = bytes(10),
        flags: int = SMALL_MAX,
    ) -> None:
        bundle = Bundle(ALICE, 1, Service.AGREED, ("g",), lengths, types, payload, flags)
        check_bundle(bundle, message_bytes_max=20, bundle_bytes_max=10)

    check()
    check(lengths=(20,), types=(1,), payload=bytes(20))
    many = (0,) * MESSAGES_MAX
    check(lengths=many, types=many, payload=b"")
    for bad in (
        {"lengths": (), "types": (), "payload": b""},
        {"lengths": (0, *many), "types": (0, *many), "payload": b""},
        {"types": (0,)},
        {"payload": bytes(11)},
        {"lengths": (5, 6), "payload": bytes(11)},
        {"lengths": (21,), "types": (1,), "payload": bytes(21)},
        {"types": (0, SMALL_MAX + 1)},
        {"types": (-1, 0)},
        {"flags": SMALL_MAX + 1},
        {"flags": -1},
    ):
        with pytest.raises(LocalProtocolError):
            check(**bad)  # type: ignore[arg-type]


def test_messages_that_a_caller_sends() -> None:
    def check(*sizes: int, types: tuple[int, ...] = (), deadline_us: int | None = None) -> None:
        wanted = SendWanted(0, Service.AGREED, ("g",), tuple(map(bytes, sizes)), types=types, deadline_us=deadline_us)
        check_send(wanted, message_bytes_max=20, queue_bytes_max=15)

    check(20)
    check(7, 8, types=(0, 1), deadline_us=0)
    for sizes, types, deadline_us in (
        ((), (), None),
        ((21,), (), None),
        ((1, 21), (), None),
        ((7, 9), (), None),
        ((1, 1), (1,), None),
        ((1,), (SMALL_MAX + 1,), None),
        ((1,), (), -1),
    ):
        with pytest.raises(LocalProtocolError):
            check(*sizes, types=types, deadline_us=deadline_us)


def test_cuts_never_have_more_messages_than_a_bundle() -> None:
    pieces = list(cuts([0] * (MESSAGES_MAX + 1), bundle_bytes_max=PLENTY, packed_bytes_max=PLENTY))
    assert pieces == [(0, MESSAGES_MAX), (MESSAGES_MAX, MESSAGES_MAX + 1)]
    assert list(cuts([500, 1, 1], bundle_bytes_max=100, packed_bytes_max=PLENTY)) == [(0, 1), (1, 3)]
    assert list(cuts([], bundle_bytes_max=1, packed_bytes_max=1)) == []


def test_roomy_is_said_when_half_of_a_full_queue_is_free_again() -> None:
    asking = Asking(ClientSettings(queue_bytes_max=1_000))
    assert not asking.became_roomy(), "it was never full"
    told = []
    for queued in (999, 1_000, 501, 500, 0):
        asking.requests.queued_bytes = queued
        told.append(asking.became_roomy())
    assert told == [False, False, False, True, False]
    asking.requests.queued_bytes = 1_000
    with pytest.raises(LocalProtocolError):
        asking.requests.check_room()
    asking.requests.queued_bytes = 999
    asking.requests.check_room()


# --- requests ------------------------------------------------------------------------------------------------------


def test_a_deadline_is_over_when_its_time_has_come() -> None:
    made = requests()
    add(made, b"one", expires_at=10)
    add(made, b"two", expires_at=11)
    assert made.first_expiry == 10 and (made.submitted, made.settled, made.unwritten, made.untaken) == (2, 0, 1, 2)
    assert made.expire(9) == []
    assert made.expire(10) == [(1, 1)] and made.first_expiry == 11
    assert (made.settled, made.unwritten, made.untaken) == (1, 2, 1)
    before = made.queued_bytes
    assert before > 0 and made.expire(11) == [(2, 1)] and made.queued_bytes == 0 and made.first_expiry == NEVER


def test_requests_leave_while_there_is_credit_to_the_byte() -> None:
    probe = requests()
    add(probe, bytes(100))
    cost = probe.queued_bytes
    for credit, written in ((cost - 1, 0), (cost, 1)):
        made = requests(credit=credit)
        add(made, bytes(100))
        out: list[bytes | memoryview] = []
        made.write(0, out)
        assert bool(out) is bool(written) and sum(map(len, out)) == written * cost
        assert made.queued_bytes == (1 - written) * cost
        assert (made.unwritten, made.settled) == (1 + written, 0)


def test_what_was_taken_is_settled_and_credit_is_never_taken_back() -> None:
    made = requests()
    add(made, b"x")
    out: list[bytes | memoryview] = []
    made.write(0, out)
    add(made, b"y")
    made.write(0, out)
    made.granted(1, PLENTY + 1)
    assert made.settled == 1
    for taken, credit in ((0, PLENTY + 1), (3, PLENTY + 1), (1, PLENTY)):
        with pytest.raises(RemoteProtocolError):
            made.granted(taken, credit)
    made.granted(2, PLENTY + 1)
    assert made.settled == 2 and made.untaken == 0


# --- frames --------------------------------------------------------------------------------------------------------


def test_frames_cut_anywhere_come_out_whole_and_heads_are_checked() -> None:
    seen: list[tuple[FrameKind, int]] = []
    data = control_frame(b"abc") + b"".join(bundle_frame([b"12345"], 7)[0])
    for cut in range(len(data) + 1):
        reader = FrameReader(lambda kind, size: seen.append((kind, size)))
        found = []
        for chunk in (data[:cut], data[cut:]):
            at = 0
            while at < len(chunk):
                frame, at = reader.next(memoryview(chunk), at)
                if frame is not None:
                    found.append((frame.kind, frame.flags, bytes(frame.body), frame.size))
        assert [each[2][-5:] for each in found] == [b"abc", b"12345"] and reader.held_bytes == 0
        assert [each[:2] for each in found] == [(FrameKind.CONTROL, 0), (FrameKind.BUNDLE, 1)]
        assert [each[3] for each in found] == [HEAD_BYTES + 3, HEAD_BYTES + 13]
    assert set(seen) == {(FrameKind.CONTROL, HEAD_BYTES + 3), (FrameKind.BUNDLE, HEAD_BYTES + 13)}


@pytest.mark.parametrize(
    "head",
    [
        (99, 0, 0, 1),
        (FrameKind.CONTROL, 1, 0, 1),
        (FrameKind.BUNDLE, 2, 0, 1),
        (FrameKind.BUNDLE, 0, 1, 1),
        (FrameKind.CONTROL, 0, 0, 0),
    ],
)
def test_heads_that_no_client_sends_are_refused(head: tuple[int, int, int, int]) -> None:
    reader = FrameReader(lambda kind, size: None)
    with pytest.raises(RemoteProtocolError):
        reader.next(memoryview(FRAME.pack(*head) + b"x"), 0)


def test_what_was_heard_is_acknowledged_with_other_things_or_when_it_is_much() -> None:
    hearing = Hearing()
    hearing.bytes_max = 10
    assert not hearing.is_due(True), "nothing was heard"
    hearing.hear(9)
    assert hearing.is_due(True) and not hearing.is_due(False)
    hearing.hear(1)
    assert hearing.is_due(False) and hearing.told() == 2
    assert not hearing.is_due(True)
    hearing.hear(9)
    assert not hearing.is_due(False) and hearing.count == 3


# --- looking for the daemon ----------------------------------------------------------------------------------------


def test_each_address_is_tried_once_then_there_is_a_pause_that_doubles() -> None:
    settings = ClientSettings(retry_first_us=100, retry_max_us=350)
    for least in (True, False):
        drawn = cast(Choice, SimpleNamespace(below=lambda count, least=least: 0 if least else count - 1))
        attempts = Attempts([Address("a"), Address("b")], settings, drawn)
        assert attempts.give_up_at is None
        attempts.begin(5, 1_000)
        assert attempts.give_up_at == 1_005
        pauses = []
        for _ in range(4):
            assert attempts.address() == "a" and attempts.failed("no") == 0
            assert attempts.address() == "b" and attempts.last_reason == "a: no"
            pauses.append(attempts.failed("no"))
        assert pauses == ([50, 100, 175, 175] if least else [100, 200, 350, 350])
        attempts.begin(0, 10)
        attempts.failed("no")
        assert attempts.failed("no") == pauses[0], "from the beginning"
        attempts.found()
        assert attempts.give_up_at is None


def test_a_hopeless_address_is_passed_over_and_two_end_the_search() -> None:
    attempts = Attempts([Address("a"), Address("b")], ClientSettings(), Choice(1))
    attempts.begin(0, 1_000)
    assert attempts.failed("wrong", hopeless=True) == 0 and attempts.address() == "b"
    assert (attempts.failed("no") or 0) > 0 and attempts.address() == "b"
    assert attempts.failed("wrong", hopeless=True) is None


def test_tickets_count_what_was_dropped_before() -> None:
    tickets = Tickets()
    tickets.drop(3, 2)
    tickets.drop(1, 1)
    assert [tickets.ticket_of(sequence) for sequence in (1, 2, 3)] == [2, 5, 6] and tickets.dropped == 3
    many = Tickets()
    for number in range(DROPS_MAX):
        many.drop(2 * number + 2, 1)
    assert many.ticket_of(1) == 1
    many.drop(2 * DROPS_MAX + 2, 1)
    assert many.ticket_of(1) is None and many.ticket_of(2) == 3
    assert many.ticket_of(DROPS_MAX + 2) == 2 * DROPS_MAX + 3


# --- credit --------------------------------------------------------------------------------------------------------


def test_the_pool_lends_in_turn_and_gets_back() -> None:
    pool = Pool(100)
    first, second = Credit(10), Credit(10)
    first.asked = 100
    pool.ask(first)
    second.asked = 1
    pool.ask(second)
    assert (first.wanted, first.asked) == (100, 0)
    assert pool.serve() and (pool.free, first.extra, first.granted) == (0, 100, 110)
    assert not pool.serve() and second.extra == 0
    first.received = 100
    assert first.hand_on(99) == 0 and first.extra == 100
    assert first.hand_on(1) == 100 and first.extra == 0
    pool.free += 100
    assert pool.serve() and pool.free == 99
    pool.leave(second)
    assert pool.free == 100 and second.extra == 0
    first.asked = 101
    pool.ask(first)
    assert not pool.serve()
    pool.leave(first)
    assert first.wanted == 0 and not pool.serve()


def test_credit_is_a_window_above_what_was_handed_on() -> None:
    credit = Credit(10)
    credit.check(10)
    with pytest.raises(RemoteProtocolError):
        credit.check(11)
    credit.received = 10
    with pytest.raises(RemoteProtocolError, match="the credit left is 0"):
        credit.check(1)
    assert credit.hand_on(4) == 0 and credit.granted == 14
    credit.check(4)


def test_sessions_take_turns_and_who_does_not_pass_keeps_his_place() -> None:
    class Asking_:
        def __init__(self, name: str, count: int) -> None:
            self.name, self.inbox = name, list(range(count))

    order: list[str] = []
    one, stuck, two = Asking_("one", 2), Asking_("stuck", 1), Asking_("two", 1)
    waiting: dict[Asking_, None] = {one: None, stuck: None, two: None}

    def hand_on(session: Asking_) -> None:
        order.append(session.name)
        session.inbox.pop()

    moved = in_turn(waiting, lambda session: session is not stuck, hand_on)
    assert order == ["one", "two", "one"] and list(waiting) == [stuck] and list(moved) == [one, two]


# --- slow readers --------------------------------------------------------------------------------------------------


def reader(memory: Memory, settings: ServerSettings, *, stream: int | None = 1, name: str = "alice") -> ServerSession:
    session = ServerSession(
        ClientId(DAEMON, name, 1),
        attempt=b"",
        resumes=True,
        principal="",
        version=1,
        settings=settings,
        memory=memory,
        window=10,
    )
    session.stream = stream
    return session


def holding(session: ServerSession, *sizes: int) -> None:
    session.backlog.clear()
    session.backlog = Backlog(Memory())
    for size in sizes:
        session.backlog.push(Parcel((b"x",), size))


def test_a_reader_is_warned_above_half_and_blocks_above_all_and_ends_above_twice_its_bound() -> None:
    settings = ServerSettings(buffer_bytes_max=1_000)
    counters, memory = SessionCounters(), Memory()
    slow = SlowReaders(settings, memory, counters)
    session = reader(memory, settings)
    holding(session, 1, 499)
    assert slow.judge(session, None) == "" and not session.warned
    holding(session, 5_000)
    assert slow.judge(session, None) == "" and not session.warned, "a single one may have any size"
    holding(session, 1, 500)
    assert slow.judge(session, None) == "" and session.warned and counters.warnings == 1
    holding(session, 500, 500)
    assert slow.judge(session, None) == "" and not session.blocks and counters.warnings == 1
    holding(session, 501, 500)
    assert slow.judge(session, None) == "" and session.blocks and counters.blocked == 1
    assert slow.judge(session, None) == "" and counters.blocked == 1 and list(slow.blocking) == [session]
    holding(session, 1_000, 1_000)
    assert slow.judge(session, None) == ""
    holding(session, 1_001, 1_000)
    assert "2001 bytes were not read while senders were blocked" in slow.judge(session, None)
    holding(session, 1, 500)
    assert not slow.relieve(session) and session.blocks
    holding(session, 250, 250)
    assert slow.relieve(session) and not session.blocks and slow.blocking == {} and session.warned
    assert not slow.relieve(session)
    holding(session, 250)
    slow.relieve(session)
    assert session.warned
    holding(session, 249)
    slow.relieve(session)
    assert not session.warned


def test_without_a_stream_there_is_another_bound() -> None:
    settings = ServerSettings(buffer_bytes_max=1_000, resume_bytes_max=300)
    slow = SlowReaders(settings, Memory(), SessionCounters())
    session = reader(Memory(), settings, stream=None)
    holding(session, 150, 150)
    assert slow.judge(session, None) == "" == slow.judge_parked(300)
    holding(session, 150, 151)
    assert slow.judge(session, None) == "301 bytes were missed; no more than 300 are kept"
    assert slow.calm_bytes == 300
    assert SlowReaders(ServerSettings(buffer_bytes_max=400), Memory(), SessionCounters()).calm_bytes == 200


def test_all_buffers_together_have_a_bound() -> None:
    memory = Memory()
    slow = SlowReaders(ServerSettings(buffers_bytes_max=100), memory, SessionCounters())
    memory.held_bytes = 100
    assert not slow.is_exhausted
    memory.held_bytes = 101
    assert slow.is_exhausted


def test_of_several_groups_the_strictest_policy_counts() -> None:
    settings = ServerSettings(
        buffer_bytes_max=10,
        policies={"lax": SlowPolicy.BLOCK, "strict": SlowPolicy.DISCONNECT},
        policy=SlowPolicy.BLOCK,
    )

    def ends(*groups: str) -> bool:
        slow = SlowReaders(settings, Memory(), SessionCounters())
        session = reader(Memory(), settings)
        holding(session, 6, 6)
        bundle = bundle_of(ALICE, 1, Service.AGREED, list(groups), [b"x"])
        return bool(slow.judge(session, b4.Message(bundle, Stamp(1, DAEMON))))

    assert [ends("lax"), ends("strict"), ends("lax", "strict"), ends("other")] == [False, True, True, False]


SLOW = ServerSettings(buffer_bytes_max=10_000, window_bytes=3_000)


def test_who_left_a_group_does_not_hold_its_senders_any_more() -> None:
    pair = Pair(server=SLOW)
    alice, slow = pair.connect("alice"), pair.connect("slow")
    for group in ("g", "h"):
        pair.ask(slow, b4.Join(group))
    pair.run()
    pair.ask(slow, b4.Leave("h"))
    pair.run()
    pair.pipe(slow).stalled = True
    for _ in range(100):
        if alice.session.room:
            pair.send(alice, bytes(400))
            pair.run()
    assert pair.server.counters.blocked == 1
    before = len(pair.groups.bodies("alice"))
    bob = pair.connect("bob")
    pair.send(bob, b"for g", groups=("g",))
    pair.run()
    assert pair.groups.bodies("bob") == []
    carol = pair.connect("carol")
    pair.send(carol, b"for h", groups=("h",))
    pair.run()
    assert pair.groups.bodies("carol") == [b"for h"] and len(pair.groups.bodies("alice")) == before


# --- streams and time ----------------------------------------------------------------------------------------------


def test_so_many_newcomers_may_be_there_and_each_has_its_time() -> None:
    newcomers = Newcomers(2, 100)
    assert newcomers.first_expiry is None and newcomers.expire(10**9) == []
    assert newcomers.enter(1, Address("a"), 0) is None and newcomers.enter(2, Address("a"), 10) is None
    assert newcomers.enter(3, Address("a"), 20) == 1 and newcomers.streams() == [2, 3] and len(newcomers) == 2
    assert newcomers.first_expiry == 110 and newcomers.expire(109) == [] and newcomers.expire(110) == [2]
    assert newcomers.remove(3) and not newcomers.remove(3)


def test_those_who_went_are_remembered_up_to_a_bound() -> None:
    admission = Admission(DAEMON, SECRET, admit_all, 10)
    for number in range(DEPARTED_MAX + 1):
        admission.remember(ClientId(DAEMON, "x", number), Farewell(EndCode.ASKED, str(number)))
    assert [each.reason for _, each in admission.departed(2)] == [str(DEPARTED_MAX), str(DEPARTED_MAX - 1)]
    assert len(admission.departed(10**6)) == DEPARTED_MAX
    assert (admission.next_id("a").session, admission.next_id("a").session) == (1, 2)


def test_wide_windows_are_for_the_first() -> None:
    settings = ServerSettings(wide_windows_max=2)
    assert settings.window_of_one_more(1) == settings.wide_window_bytes
    assert settings.window_of_one_more(2) == WINDOW_BYTES
    assert ServerSettings(window_bytes=5).window_of_one_more(0) == 5
    assert ServerSettings(buffer_bytes_max=800).acknowledge_bytes == 100
    assert ServerSettings().acknowledge_bytes == 256 * KIB


def test_a_stream_on_which_nothing_comes_is_given_up_at_a_sweep() -> None:
    settings = ServerSettings(silence_us=4_000, resume_within_us=50_000, heartbeat_us=1_000)
    pair = Pair(server=settings)
    alice = pair.connect("alice")
    armed = pair._timers[SWEEP]
    assert armed == pair.now + settings.silence_us // SWEEPS
    pair.kill(alice, silent=True)
    pair.pass_time(3_999)
    assert pair.server.all[0].stream is not None
    pair.pass_time(1)
    assert pair.server.all[0].stream is None and pair.server.sessions == 1
    parked = pair.now
    assert pair.server.all[0].parked_until == parked + 50_000
    pair.pass_time(49_999)
    assert pair.server.sessions == 1
    pair.pass_time(1)
    assert pair.server.sessions == 0 and pair.server.counters.ended[EndCode.GONE] == 1


def test_a_sweep_that_comes_late_takes_the_time_off() -> None:
    settings = ServerSettings(silence_us=4_000)
    for late, given_up in ((1_000, True), (1_001, False)):
        pair = Pair(server=settings)
        pair.connect("alice")
        sweep_at = pair._timers[SWEEP]
        pair.server.all[0].heard_at = sweep_at + late - 4_000
        actions = pair.server.handle(TimerFired(sweep_at + late, SWEEP))
        assert any(isinstance(each, CloseStream) for each in actions) is given_up
        assert any(isinstance(each, SetTimer) and each.key == SWEEP for each in actions) is not given_up


def test_a_daemon_that_stops_says_so_to_everybody() -> None:
    pair = Pair()
    alice, bob = pair.connect("alice"), pair.connect("bob")
    pair.tell_server(Stopping(pair.now))
    pair.run()
    assert pair.server.counters.ended[EndCode.SHUTDOWN] == 2
    asked = [client.name for client, request in pair.groups.asked if isinstance(request, b4.Disconnect)]
    assert asked == ["alice", "bob"]
    for app in (alice, bob):
        assert [each.code for each in app.notices if isinstance(each, Ended)] == [EndCode.SHUTDOWN]


def test_requests_expire_in_the_daemon_when_their_time_has_come() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    pair.server.note_room(0)
    began = pair.now
    pair.send(alice, b"soon", deadline_us=1_000)
    pair.send(alice, b"later", deadline_us=5_000)
    pair.run()
    assert pair.server.all[0].first_expiry == began + 1_000 and pair.server.has_held
    pair.pass_time(999)
    assert alice.noticed(Dropped) == []
    pair.pass_time(1)
    assert [(each.first, each.count) for each in alice.noticed(Dropped) if isinstance(each, Dropped)] == [(1, 1)]
    assert pair.server.all[0].first_expiry == began + 5_000 and pair.server.counters.dropped_messages == 1


def test_a_session_that_goes_on_is_counted() -> None:
    pair = Pair()
    alice = pair.connect("alice")
    for number in (1, 2):
        pair.cut(pair.pipe(alice))
        pair.pass_time(3_000_000)
        assert pair.server.counters.resumed == number and alice.session.is_connected
    assert pair.server.counters.opened == pair.server.sessions == 1


def test_messages_share_a_bundle_up_to_the_window_to_the_byte() -> None:
    together = requests(window=PLENTY)
    add(together, bytes(50))
    add(together, bytes(50))
    cost = together.queued_bytes
    for window, shared in ((cost, True), (cost - 1, False)):
        made = requests(window=window)
        add(made, bytes(50))
        add(made, bytes(50))
        assert (made.queued_bytes == cost) is shared
