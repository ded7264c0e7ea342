"""A client of the log's port keeps its time itself: a server that is stopped, or gone, says nothing."""

from __future__ import annotations

import pytest

from isotone.core.contract import StreamWritable
from isotone.core.errors import LocalProtocolError, MachineError
from isotone.core.ordered_log import Maybe, Refused
from isotone.corel.port import wire
from isotone.corel.port.client import GIVE_UP_AT, Stage
from isotone.corel.port.events import OfferWanted, Parting, Unanswered, Unwanted, Unwelcome
from isotone.corel.port.requests import RECORD_BYTES_MAX, TURN_BYTES_MAX
from tests.corel.port.hand import SECOND, Hand

END = wire.Question(0, "end")
HOUR = 3_600 * SECOND
MIB = 1024 * 1024


def opened(*addresses: str, **patience: int) -> Hand:
    hand = Hand(*addresses, **patience)
    hand.ask(END)
    hand.open()
    hand.hear(wire.Told(1, 0))
    return hand


# --- servers that say nothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "outcome"),
    [("append", Maybe), ("ask", Unanswered), ("change", Maybe)],
)
def test_a_deadline_is_kept_and_the_server_that_said_nothing_is_left(what: str, outcome: type[Exception]) -> None:
    hand = opened("a:1", "b:1")
    hand.wait(10 * SECOND)
    if what == "append":
        (ticket,) = hand.append(b"x", within_us=SECOND)
    else:
        frame = wire.WaitFor(0, 7, 0) if what == "ask" else wire.Reconfigure(0, "", "a", 0)
        ticket = hand.ask(frame, within_us=SECOND, is_change=what == "change")
        assert hand.said[-1].within_ms == 1_000  # type: ignore[union-attr]
    hand.wait(2 * SECOND - 1)
    assert ticket not in hand.settled
    hand.wait(1)
    assert isinstance(hand.settled[ticket], outcome) and hand.closed == [0]
    later = hand.append(b"elsewhere")
    hand.open("b")
    hand.hear(wire.Ordered((1,), (5,)))
    assert hand.place == "b:1" and hand.settled[later[0]] == 5


