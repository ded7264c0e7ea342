"""The workload at a peer's client library: one process, one loop, the library called through ctypes.

What differs by peer is a `Library`: hand over one message, take in what has come, wait for more. The rest is the same
for all: the circle of messages, packing, pace, checks. A message becomes one `bytes` object, as with Isotone.
"""

from __future__ import annotations

import time
from typing import Protocol

from isotone.bench.lan.board import Phase, Slot, State, Word
from isotone.bench.lan.jobs import Job, Outcome
from isotone.bench.lan.latency import Echoes
from isotone.bench.lan.packing import packed, per_container, split
from isotone.bench.lan.traffic import Heard, Pace, batch_of, circle, end_of, is_end
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
        self.sent = self.given = 0
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
        cell, slot = self.cell, self.slot
        bodies, batch = circle(self.job.index, cell.size), batch_of(cell.size)
        pace = Pace(self.job.rate, self.job.gap_s, batch, time.perf_counter())
        while slot.is_going:
            if not self._waiting:
                self._pack(bodies, pace.due(time.perf_counter()))
            self._hear(0.0 if self._hand_over() else TICK_S)
        while self._waiting:
            self._hear(0.0 if self._hand_over() else TICK_S)
        while not self.library.send(end_of(self.job.index, self.sent)):
            self._hear(TICK_S)

    def _pack(self, bodies: list[bytes], due: int) -> None:
        """What is due now becomes what is handed over: nothing more is there to be added, so all of it goes."""
        start = self.given % len(bodies)
        chosen = bodies[start : start + due]
        if not chosen:
            return
        self.given += len(chosen)
        if self.echoes is not None:
            self.echoes.given(len(chosen))
        if self.cell.packing:
            each = per_container(self.cell.size, self.cell.packing)
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
