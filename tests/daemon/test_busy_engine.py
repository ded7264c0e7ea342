"""A daemon with much to do answers its neighbours first: packets pass what waits, all else keeps its order."""

from __future__ import annotations

from isotone.core.contract import Address, DatagramsReceived, Record, TimerFired
from isotone.daemon.engine import SLICE_US
from tests.daemon.test_engine import Bench, say


class Busy(Bench):
    """Each event takes a fifth of a slice; packets come when the test says so."""

    def __init__(self, packets: list[str]) -> None:
        super().__init__(
            DatagramsReceived=[say("answered"), say("post caused")], work=[say("worked")], caused=[say("later")]
        )
        self.packets = packets
        self.looks = 0
        self.sent_after: list[int] = []
        self.lane.performers[Record] = self._record
        self.engine.read_packets, self.engine.send_packets = self._read, self._send

    def _now(self) -> int:
        self.time += SLICE_US // 10
        return self.time

    def _read(self) -> None:
        self.looks += 1
        for source in self.packets:
            self.engine.post(self.lane, DatagramsReceived(self.time, Address(source), b"probe", 5))
        self.packets = []

    def _send(self) -> None:
        self.sent_after.append(len(self.done))

    def work(self, count: int) -> None:
        for _ in range(count):
            self.engine.post(self.lane, TimerFired(0, "work"))
        self.engine.drain()


def test_packets_of_neighbours_pass_the_work_that_waits() -> None:
    busy = Busy(["a", "b"])
    busy.work(1_000)
    assert busy.done.count("worked") == 1_000 and busy.done.count("answered") == 2
    first = busy.done.index("answered")
    assert first <= 12, "within the first slice"
    assert busy.sent_after[0] <= first + 4, "what they are answered leaves at once"
    assert busy.done[-2:] == ["later", "later"], "what packets cause waits its turn"
    assert busy.looks >= 1_000 // 12


def test_no_automaton_sees_time_go_back() -> None:
    busy = Busy(["a", "b"])
    seen: list[int] = []
    busy.engine.before = lambda lane, event: seen.append(event.at)
    for _ in range(100):
        busy.engine.post(busy.lane, TimerFired(busy.engine.now(), "work"))
    busy.engine.drain()
    assert busy.looks and seen == sorted(seen) and len(seen) > 100


def test_a_wake_up_with_little_to_do_does_not_look() -> None:
    busy = Busy(["a"])
    busy.work(3)
    assert busy.looks == 0 and "answered" not in busy.done


def test_without_sockets_nothing_is_looked_for() -> None:
    busy = Busy(["a"])
    busy.engine.read_packets = None
    busy.work(100)
    assert busy.done == ["worked"] * 100
