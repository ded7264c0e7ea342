"""One cell measured once: start its clients, let them send, look twice, stop, and check what everybody heard."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import msgspec

from isotone.bench.lan.board import Board, Phase, State, Word
from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import Running, check_daemons, daemons_cpu
from isotone.bench.lan.jobs import Job, Outcome, read_outcome, write_job
from isotone.bench.lan.network import packets_sent
from isotone.bench.lan.processes import Process, cpu_seconds, end_all
from isotone.bench.lan.traffic import OrderBroken
from isotone.core.errors import MachineError

READY_WITHIN_S = 120.0
END_WITHIN_S = 60.0
LOOK_S = 0.005
MEGABYTE = 1e6


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How long one measurement takes."""

    warm_up_s: float = 0.5
    seconds: float = 1.5


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one measurement found."""

    rate: float
    """Messages per second that the slowest member heard."""
    cpu_us_daemons: float
    """Per message, of all daemons together."""
    cpu_us_clients: float
    messages: int
    packets_per_message: float = 0.0
    """On the links, where they are counted."""
    latencies: dict[str, float] = {}


class Snapshot(msgspec.Struct, frozen=True):
    """Everything at one moment."""

    at: float
    delivered: int
    daemons: float
    clients: float
    packets: int


class Members:
    """The clients of one cell. Entering starts them and waits until they are together; leaving ends them."""

    def __init__(
        self,
        cell: Cell,
        running: Running,
        *,
        latency: bool = False,
        gap_s: float = 0.0,
        rates: Sequence[float] = (),
        joiner: bool = False,
        profile: bool = False,
    ) -> None:
        self.cell, self.running = cell, running
        self._held = TemporaryDirectory(prefix="isotone-bench-")
        self.directory = Path(self._held.name)
        self.count = cell.member_count
        self._besides = cell.idle_clients > 0 or joiner
        self._slots = self.count + self._besides
        self.lost: set[int] = set()
        """Members whose daemon was taken from them: nothing is asked of them any more."""
        self.board = Board(self.directory / "board", self._slots, create=True)
        self.processes: list[Process] = []
        self._latency, self._gap_s, self._joiner, self._profile = latency, gap_s, joiner, profile
        self._rates = rates or [cell.rate] * cell.senders

    def __enter__(self) -> Members:
        try:
            for place in range(self._slots):
                self.processes.append(self._start(place))
            self._wait(State.READY, range(self._slots), READY_WITHIN_S, "be together")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        end_all(self.processes, first=9)
        self.board.close()
        self._held.cleanup()

    def _start(self, place: int) -> Process:
        running, besides, daemons = self.running, place == self.count, self.running.cluster.daemons
        job = Job(
            cell=self.cell,
            index=place,
            members=self.count,
            senders=tuple(range(self.cell.senders)),
            address=running.address(place % daemons),
            addresses=tuple(map(running.address, range(daemons))),
            board=str(self.directory / "board"),
            slots=self._slots,
            report=str(self.report(place)),
            latency=self._latency,
            gap_s=self._gap_s,
            rate=self._rates[place] if place < len(self._rates) else 0.0,
            idle=besides and not self._joiner,
            joiner=besides and self._joiner,
            library=running.library,
            profile=str(self.profile_of(place)) if self._profile else "",
        )
        path = self.directory / f"job{place}"
        write_job(job, path)
        command = [*running.prefix(place % daemons), sys.executable, "-m", "isotone.bench.lan.worker", str(path)]
        return Process(command, self.directory / f"client{place}.log")

    def report(self, place: int) -> Path:
        """Where a client writes what became of it."""
        return self.directory / f"report{place}"

    def profile_of(self, place: int) -> Path:
        """Where a client writes what its time went to."""
        return self.directory / f"profile{place}"

    # --- while they run --------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Senders send, until everybody hears something."""
        self.board.phase = Phase.GO
        self.wait_until(lambda: self.delivered() > 0, END_WITHIN_S, "hear a message")

    def stop(self) -> list[Outcome]:
        """Senders stop; when everybody has heard the last message, what became of it."""
        self.board.phase = Phase.STOP
        self._wait(State.DONE, range(self._slots), END_WITHIN_S, "hear the end")
        return [read_outcome(self.report(place)) for place in range(self._slots) if place not in self.lost]

    def delivered(self) -> int:
        """What the slowest member heard so far."""
        return min(self.board.slot(place).get(Word.DELIVERED) for place in self.left())

    def left(self) -> list[int]:
        """Members that are still there."""
        return [place for place in range(self.count) if place not in self.lost]

    def clients_cpu(self) -> float:
        """Of all members, in seconds; idle ones do not count."""
        return sum(cpu_seconds(process.pid) for process in self.processes[: self.count])

    def snapshot(self) -> Snapshot:
        """How everything stands now."""
        packets = 0
        if self.running.network is not None:
            packets = sum(packets_sent(daemon.pid) for daemon in self.running.daemons)
        return Snapshot(time.monotonic(), self.delivered(), daemons_cpu(self.running), self.clients_cpu(), packets)

    def wait_until(self, reached: Callable[[], bool], within_s: float, what: str) -> None:
        """A client or daemon that ends meanwhile is an error, with what it said."""
        deadline = time.monotonic() + within_s
        while not reached():
            self.check()
            if time.monotonic() > deadline:
                raise MachineError(f"{self.cell.key}: members do not {what} within {within_s:g} s\n{self._tails()}")
            time.sleep(LOOK_S)

    def check(self) -> None:
        """That nobody failed."""
        for place, process in enumerate(self.processes):
            if place in self.lost:
                continue
            state = self.board.slot(place).get(Word.STATE)
            if state == State.FAILED:
                raise failure(self.cell, place, read_outcome(self.report(place)))
            if process.ended is not None and state != State.DONE:
                raise MachineError(f"{self.cell.key}: client {place} ended with {process.ended}\n{process.tail}")
        if not self.lost:
            check_daemons(self.running)

    def _wait(self, state: State, places: range, within_s: float, what: str) -> None:
        slots = [self.board.slot(place) for place in places if place not in self.lost]
        self.wait_until(lambda: all(slot.get(Word.STATE) >= state for slot in slots), within_s, what)
        self.check()

    def _tails(self) -> str:
        logs = [*self.processes, *self.running.daemons]
        return "\n".join(process.tail for process in logs if process.tail)


