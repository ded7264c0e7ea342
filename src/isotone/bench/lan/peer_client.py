"""The workload at a peer's client library: one process, one loop, the library called through ctypes.

What differs by peer is a `Library`: hand over one message, take in what has come, wait for more. The rest is the same
for all: the circle of messages, packing, pace, checks. A message becomes one `bytes` object, as with Isotone.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Protocol

from isotone.bench.lan.board import Phase, Slot, State, Word
from isotone.bench.lan.jobs import Job, Outcome
from isotone.bench.lan.latency import Echoes
from isotone.bench.lan.packing import packed, per_container, split
from isotone.bench.lan.schedule import Pace, Ticks
from isotone.bench.lan.traffic import Heard, batch_of, circle, end_of, is_end, twice, window_of
from isotone.core.errors import MachineError

TICK_S = 0.001
HAND_OVER_MAX = 64
TOGETHER_WITHIN_S = 60.0


class Library(Protocol):
    """What is asked of a peer's client."""

    members: int
    """In the newest view."""
    arrived: list[tuple[int, bytes]]
    """What came since it was emptied: the place of its sender, and the message."""

    def send(self, data: bytes) -> bool:
        """Whether it was taken; if not, it is tried again later."""

    def watch(self, descriptor: int) -> None:
        """Waiting ends too when this one is readable."""

    def unwatch(self, descriptor: int) -> None:
        """Not any more."""

    def take(self, within_s: float) -> None:
        """Wait so long for something, and put all that is there to what arrived."""

    def close(self) -> None:
        """Leave."""


class PeerMember:
    """One member: hears everything, and sends if it is a sender."""

    def __init__(self, job: Job, slot: Slot, library: Library) -> None:
        self.job, self.slot, self.cell, self.library = job, slot, job.cell, library
        self.heard = Heard(job.senders, job.cell.size)
        self.echoes = Echoes() if job.latency else None
        self.window = window_of(job.cell.size)
        self.sent = 0
        self._members = 0
        self._waiting: list[tuple[bytes, int]] = []  # containers that were not taken yet, backwards, and their messages

    def work(self) -> Outcome:
        """Wait for all, send and hear, until every sender has ended."""
        deadline = time.monotonic() + TOGETHER_WITHIN_S
        while self.library.members != self.job.members:
            self._hear(0.01)
            if time.monotonic() > deadline:
                raise MachineError(f"{self.library.members} of {self.job.members} members after {TOGETHER_WITHIN_S} s")
        self.slot.set(Word.STATE, State.READY)
        while self.slot.phase == Phase.WAIT:
            self._hear(TICK_S)
        if self.job.sends:
            self._send()
        while not self.heard.is_over:
            self._hear(TICK_S)
        self.library.close()
        return self._outcome()

    # --- hearing ---------------------------------------------------------------------------------------------------

    def _hear(self, within_s: float) -> None:
        library = self.library
        library.take(within_s)
        if library.members != self._members:
            self._members = library.members
            self.slot.view(library.members)
        if not library.arrived:
            return
        arrived, library.arrived = library.arrived, []
        run: list[bytes] = []
        last = arrived[0][0]
        for sender, data in arrived:
            if sender != last or is_end(data):
                self._take(last, run)
                run, last = [], sender
            if is_end(data):
                self.heard.end(data)
            elif self.cell.packing:
                run += split(data)
            else:
                run.append(data)
        self._take(last, run)

    def _take(self, sender: int, bodies: list[bytes]) -> None:
        if not bodies:
            return
        self.heard.take(sender, bodies)
        if self.echoes is not None and sender == self.job.index:
            self.echoes.came(len(bodies))
        self.slot.heard(self.heard.total)

    # --- sending ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        began_ns = time.monotonic_ns()
        pace = Pace(self.job.offered, self._batch(), began_ns)
        if pace.rate:
            with closing(Ticks(began_ns)) as ticks:
                self._offer(pace, ticks)
        while self.slot.is_going:
            self._hand_on(pace)
        while self._waiting:
            self._hear(0.0 if self._hand_over() else TICK_S)
        while not self.library.send(end_of(self.job.index, self.sent)):
            self._hear(TICK_S)

    def _offer(self, pace: Pace, ticks: Ticks) -> None:
        """On the schedule, which wakes us."""
        self.library.watch(ticks.descriptor)
        while self.slot.is_going:
            self._hand_on(pace)
            ticks.clear()
        self.library.unwatch(ticks.descriptor)

    def _hand_on(self, pace: Pace) -> None:
        if not self._waiting:
            self._pack(pace)
        self._hear(0.0 if self._hand_over() else TICK_S)

    def _batch(self) -> int:
        """At full speed there is always more to add: only full containers go."""
        size, packing = self.cell.size, self.cell.packing
        batch = batch_of(size)
        each = per_container(size, packing) if packing and not self.job.offered else 1
        return max(each, batch // each * each)

    def _pack(self, pace: Pace) -> None:
        """What is due now becomes what is handed over: nothing more is there to be added, so all of it goes."""
        index, size = self.job.index, self.cell.size
        if not pace.rate and pace.given - self.heard.counts[index] >= self.window:
            return
        now_ns = time.monotonic_ns()
        due = pace.due(now_ns)
        if not due:
            return
        start = pace.given % len(circle(index, size))
        chosen = twice(index, size)[start : start + due]
        reached = pace.take(len(chosen), now_ns)
        if self.echoes is not None:
            self.echoes.expect(reached)
        if self.cell.packing:
            each = per_container(size, self.cell.packing)
            containers = list(packed(chosen, self.cell.packing))
            counts = [each] * (len(containers) - 1)
            counts.append(len(chosen) - sum(counts))
            self._waiting = list(zip(containers, counts))[::-1]
        else:
            self._waiting = [(body, 1) for body in reversed(chosen)]

    def _hand_over(self) -> bool:
        """As many as the library takes, but then it is looked what has come; whether any was taken."""
        waiting, send, taken = self._waiting, self.library.send, 0
        while waiting and taken < HAND_OVER_MAX and send(waiting[-1][0]):
            self.sent += waiting.pop()[1]
            taken += 1
        self.slot.set(Word.SENT, self.sent)
        return bool(taken)

    def _outcome(self) -> Outcome:
        counts = {str(sender): count for sender, count in self.heard.counts.items()}
        latencies = self.echoes.sorted_us() if self.echoes is not None else []
        return Outcome(sent=self.sent, delivered=counts, digest=self.heard.digest, latencies_us=latencies)
