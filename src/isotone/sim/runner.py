"""The run loop: takes what is due from the agenda, hands events to automata, stops at a time or when all is quiet.

Events of one instant are handled first come, first served. An automaton's actions are done when its handler returned,
and what they cause within the process comes behind all that is already posted, so no handler is ever re-entered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop
from typing import TYPE_CHECKING

import msgspec

from isotone.core.boundary import Requested
from isotone.core.contract import Event, TimerFired
from isotone.core.errors import RemoteProtocolError
from isotone.sim.agenda import Agenda
from isotone.sim.process import Lane, Phase, RunFailed

if TYPE_CHECKING:
    from isotone.sim.effects import Effects

INSTANT_MAX = 1_000_000
"""So many handle calls without virtual time going on are a loop without end."""


class Runner:
    """Virtual time at work."""

    effects: Effects

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.handled = 0
        self.refused: Counter[str] = Counter()  # inputs refused with RemoteProtocolError, by reason, and dropped
        self._ready: deque[tuple[Lane, Event]] = deque()

    def post(self, lane: Lane, event: Event) -> None:
        """Hand an event to an automaton in this instant, after all that was posted before."""
        self._ready.append((lane, event))

    def run_until(self, when: int) -> None:
        """Let everything happen up to and including this virtual time."""
        agenda, heap, ready, handle = self.agenda, self.agenda.heap, self._ready, self._handle
        limit = self.handled + INSTANT_MAX
        while True:
            while ready:
                lane, event = ready.popleft()
                handle(lane, event)
                if self.handled > limit:
                    raise self.failure(lane, event, f"{INSTANT_MAX} events without time going on")
            if not heap or heap[0][0] > when:
                break
            moment, _, call, argument = heappop(heap)
            if moment != agenda.now:
                agenda.now = moment
                limit = self.handled + INSTANT_MAX
            call(argument)
        agenda.now = max(agenda.now, when)

    def step(self) -> bool:
        """Handle all of the next instant at which something happens; False when nothing ever will."""
        if not self._ready and not self.agenda.heap:
            return False
        self.run_until(self.agenda.now if self._ready else self.agenda.heap[0][0])
        return True

    def run_until_quiet(self, limit_us: int, idle: Callable[[], bool] | None) -> bool:
        """Run until nothing more is to happen, at most this long; says whether it became quiet."""
        agenda = self.agenda
        end = agenda.now + limit_us
        while True:
            if not self._ready and agenda.is_idle and (idle() if idle else not self.effects.armed):
                return True
            if not self._ready and (not agenda.heap or agenda.heap[0][0] > end):
                self.run_until(end)
                return False
            self.step()

    def failure(self, lane: Lane, event: object, problem: str) -> RunFailed:
        """The error that ends a run."""
        process = str(lane.process.daemon) if lane.process.daemon.name else "world"
        return RunFailed(process=process, automaton=lane.label, at=self.agenda.now, event=event, problem=problem)

    def _handle(self, lane: Lane, event: Event) -> None:
        process = lane.process
        if not process.running:
            if process.phase is Phase.PAUSED:
                process.inbox.append((self._post_held, (lane, event)))
            return
        if lane.stopped:
            return
        if type(event) is TimerFired:
            if event.key not in lane.firing:
                return  # replaced or cancelled in this very instant
            lane.firing.discard(event.key)
        elif type(event) is Requested and not self.effects.take_request(event):
            return
        self.handled += 1
        try:
            actions = lane.handle(event)
            if actions:
                self.effects.perform(lane, actions)
        except RunFailed:
            raise
        except RemoteProtocolError as error:
            self.refused[str(error)] += 1
        except Exception as error:
            raise self.failure(lane, event, f"{type(error).__name__}: {error}") from error

    def _post_held(self, held: tuple[Lane, Event]) -> None:
        lane, event = held
        self.post(lane, restamped(event, lane.process.clock.read(self.agenda.now)))


def restamped(event: Event, at: int) -> Event:
    """The same event at another time."""
    return event if event.at == at else msgspec.structs.replace(event, at=at)
