"""The parts of a session, each alone: backlog, credit, requests, tickets, attempts."""

from __future__ import annotations

import pytest

from isotone.core.bundles import Bundle
from isotone.core.choice import Choice
from isotone.core.codec.bundle import decode_bundle
from isotone.core.contract import Address
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.evs.sessions.attempts import Attempts
from isotone.evs.sessions.backlog import Backlog, Memory, Parcel
from isotone.evs.sessions.credit import Credit, Pool
from isotone.evs.sessions.frames import HEAD_BYTES
from isotone.evs.sessions.messages import JoinAsked
from isotone.evs.sessions.requests import Requests
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from isotone.evs.sessions.tickets import Tickets

ALICE = ClientId(DaemonId("d", 1), "alice", 1)
PLENTY = 1 << 30


# --- backlog -----------------------------------------------------------------------------------------------------


def parcels(count: int, size: int = 10) -> list[Parcel]:
    return [Parcel((b"%d" % place,), size) for place in range(count)]


def written(backlog: Backlog, bytes_max: int = 1000) -> list[bytes | memoryview]:
    out: list[bytes | memoryview] = []
    backlog.write(bytes_max, out)
    return out


def test_what_is_shared_is_counted_once() -> None:
    memory = Memory()
    one, two = Backlog(memory), Backlog(memory)
    (parcel,) = parcels(1)
    one.push(parcel)
    two.push(parcel)
    assert memory.held_bytes == one.held_bytes == 10
    written(one)
    one.acknowledge(1)
    assert memory.held_bytes == 10 and one.held_bytes == 0
    two.clear()
    assert memory.held_bytes == 0


def test_what_was_not_acknowledged_is_written_again_in_order() -> None:
    backlog = Backlog(Memory())
    for parcel in parcels(5):
        backlog.push(parcel)
    assert written(backlog, 25) == [b"0", b"1", b"2"]
    backlog.acknowledge(1)
    backlog.rewind()
    backlog.acknowledge(2)  # the client had heard more than it said before
    assert written(backlog) == [b"2", b"3", b"4"] and backlog.is_written
    assert backlog.sent == 5


def test_a_client_cannot_have_heard_what_was_not_written_nor_less_than_before() -> None:
    backlog = Backlog(Memory())
    for parcel in parcels(3):
        backlog.push(parcel)
    written(backlog, 15)
    with pytest.raises(RemoteProtocolError):
        backlog.acknowledge(3)
    backlog.acknowledge(2)
    with pytest.raises(RemoteProtocolError):
        backlog.acknowledge(1)


def test_what_is_acknowledged_after_the_end_does_not_matter() -> None:
    backlog = Backlog(Memory())
    for parcel in parcels(3):
        backlog.push(parcel)
    written(backlog)
    backlog.clear()
    backlog.acknowledge(2)
    assert backlog.held_bytes == 0


# --- credit ------------------------------------------------------------------------------------------------------


def test_credit_comes_back_when_requests_are_handed_on() -> None:
    credit = Credit(100)
    credit.check(100)
    credit.received = 80
    with pytest.raises(RemoteProtocolError):
        credit.check(21)
    credit.hand_on(50)
    credit.check(70)
    assert credit.granted == 150


def test_credit_for_large_requests_is_lent_in_turn_and_comes_back() -> None:
    pool = Pool(1000)
    one, two = Credit(100), Credit(100)
    for credit, cost in ((one, 700), (two, 600)):
        credit.asked = cost
        pool.ask(credit)
    assert pool.serve() and not pool.serve()
    assert (one.granted, two.granted, pool.free) == (800, 100, 300)
    one.received = 700
    pool.free += one.hand_on(700)
    assert pool.free == 1000 and one.granted == 800 and pool.serve()
    assert two.granted == 700
    pool.leave(two)
    assert pool.free == 1000


def test_small_requests_do_not_stretch_what_was_lent() -> None:
    pool, credit = Pool(1000), Credit(100)
    credit.asked = 500
    pool.ask(credit)
    pool.serve()
    back = 0
    for _ in range(50):
        credit.received += 10
        back += credit.hand_on(10)
        assert credit.granted - credit.handed <= 100 + 500 - back
    assert back == 500 and credit.granted == credit.handed + 100


def test_what_is_lent_later_comes_back_when_as_much_was_handed_on_since() -> None:
    pool, credit = Pool(1000), Credit(100)
    credit.received = 90
    assert credit.hand_on(90) == 0
    credit.asked = 500
    pool.ask(credit)
    pool.serve()
    assert credit.granted == 90 + 100 + 500
    assert [credit.hand_on(200) for _ in range(3)] == [0, 0, 500]
    assert credit.granted == 90 + 600 + 100


