"""The workload of a peer's client, with a library of our own in the place of the peer's."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.bench.lan.board import Board, Phase, State, Word
from isotone.bench.lan.cells import Cell
from isotone.bench.lan.jobs import Job, Outcome, read_job, read_outcome, write_job, write_outcome
from isotone.bench.lan.measuring import check_outcomes
from isotone.bench.lan.peer_client import PeerMember
from isotone.bench.lan.traffic import OrderBroken, batch_of, is_end, window_of


class Ring:
    """A peer that delivers to one member what it sends, a little later; and can be told to break its promise."""

    def __init__(self, board: Board, *, stop_after: int, fault: str = "") -> None:
        self.members = 3
        self.arrived: list[tuple[int, bytes]] = []
        self.containers = 0
        self.sizes: list[int] = []
        self.watched: list[int] = []
        self.paced = False
        self._flying: list[bytes] = []
        self._board, self._left, self._fault = board, stop_after, fault

    def send(self, data: bytes) -> bool:
        if len(self._flying) == 5:
            return False
        self._flying.append(data)
        if not is_end(data):
            self.containers += 1
            self.sizes.append(len(data))
            self.paced = self.paced or bool(self.watched)
        return True

    def watch(self, descriptor: int) -> None:
        self.watched.append(descriptor)

    def unwatch(self, descriptor: int) -> None:
        self.watched.remove(descriptor)

    def take(self, within_s: float) -> None:
        if self._board.phase is Phase.WAIT:
            self._board.phase = Phase.GO
        if self._fault == "swap" and len(self._flying) > 1:
            self._flying[:2] = self._flying[1::-1]
        if self._fault == "lose" and self.containers > 10 and self._flying:
            self._flying.pop()
            self._fault = ""
        self.arrived += [(0, data) for data in self._flying]
        self._left -= len(self._flying)
        self._flying = []
        if self._left < 0:
            self._board.phase = Phase.STOP

    def close(self) -> None:
        self.members = 0


def job_of(tmp_path: Path, rate: float = 0.0, **of: object) -> Job:
    cell = Cell(system="corosync", path="bridge", **of)  # type: ignore[arg-type]
    return Job(
        cell=cell,
        index=0,
        members=3,
        senders=(0,),
        address="",
        board=str(tmp_path / "board"),
        slots=1,
        report=str(tmp_path / "report"),
        latency=True,
        rate=rate,
    )


def work(
    tmp_path: Path, fault: str = "", stop_after: int = 200, rate: float = 0.0, **of: object
) -> tuple[Outcome, Ring, Board]:
    board = Board(tmp_path / "board", 1, create=True)
    ring = Ring(board, stop_after=stop_after, fault=fault)
    return PeerMember(job_of(tmp_path, rate, **of), board.slot(0), ring).work(), ring, board


@pytest.mark.parametrize("packing", [0, 8192, 65_536])
def test_all_that_is_sent_is_heard_and_timed(tmp_path: Path, packing: int) -> None:
    outcome, ring, board = work(tmp_path, packing=packing)
    assert outcome.delivered == {"0": outcome.sent}
    assert outcome.sent > 200
    assert outcome.latencies_us == sorted(outcome.latencies_us)
    assert outcome.latencies_us
    assert board.slot(0).get(Word.DELIVERED) == outcome.sent
    assert board.slot(0).get(Word.VIEW_MEMBERS) == 3
    assert board.slot(0).get(Word.STATE) == State.READY
    assert (ring.containers < outcome.sent) == bool(packing), "packed messages travel together"
    check_outcomes(Cell(system="corosync"), [outcome] * 3)


@pytest.mark.parametrize("fault", ["swap", "lose"])
@pytest.mark.parametrize("packing", [0, 8192])
def test_a_peer_that_breaks_its_promise_is_found(tmp_path: Path, fault: str, packing: int) -> None:
    with pytest.raises(OrderBroken):
        work(tmp_path, fault, packing=packing)


def test_at_full_speed_only_full_containers_go(tmp_path: Path) -> None:
    _, ring, _ = work(tmp_path, packing=8192, stop_after=500)
    assert ring.containers > 300
    assert len(set(ring.sizes)) == 1, "there is always more to add"


def test_at_a_rate_a_sender_is_woken_by_the_schedule_and_flushes_what_is_due(tmp_path: Path) -> None:
    outcome, ring, _ = work(tmp_path, packing=8192, stop_after=20, rate=50_000.0)
    assert ring.paced
    assert ring.watched == [], "the timer is gone with the schedule"
    assert outcome.delivered == {"0": outcome.sent}
    assert 1 <= len(outcome.latencies_us) <= outcome.sent // 50 + 1, "what is due in a millisecond is one sample"
    assert min(ring.sizes) < 8000, "containers are flushed though they are not full"


class Deaf(Ring):
    """A peer that takes everything and delivers nothing until it was asked often."""

    asked = most = 0

    def send(self, data: bytes) -> bool:
        self._flying.append(data)
        return True

    def take(self, within_s: float) -> None:
        self.asked += 1
        if self._board.phase is Phase.WAIT or self.asked > 2_000:
            self.most = max(self.most, len(self._flying))
            super().take(within_s)


def test_a_sender_at_full_speed_waits_for_its_own_messages(tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 1, create=True)
    ring = Deaf(board, stop_after=10)
    outcome = PeerMember(job_of(tmp_path, size=8192), board.slot(0), ring).work()
    assert outcome.delivered == {"0": outcome.sent}
    assert window_of(8192) <= ring.most < window_of(8192) + batch_of(8192)


def test_jobs_and_outcomes_survive_their_files(tmp_path: Path) -> None:
    job = job_of(tmp_path, size=1024, packing=8192)
    write_job(job, tmp_path / "job")
    assert read_job(tmp_path / "job") == job
    outcome = Outcome(sent=3, delivered={"0": 3}, digest="aa", latencies_us=[1.5])
    write_outcome(outcome, tmp_path / "report")
    assert read_outcome(tmp_path / "report") == outcome


def test_the_longest_gap_counts_from_the_watch_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(tmp_path / "board", 2, create=True)
    slot = board.slot(1)
    clock = iter([100, 150, 170, 200, 260, 400])
    monkeypatch.setattr("isotone.bench.lan.board.time.monotonic_ns", lambda: next(clock))
    slot.heard(1)  # at 100
    slot.heard(2)  # at 150
    board.watch_anew()  # at 170
    slot.heard(3)  # at 200: thirty since the watch began
    assert slot.get(Word.LONGEST_GAP) == 30
    slot.heard(4)  # at 260
    assert slot.get(Word.LONGEST_GAP) == 60
    slot.view(2)
    assert (slot.get(Word.VIEW_AT), slot.get(Word.ENTERED_AT), slot.get(Word.LEFT_AT)) == (400, 400, 0)
    assert board.slot(0).get(Word.DELIVERED) == 0
