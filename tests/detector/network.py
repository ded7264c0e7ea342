"""A tiny loop for tests of the detector: one detector, a script of what its peers do, virtual time, no real clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from isotone.core.contract import Action, CancelTimer, Event, SetTimer, TimerFired
from isotone.detector.detector import Detector
from isotone.detector.signals import ProbeAnswered, SendProbe

Answer = Callable[[SendProbe, int], int | None]
"""Given a probe and the time it leaves: the round trip after which its answer arrives, or None when none does."""


def answer_after(round_trip_us: int) -> Answer:
    """A peer that always answers."""
    return lambda probe, at: round_trip_us


def never(probe: SendProbe, at: int) -> int | None:
    """A peer that answers nothing."""
    return None


@dataclass
class Network:
    """Feeds a detector. ``answer`` may be replaced at any time; ``lateness`` says how late a timer fires."""

    detector: Detector
    answer: Answer = never
    lateness: Callable[[], int] = lambda: 0
    now: int = 0
    log: list[tuple[int, Action]] = field(default_factory=list)
    _queue: list[tuple[int, int, Event | None]] = field(default_factory=list)
    _order: int = 0
    _armed: int = 0  # the place in the queue of the timer that counts; 0 when none is armed

    def feed(self, event: Event) -> list[Action]:
        """Hand in one event now, after all that is due before it."""
        self.run_until(event.at)
        return self.hand_in(event)

    def run_until(self, time: int) -> None:
        """Everything due before ``time``; then it is ``time``."""
        while self._queue and self._queue[0][0] < time:
            at, order, event = heapq.heappop(self._queue)
            self.now = max(at, self.now)
            if event is None:
                if order != self._armed:
                    continue
                self._armed = 0
                event = TimerFired(self.now, self.detector.timer)
            elif isinstance(event, ProbeAnswered):
                event = ProbeAnswered(self.now, event.peer, event.nonce)
            self.hand_in(event)
        self.now = max(time, self.now)

    def sleep(self, until: int) -> None:
        """The process is stopped: what was due happens afterwards, all at once."""
        self.now = until

    def first(self, kind: type[Action], after: int = 0) -> tuple[int, Action] | None:
        """The first action of a kind at or after a time."""
        return next(((at, action) for at, action in self.log if at >= after and isinstance(action, kind)), None)

    def count(self, kind: type[Action], after: int = 0) -> int:
        """How many actions of a kind there were at or after a time."""
        return sum(isinstance(action, kind) for at, action in self.log if at >= after)

    def hand_in(self, event: Event) -> list[Action]:
        """Hand in one event before anything else, overdue timers included."""
        actions = self.detector.handle(event)
        for action in actions:
            self.log.append((self.now, action))
            self._carry_out(action)
        return actions

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, SetTimer):
            self._armed = self._push(self.now + action.after_us + self.lateness(), None)
        elif isinstance(action, CancelTimer):
            self._armed = 0
        elif isinstance(action, SendProbe):
            round_trip = self.answer(action, self.now)
            if round_trip is not None:
                at = self.now + round_trip
                self._push(at, ProbeAnswered(at, action.peer, action.nonce))

    def _push(self, at: int, event: Event | None) -> int:
        self._order += 1
        heapq.heappush(self._queue, (at, self._order, event))
        return self._order