# --- requests ----------------------------------------------------------------------------------------------------


def requests(*, credit: int = PLENTY, window: int = PLENTY, **settings: int) -> Requests:
    made = Requests(ClientSettings(**settings))
    made.open(ALICE, credit, window)
    return made


def add(to: Requests, body: bytes, group: str = "g", service: Service = Service.AGREED, **more: int) -> None:
    to.add_messages(service, (group,), body, (len(body),), (0,), **more)


def bundles(made: Requests, at: int = 0) -> list[Bundle]:
    out: list[bytes | memoryview] = []
    made.write(at, out)
    data, found = b"".join(out), []
    while data:
        size = int.from_bytes(data[4:8], "little")
        body = data[HEAD_BYTES + (8 if data[1] else 0) : HEAD_BYTES + size]
        if data[0] == 1:
            found.append(decode_bundle(body, payload_max=1 << 24)[0])
        data = data[HEAD_BYTES + size :]
    return found


def test_messages_that_wait_become_one_bundle_for_each_run() -> None:
    made = requests()
    for body, group in ((b"a", "g"), (b"b", "g"), (b"c", "h"), (b"d", "g"), (b"e", "g")):
        add(made, body, group)
    made.add_control(JoinAsked("x"))
    add(made, b"f")
    add(made, b"g", service=Service.FIFO)
    add(made, b"h", service=Service.FIFO, flags=1)
    found = bundles(made)
    assert [bytes(each.payload) for each in found] == [b"ab", b"c", b"de", b"f", b"g", b"h"]
    assert [each.first_sequence for each in found] == [1, 3, 4, 6, 7, 8]


def test_a_bundle_has_a_bound() -> None:
    made = requests(bundle_bytes_max=100, write_bytes_max=10_000)
    for _ in range(25):
        add(made, bytes(10))
    assert [each.count for each in bundles(made)] == [10, 10, 5]


def test_one_write_ends_when_it_is_full() -> None:
    made = requests(bundle_bytes_max=100, write_bytes_max=150)
    for _ in range(25):
        add(made, bytes(10))
    assert [each.count for each in bundles(made)] == [10]
    assert [each.count for each in bundles(made)] == [10]


def test_without_credit_messages_wait_and_are_refused_when_the_queue_is_full() -> None:
    made = requests(credit=0, queue_bytes_max=1000)
    while made.room:
        made.check_room()
        add(made, bytes(100))
    assert bundles(made) == [] and made.queued_bytes >= 1000
    with pytest.raises(LocalProtocolError, match="no room"):
        made.check_room()
    made.granted(0, PLENTY)
    assert sum(each.count for each in bundles(made)) == made.submitted
    assert made.room == 1000


def test_what_was_not_taken_is_written_again_with_what_is_left_of_its_deadline() -> None:
    made = requests()
    add(made, b"one", expires_at=1000)
    bundles(made, 100)
    made.add_control(JoinAsked("x"))
    add(made, b"two")
    bundles(made)
    assert made.settled == 0
    made.resumed(0, PLENTY)
    out: list[bytes | memoryview] = []
    made.write(300, out)
    assert bytes(out[0])[8:16] == (700).to_bytes(8, "little")
    made.granted(1, PLENTY)
    assert made.settled == 1
    made.resumed(2, PLENTY)
    assert [bytes(each.payload) for each in bundles(made)] == [b"two"]
    made.granted(3, PLENTY)
    assert made.settled == 2 and made.untaken == 0


def test_credit_that_was_spent_on_a_broken_stream_is_not_lost() -> None:
    made = requests(credit=400, window=400)
    add(made, bytes(200))
    add(made, bytes(200), "h")
    assert len(bundles(made)) == 1
    made.resumed(0, 400)
    assert len(bundles(made)) == 1
    made.granted(1, 700)
    assert len(bundles(made)) == 1


def test_a_daemon_cannot_have_taken_what_was_not_sent_nor_take_credit_back() -> None:
    made = requests(credit=1000)
    add(made, b"a")
    bundles(made)
    for taken, credit in ((2, 1000), (1, 999)):
        with pytest.raises(RemoteProtocolError):
            made.granted(taken, credit)
    made.granted(1, 1000)
    with pytest.raises(RemoteProtocolError):
        made.granted(0, 1000)