def failure(cell: Cell, place: int, outcome: Outcome) -> Exception:
    """What a client says that it failed with."""
    told = f"{cell.key}: client {place}: {outcome.problem}"
    return OrderBroken(told) if outcome.problem.startswith("OrderBroken") else MachineError(told)


def measure(
    cell: Cell,
    running: Running,
    effort: Effort,
    *,
    latency: bool = False,
    gap_s: float = 0.0,
    rates: Sequence[float] = (),
) -> tuple[Sample, list[Outcome]]:
    """Rate and CPU of a steady state, and what was heard until the end; raises `OrderBroken` if it is not the same."""
    with Members(cell, running, latency=latency, gap_s=gap_s, rates=rates) as members:
        members.go()
        time.sleep(effort.warm_up_s)
        before = members.snapshot()
        time.sleep(effort.seconds)
        members.wait_until(lambda: members.delivered() > before.delivered, END_WITHIN_S, "hear anything")
        after = members.snapshot()
        outcomes = members.stop()
    check_outcomes(cell, outcomes[: cell.member_count])
    return sample_of(cell, before, after), outcomes


def sample_of(cell: Cell, before: Snapshot, after: Snapshot) -> Sample:
    """Between two moments."""
    messages = after.delivered - before.delivered
    if messages <= 0:
        raise MachineError(f"{cell.key}: nothing was delivered in {after.at - before.at:.1f} s")
    return Sample(
        rate=messages / (after.at - before.at),
        cpu_us_daemons=(after.daemons - before.daemons) / messages * 1e6,
        cpu_us_clients=(after.clients - before.clients) / messages * 1e6,
        messages=messages,
        packets_per_message=(after.packets - before.packets) / messages,
    )


def check_outcomes(cell: Cell, outcomes: list[Outcome]) -> None:
    """All members heard all that was sent, in the same order."""
    sent = {str(place): outcomes[place].sent for place in range(cell.senders)}
    for place, outcome in enumerate(outcomes):
        if outcome.delivered != sent:
            raise OrderBroken(f"{cell.key}: sent was {sent}, member {place} heard {outcome.delivered}")
        if outcome.digest != outcomes[0].digest:
            raise OrderBroken(f"{cell.key}: members 0 and {place} heard different orders")