def test_one_that_answers_others_is_not_left_at_a_deadline() -> None:
    hand = opened("a:1", "b:1")
    (ticket,) = hand.append(b"in a minority", within_us=SECOND)
    hand.wait(SECOND + SECOND // 2)
    hand.hear(wire.White(99, 1))
    hand.wait(SECOND // 2)
    assert isinstance(hand.settled[ticket], Maybe) and hand.closed == []


def test_who_has_no_deadline_hears_it_too_when_the_server_is_left() -> None:
    hand = opened()
    hand.wait(SECOND)
    (patient,), (hasty,) = hand.append(b"one"), hand.append(b"two", within_us=0)
    hand.wait(SECOND)
    assert {type(hand.settled[each]) for each in (patient, hasty)} == {Maybe}


@pytest.mark.parametrize("what", ["append", "ask", "follow"])
def test_a_server_that_is_stopped_is_left_also_without_a_deadline(what: str) -> None:
    hand = opened("a:1", "b:1", look_every_us=SECOND)
    if what == "append":
        (ticket,) = hand.append(b"x")
    else:
        ticket = hand.ask(END) if what == "ask" else hand.follow(wire.Follow(0, 1, 100))
    hand.wait((GIVE_UP_AT - 1) * SECOND)
    assert hand.closed == [] and hand.said[-1] == wire.Question(3, "end"), "it is asked before it is left"
    hand.wait(SECOND)
    assert hand.closed == [0]
    if what == "append":
        assert isinstance(hand.settled[ticket], Maybe)
        return
    hand.wait(SECOND)
    hand.open("b")
    assert hand.place == "b:1" and type(hand.said[-1]) is (wire.Question if what == "ask" else wire.Follow)


def test_a_server_that_has_nothing_to_say_yet_is_asked_and_not_left() -> None:
    hand = opened(look_every_us=SECOND)
    ticket = hand.ask(wire.WaitFor(0, 1, 0))
    for _ in range(5):
        hand.wait((GIVE_UP_AT - 1) * SECOND)
        hand.hear(wire.Told(hand.last(wire.Question).request, 0))
    hand.hear(wire.Told(2, 1))
    assert hand.settled[ticket] == 1 and hand.closed == []


def test_nobody_is_asked_while_nobody_waits() -> None:
    hand = opened(look_every_us=SECOND)
    said = len(hand.said)
    hand.wait(100 * SECOND)
    assert len(hand.said) == said and hand.closed == []


# --- room ------------------------------------------------------------------------------------------------------------


def test_what_finds_no_room_in_time_was_not_sent() -> None:
    hand = Hand(is_full=True)
    (large,) = hand.append(bytes(MIB))
    hand.open()
    hand.wait(5 * SECOND)
    hand.hear(wire.White(99, 1))
    (late,) = hand.append(b"x", within_us=SECOND // 2)
    hand.wait(SECOND // 2)
    assert isinstance(hand.settled[late], MachineError) and "was not sent" in str(hand.settled[late])
    assert hand.closed == [] and large not in hand.settled, "it spoke a moment ago"
    hand.append(b"y", within_us=SECOND)
    hand.wait(SECOND)
    assert hand.closed == [0] and isinstance(hand.settled[large], Maybe)


def test_no_more_is_open_than_the_server_said() -> None:
    hand = Hand()
    tickets = hand.append(*(b"%d" % number for number in range(10)))
    hand.open(appends_max=4)
    assert hand.last(wire.AppendMany).records == (b"0", b"1", b"2", b"3")
    hand.hear(wire.Ordered((1, 2), (1, 2)))
    assert hand.last(wire.AppendMany) == wire.AppendMany(5, 0, (b"4", b"5"))
    hand.tell(Unwanted(hand.at, tickets[2]))  # it is open at the server all the same
    assert hand.last(wire.AppendMany).request == 5
    hand.hear(wire.Ordered((3,), (3,)))
    assert hand.last(wire.AppendMany) == wire.AppendMany(7, 0, (b"6",))
    hand.tell(Unwanted(hand.at, tickets[9]))  # it was not sent, and never will be
    hand.hear(wire.Ordered((4, 5, 6, 7), (4, 5, 6, 7)))
    assert hand.last(wire.AppendMany) == wire.AppendMany(8, 0, (b"7", b"8"))


def test_a_record_larger_than_all_that_may_be_open_goes_alone() -> None:
    hand = Hand()
    hand.append(b"small", bytes(1_000), b"later")
    hand.open(append_bytes_max=100)
    assert hand.last(wire.AppendMany).records == (b"small",)
    hand.hear(wire.Ordered((1,), (1,)))
    assert hand.last(wire.AppendMany).records == (bytes(1_000),)
    hand.hear(wire.Unordered(2, False, "no"))
    assert hand.last(wire.AppendMany).records == (b"later",) and isinstance(hand.settled[2], Refused)


def test_appends_of_one_turn_fit_into_frames_that_the_server_takes() -> None:
    """40 MiB in one turn: above the limit of a frame, and each of them is numbered where its frame says."""
    hand = Hand()
    hand.append(*[bytes(MIB)] * 40, bytes(2 * TURN_BYTES_MAX))
    hand.open(append_bytes_max=100 * MIB)
    told = [(each.request, len(each.records)) for each in hand.said if isinstance(each, wire.AppendMany)]
    assert told == [*((1 + 4 * number, 4) for number in range(10)), (41, 1)]
    (ticket,) = hand.append(bytes(wire.FRAME_BYTES_MAX))
    assert isinstance(hand.settled[ticket], Refused) and "a record of 33554432 bytes" in str(hand.settled[ticket])
    hand.append(bytes(RECORD_BYTES_MAX))
    assert len(hand.last(wire.AppendMany).records[0]) == RECORD_BYTES_MAX


def test_a_state_goes_in_pieces_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PIECE_BYTES_MAX", 300_000)
    hand = Hand(is_full=True)
    hand.tell(OfferWanted(0, 1, 7, bytes(700_000)))
    hand.open()
    sizes = []
    for _ in range(3):
        sizes.append(len(hand.last(wire.OfferSnapshot).piece))
        assert sum(isinstance(each, wire.OfferSnapshot) for each in hand.said) == len(sizes)
        hand.tell(StreamWritable(hand.at, 0))
    assert sizes == [300_000, 300_000, 100_000]
    assert hand.last(wire.OfferSnapshot).is_last
    hand.hear(wire.Told(1, 7))
    assert hand.settled == {1: 7}


# --- finding a server ------------------------------------------------------------------------------------------------


def test_every_address_has_its_share_of_the_time() -> None:
    """The first accepts the connection and says nothing."""
    hand = Hand("a:1", "b:1", connect_within_us=50 * SECOND)
    (ticket,) = hand.append(b"x")
    hand.wait(25 * SECOND - 1)
    assert hand.place == "a:1"
    hand.wait(1)
    assert hand.place == "b:1" and hand.closed == [0]
    hand.open("b")
    hand.hear(wire.Ordered((1,), (1,)))
    assert hand.settled == {ticket: 1} and hand.client.server == "b"


def test_connecting_counts_for_a_deadline() -> None:
    hand = Hand(connect_within_us=HOUR)
    (ticket,) = hand.append(b"not sent", within_us=SECOND)
    hand.wait(SECOND)
    assert isinstance(hand.settled[ticket], MachineError) and "no server of the log answers" in str(
        hand.settled[ticket]
    )


def test_who_is_refused_tries_the_others_once() -> None:
    hand = Hand("a:1", "b:1", connect_within_us=HOUR)
    ticket = hand.ask(END)
    hand.tell_refused()
    hand.lose("connection refused")
    assert isinstance(hand.settled[ticket], Unwelcome)
    assert str(hand.settled[ticket]) == (
        "no server of the log takes this client: a:1: you are not known; b:1: connection refused"
    )
    assert hand.client.stage is Stage.IDLE


@pytest.mark.parametrize("way", ["ask", "follow"])
def test_a_server_that_hangs_up_is_asked_again_after_a_pause_that_grows(way: str) -> None:
    """It takes the connection, and ends it at the first question."""
    hand = Hand()
    if way == "ask":
        hand.ask(END)
    else:
        hand.follow(wire.Follow(0, 1, 100))
    pauses = []
    for _ in range(7):
        hand.open()
        hand.lose()
        pauses.append(hand.timers["rest", 1] - hand.at)
        hand.wait(pauses[-1])
    assert pauses == [50_000, 100_000, 200_000, 400_000, 800_000, SECOND, SECOND]


def test_where_nobody_listens_all_are_tried_again_after_a_pause_that_grows() -> None:
    hand = Hand("a:1", "b:1")
    (ticket,) = hand.append(b"x")
    pauses = []
    for _ in range(4):
        hand.lose("connection refused")
        hand.lose("connection refused")
        pauses.append(hand.timers["again"] - hand.at)
        hand.wait(pauses[-1])
    assert pauses == [50_000, 100_000, 200_000, 400_000]
    hand.wait(5 * SECOND)
    assert "no server of the log answers: a:1: " in str(hand.settled[ticket])


def test_who_asks_once_hears_at_once_that_nobody_answers() -> None:
    hand = Hand(tries_again=False)
    ticket = hand.ask(END)
    hand.lose("connection refused")
    assert isinstance(hand.settled[ticket], MachineError) and hand.timers == {}


# --- losing one ------------------------------------------------------------------------------------------------------


def test_what_is_followed_goes_on_elsewhere_behind_what_came() -> None:
    hand = opened("a:1", "b:1")
    ticket = hand.follow(wire.Follow(0, 1, 100))
    came = wire.Entries(2, 1, (b"one", b"two"), ((2, "m"),))
    hand.hear(came)
    hand.lose()
    hand.wait(HOUR)
    assert len(hand.opened) == 1, "nothing more comes while what came is not used"
    hand.used(ticket, came)
    hand.open("b")
    assert hand.last(wire.Follow) == wire.Follow(1, 3, 100) and hand.came == [came]


def test_what_is_followed_waits_for_a_server_however_long_that_takes() -> None:
    hand = opened("a:1", "b:1")
    ticket = hand.follow(wire.Follow(0, 1, 100))
    hand.lose()
    hand.wait(HOUR)
    assert ticket not in hand.settled
    while hand.client.stage is not Stage.OPENING:
        hand.wait(1_000)
    hand.open("b")
    assert hand.last(wire.Follow) == wire.Follow(1, 1, 100)
    new = Hand()
    ticket = new.follow(wire.Follow(0, 1, 100))
    new.wait(HOUR)
    assert isinstance(new.settled[ticket], MachineError), "one that never had a server hears that there is none"


def test_red_does_not_go_on_elsewhere() -> None:
    hand = opened()
    ticket = hand.follow(wire.FollowRed(0, 100), elsewhere=False)
    hand.lose()
    assert isinstance(hand.settled[ticket], MachineError)


def test_who_breaks_a_rule_hears_so_and_does_not_ask_again() -> None:
    hand = opened()
    asked, (appended,) = hand.ask(END), hand.append(b"x")
    hand.hear(wire.Failed(0, "RemoteProtocolError", "not a frame"))
    hand.lose("closed")
    assert isinstance(hand.settled[asked], LocalProtocolError) and isinstance(hand.settled[appended], Maybe)


def test_a_server_that_speaks_nonsense_is_left() -> None:
    hand = opened()
    (ticket,) = hand.append(b"x")
    hand.hear(wire.Hello(1, "a client"))
    assert isinstance(hand.settled[ticket], Maybe) and hand.closed == [0]


def test_parting_answers_everybody() -> None:
    hand = opened()
    (sent,), asked = hand.append(b"x"), hand.ask(END)
    hand.tell(Parting(hand.at))
    assert isinstance(hand.settled[sent], Maybe) and isinstance(hand.settled[asked], MachineError)
    assert hand.closed == [0] and hand.timers == {}


def test_a_request_too_many_is_refused_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.corel.port.client.OPEN_MAX", 2)
    hand = opened()
    asked = [hand.append(record)[0] for record in (b"one", b"two", b"three")]
    assert [type(hand.settled.get(ticket)) for ticket in asked] == [type(None), type(None), Refused]
    assert isinstance(hand.settled[hand.ask(END)], Refused)
