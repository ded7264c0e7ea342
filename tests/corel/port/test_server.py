"""The server's end of the log's port: what it greets, hands on and answers, and its bounds."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    WriteStream,
)
from isotone.core.ordered_log import Maybe
from isotone.corel.port import connection, wire
from isotone.corel.port.connection import OPEN_APPENDS_MAX, OPEN_BYTES_MAX, REQUESTS_MAX
from isotone.corel.port.events import (
    AppendAnswer,
    AppendsAnswered,
    Dropped,
    LogEnded,
    NextFound,
    NextWanted,
    RecordsCame,
    SnapshotCame,
    WorkDone,
    WorkUnwanted,
    WorkWanted,
)
from isotone.corel.port.server import PortServer, PortTimes

HELLO = wire.Hello(wire.VERSION, "client")
STREAM = -1


class Server:
    """What it says to one client, which reads at once unless ``is_full``."""

    def __init__(self, *frames: wire.Said, is_full: bool = False) -> None:
        self.port = PortServer("a", judge_change=lambda name, credential, peer: "you may not")
        self.is_full = is_full
        self.said: list[wire.ServerFrame] = []
        self.wanted: list[Action] = []
        self._frames: wire.Frames[wire.ServerFrame] = wire.Frames(wire.SERVER_FRAMES)
        self.tell(StreamOpened(0, STREAM, Address("somewhere"), True))
        self.hear(HELLO, *frames)

    def tell(self, event: Any) -> None:
        for action in self.port.handle(event):
            if isinstance(action, WriteStream):
                self.said += self._frames.feed(b"".join(action.data))
                if not self.is_full:
                    self.tell(StreamWritable(0, STREAM))
            else:
                self.wanted.append(action)

    def hear(self, *frames: wire.Said) -> None:
        self.tell(StreamReceived(0, STREAM, b"".join(map(wire.framed, frames))))

    def answer(self, *outcomes: tuple[int, Any]) -> None:
        answers = tuple(AppendAnswer(STREAM, request, outcome) for request, outcome in outcomes)
        self.tell(AppendsAnswered(0, answers))

    def all(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.wanted if isinstance(each, kind)]

    @property
    def is_dropped(self) -> str:
        assert bool(self.all(Dropped)) == bool(self.all(CloseStream)) == (not self.port.connections)
        return self.all(Dropped)[0].reason if self.all(Dropped) else ""


def entries(request: int, size: int) -> wire.Entries:
    return wire.Entries(request, 1, (bytes(size),), ((1, "m"),))


def test_appends_go_to_the_log_and_answers_of_one_turn_are_one_frame() -> None:
    server = Server(wire.AppendMany(1, 500, (b"one", b"two", b"three")))
    assert server.said == [wire.Welcome(wire.VERSION, "a", OPEN_APPENDS_MAX, OPEN_BYTES_MAX)]
    assert server.all(RecordsCame) == [RecordsCame(STREAM, 1, 500, (b"one", b"two", b"three"))]
    server.answer((1, 7), (3, 9), (2, Maybe("why", "m")), (2, 8), (99, 1))
    assert server.said[1:] == [wire.Unordered(2, True, "why", "m"), wire.Ordered((1, 3), (7, 9))]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ((wire.AppendMany(1, 0, tuple([b""] * (OPEN_APPENDS_MAX + 1))),), "more than 4096 appends"),
        ((wire.AppendMany(1, 0, (bytes(OPEN_BYTES_MAX), b"x")),), "more than 4096 appends or 16777216 bytes"),
        ((wire.AppendMany(1, 0, (b"x",)), wire.AppendMany(1, 0, (b"y",))), "request 1 is open already"),
        ((wire.WaitFor(1, 1, 0), wire.Follow(1, 1, 1)), "request 1 is open already"),
        ((HELLO,), "a client says hello once"),
    ],
    ids=["appends", "bytes", "append twice", "request twice", "hello twice"],
)
def test_who_breaks_a_rule_is_dropped(frames: tuple[wire.Said, ...], reason: str) -> None:
    server = Server(*frames)
    assert reason in server.is_dropped
    failed = server.said[-1]
    assert isinstance(failed, wire.Failed) and failed.kind == "RemoteProtocolError"


def test_one_record_alone_may_be_larger_than_all_others_together() -> None:
    server = Server(wire.AppendMany(1, 0, (bytes(OPEN_BYTES_MAX + 1),)))
    server.answer((1, 1))
    server.hear(wire.AppendMany(2, 0, (bytes(OPEN_BYTES_MAX),)))
    assert not server.is_dropped


def test_what_is_large_is_made_one_after_another_as_it_is_read() -> None:
    asked = [wire.ReadRange(1, 1, 9), wire.Question(2, "messages", "0 9"), wire.Question(3, "end")]
    server = Server(*asked, is_full=True)
    assert [each.frame.request for each in server.all(WorkWanted)] == [1, 3], "the small one does not wait"
    server.tell(WorkDone(0, STREAM, 3, wire.Told(3, 5)))
    server.tell(WorkDone(0, STREAM, 1, entries(1, 100_000)))
    assert [each.frame.request for each in server.all(WorkWanted)] == [1, 3]
    server.tell(StreamWritable(0, STREAM))
    assert [each.frame.request for each in server.all(WorkWanted)] == [1, 3, 2]


def test_who_follows_gets_as_much_as_credit_goes_and_one_after_another() -> None:
    server = Server(wire.Follow(1, 5, 1_000), wire.Follow(2, 1, 1_000), is_full=True)
    assert server.all(NextWanted) == [
        NextWanted(STREAM, wire.Follow(1, 5, 1_000)),
        NextWanted(STREAM, wire.Follow(2, 1, 1_000)),
    ]
    server.tell(NextFound(0, STREAM, 1, wire.Entries(1, 5, (bytes(100_000),) * 2, ((2, "m"),))))
    server.tell(NextFound(0, STREAM, 2, entries(2, 500)))
    assert len(server.said) == 2, "the second waits until the first is read"
    server.tell(StreamWritable(0, STREAM))
    assert server.said[-1].request == 2  # type: ignore[union-attr]
    assert server.all(NextWanted)[2:] == [NextWanted(STREAM, wire.Follow(2, 2, 1_000))], "the first has no credit left"
    server.hear(wire.Taken(1, 200_000))
    assert server.all(NextWanted)[3:] == [NextWanted(STREAM, wire.Follow(1, 7, 1_000))]


def test_who_reads_no_answers_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_BYTES_MAX", 1_000)
    server = Server(is_full=True)
    for request in range(1, 200):
        server.hear(wire.AppendMany(request, 0, (b"x",)))
        server.answer((request, request))
        if server.is_dropped:
            break
    assert "1000 bytes of answers are not read" in server.is_dropped and request < 200


def test_too_many_requests_are_refused_and_the_others_go_on() -> None:
    server = Server(*(wire.WaitFor(request, 1, 0) for request in range(1, REQUESTS_MAX + 2)))
    refused = server.said[-1]
    assert isinstance(refused, wire.Failed) and refused.request == REQUESTS_MAX + 1 and refused.kind == "Refused"
    server.hear(wire.Cancel(7))
    assert server.all(WorkUnwanted) == [WorkUnwanted(STREAM, 7)]
    server.hear(wire.WaitFor(REQUESTS_MAX + 2, 1, 0))
    assert len(server.all(WorkWanted)) == REQUESTS_MAX + 1 and not server.is_dropped


def test_a_change_is_judged() -> None:
    server = Server(wire.Reconfigure(1, "", "a", 0))
    assert server.said[-1] == wire.Failed(1, "Refused", "you may not") and not server.all(WorkWanted)


def test_of_a_client_that_is_gone_nothing_is_held() -> None:
    server = Server(wire.WaitFor(1, 1, 0), wire.Follow(2, 1, 1), wire.OfferSnapshot(3, 1, b"state", True))
    assert server.all(SnapshotCame) and server.port.room.held_bytes == 5
    server.hear(wire.OfferSnapshot(4, 1, b"half", False))
    assert server.port.room.held_bytes == 9
    server.tell(StreamClosed(0, STREAM, "reset by peer"))
    assert {each.request for each in server.all(WorkUnwanted)} == {1, 2, 3}
    assert server.port.room.held_bytes == 0 and not server.port.connections
    server.tell(WorkDone(0, STREAM, 1, wire.Told(1, 1)))
    server.answer((1, 1))


def test_a_state_whose_pieces_are_too_far_apart_holds_nothing() -> None:
    server = Server(wire.OfferSnapshot(1, 1, b"half", False))
    assert SetTimer(("piece", STREAM), server.port.times.piece_within_us) in server.wanted
    server.tell(TimerFired(0, ("piece", STREAM)))
    assert server.port.room.held_bytes == 0
    server.hear(wire.OfferSnapshot(1, 1, b"rest", True))
    late = server.said[-1]
    assert isinstance(late, wire.Failed) and "did not come in time" in late.reason


def test_the_end_of_the_log_closes_all() -> None:
    server = Server(wire.WaitFor(1, 1, 0))
    server.tell(LogEnded(0))
    assert server.all(CloseStream) and not server.port.connections and not server.all(Dropped)


def test_a_connection_too_many_is_closed_and_the_others_stay() -> None:
    port = PortServer("a", times=PortTimes(connections_max=1))
    port.handle(StreamOpened(0, -1, Address("one"), True))
    actions = port.handle(StreamOpened(0, -2, Address("two"), True))
    assert [each.stream for each in actions if isinstance(each, CloseStream)] == [-2]
    assert [*port.connections] == [-1]