def test_credit_for_a_message_above_the_window_is_asked_for_once() -> None:
    made = requests(credit=100, window=100)
    add(made, bytes(500), expires_at=50)
    cost = made.want_credit()
    assert cost > 500 and made.want_credit() == 0
    assert made.expire(60) == []  # it was paid for: the daemon judges its deadline
    made.resumed(0, 100)
    assert made.want_credit() == cost
    made.granted(0, 100 + cost)
    assert [each.count for each in bundles(made)] == [1]


def test_messages_expire_while_they_wait_and_take_no_sequence_from_others() -> None:
    made = requests(credit=0)
    for body, expires_at in ((b"a", 100), (b"b", 200), (b"c", 100)):
        add(made, body, expires_at=expires_at)
    assert made.first_expiry == 100
    assert made.expire(150) == [(1, 1), (3, 1)]
    assert made.first_expiry == 200
    made.granted(0, PLENTY)
    assert [each.first_sequence for each in bundles(made)] == [2]


# --- tickets -----------------------------------------------------------------------------------------------------


def test_tickets_of_what_was_sent() -> None:
    tickets = Tickets()
    sent = [ticket for ticket in range(1, 40) if ticket not in (1, 2, 7, 20, 21, 22)]
    for first, count in ((7, 1), (20, 3), (1, 2)):
        tickets.drop(first, count)
    assert [tickets.ticket_of(sequence) for sequence in range(1, len(sent) + 1)] == sent
    assert tickets.dropped == 6


def test_very_many_drops_are_forgotten_from_the_front() -> None:
    tickets = Tickets()
    for number in range(2000):
        tickets.drop(2 * number + 1, 1)
    assert tickets.ticket_of(5) is None
    assert [tickets.ticket_of(each) for each in (1500, 1999, 2000, 2001)] == [3000, 3998, 4000, 4001]


# --- attempts ----------------------------------------------------------------------------------------------------


def test_addresses_are_tried_in_turn_and_pauses_grow() -> None:
    attempts = Attempts([Address("a"), Address("b")], ClientSettings(), Choice(1))
    attempts.begin(0, 1000)
    pauses, tried = [], []
    for _ in range(12):
        tried.append(attempts.address())
        pauses.append(attempts.failed("refused"))
    assert tried == ["a", "b"] * 6 and pauses[::2] == [0] * 6
    longest = ClientSettings().retry_max_us
    assert all(25_000 <= (pause or 0) <= longest for pause in pauses[1::2])
    assert (pauses[-1] or 0) > (pauses[1] or 0)
    attempts.begin(5000, 1000)
    assert attempts.address() == "a"  # the next in turn; and pauses begin anew
    attempts.failed("refused")
    assert (attempts.failed("refused") or 0) <= 50_000


def test_when_no_address_makes_sense_the_search_ends() -> None:
    attempts = Attempts([Address("a"), Address("b")], ClientSettings(), Choice(1))
    attempts.begin(0, 1000)
    assert attempts.failed("version", hopeless=True) == 0
    assert attempts.address() == "b"
    assert attempts.failed("refused") and attempts.address() == "b"
    assert attempts.failed("version", hopeless=True) is None
    assert attempts.last_reason == "b: version"


# --- settings ----------------------------------------------------------------------------------------------------


def test_bounds_of_memory_follow_from_the_settings() -> None:
    small = ServerSettings(sessions_max=10, window_bytes=1000, large_bytes_max=5000, buffers_bytes_max=7000)
    assert small.memory_max > 4 * (10 * 1000 + 5000) + 7000
    assert small.memory_max < ServerSettings().memory_max
    assert ClientSettings(queue_bytes_max=0).memory_max(10) < ClientSettings().memory_max(10)


def test_a_second_request_above_the_window_is_granted_while_the_first_is_not_handed_on() -> None:
    """Both loans last until both requests left: seed 98 of the full stack waited for ever for the second."""
    pool, credit = Pool(1000), Credit(100)
    credit.asked = 300
    pool.ask(credit)
    assert pool.serve() and credit.granted == 400
    credit.received = 300
    credit.asked = 200
    pool.ask(credit)
    assert pool.serve() and credit.granted - credit.received >= 200
    assert pool.free == 500
    assert credit.hand_on(300) == 0
    assert credit.hand_on(200) == 500


def test_the_first_sessions_have_wide_windows_unless_somebody_chose_one() -> None:
    usual = ServerSettings(wide_windows_max=2)
    assert [usual.window_of_one_more(wide) for wide in (0, 1, 2, 9)] == [1 << 20, 1 << 20, 128 << 10, 128 << 10]
    assert ServerSettings(window_bytes=4_000).window_of_one_more(0) == 4_000
    assert ServerSettings(window_bytes=4 << 20).window_of_one_more(0) == 4 << 20
