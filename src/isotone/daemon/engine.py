"""The shell's half of the automaton contract in a real process: one event at a time, actions in their order.

Each automaton has a lane: the FIFO stream of its effects across calls, in which a `Persist` holds back all that stands
behind it. What an action causes at once becomes an event that waits its turn, so no handler is ever re-entered. What a
peer did wrongly is dropped and counted; any other error ends everything, since the state can no longer be trusted.

A wake-up may have much to do: a thousand joins at once make as many views for as many clients. Whenever `SLICE_US` of
it are over, packets of other daemons that came meanwhile go first, and what is sent to them leaves: whoever is busy is
not taken for dead, and the token of its site does not wait for its clients.

Implements: docs/contracts.md, "For shells" and "Effects and `Persist`".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from isotone.core.boundary import Requested
from isotone.core.contract import (
    Action,
    Automaton,
    DatagramsReceived,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Write,
)
from isotone.core.errors import RemoteProtocolError

REASONS_MAX = 256
SLICE_US = 10_000  # of one wake-up, before packets of other daemons are looked for
OTHER_REASONS = "other reasons"

Performer = Callable[["Lane", Any], None]
Submit = Callable[["Lane", int, Sequence[Write]], None]
Failed = Callable[["Lane", object, BaseException], None]
Look = Callable[["Lane", Event, Sequence[Action]], None]


class Lane:
    """One automaton of a process, with the stream of its effects."""

    __slots__ = ("automaton", "failures", "handle", "held", "label", "performers", "stopped")

    def __init__(self, label: str, automaton: Automaton) -> None:
        self.label = label
        self.automaton = automaton
        self.handle = automaton.handle
        self.held: deque[Action] = deque()  # begins with an unfinished Persist, or is empty
        self.performers: dict[type[Action], Performer] = {}
        self.failures = 0  # of the disk; what was submitted before the last one is answered
        self.stopped = False  # it returned `Stop`, or everything ended, and hears nothing more


class Engine:
    """Hands events to automata and carries out what they return."""

    def __init__(self, now: Callable[[], int], *, submit: Submit, failed: Failed) -> None:
        self.now = now
        self.handled = 0
        self.refused: Counter[str] = Counter()  # by reason; invariant: at most REASONS_MAX and one
        self.on_requested: Callable[[Requested], None] | None = None  # B4: what a client asks, as its service takes it
        self.before: Callable[[Lane, Event], None] | None = None
        self.after: list[Look] = []  # of what it returned, before that is carried out
        self.when_performed: Callable[[Lane], None] | None = None
        self.settlers: list[Callable[[int], None]] = []  # look when all is handled, and may post more
        self.when_drained: list[Callable[[int], None]] = []  # the last thing of a wake-up
        self.on_refused: Callable[[Lane, Event, str], None] | None = None
        self.read_packets: Callable[[], None] | None = None  # post what other daemons sent
        self.send_packets: Callable[[], None] | None = None  # let go what waits to be sent to them
        self._submit = submit
        self._failed = failed
        self._ready: deque[tuple[Lane, Event]] = deque()
        self._draining = False

    # --- events ----------------------------------------------------------------------------------------------------

    def post(self, lane: Lane, event: Event) -> None:
        """Hand an event to an automaton, after all that was posted before; `drain` has to follow."""
        self._ready.append((lane, event))

    def take(self, lane: Lane, event: Event) -> None:
        """Hand it over, and handle all that it causes."""
        self._ready.append((lane, event))
        self.drain()

    def drain(self) -> None:
        """Handle all that was posted, unless that is being done already."""
        if self._draining:
            return
        self._draining = True
        ready, looked_at = self._ready, self.now()
        try:
            while ready:
                while ready:
                    lane, event = ready.popleft()
                    self._handle(lane, event)
                    if ready and self.read_packets is not None and self.now() - looked_at >= SLICE_US:
                        self._let_packets_pass(self.read_packets)
                        looked_at = self.now()
                for settle in self.settlers:
                    settle(self.now())
        finally:
            self._draining = False
        at = self.now()
        for look in self.when_drained:
            look(at)

    def _let_packets_pass(self, read: Callable[[], None]) -> None:
        """Packets that came meanwhile go ahead of what waits; what they cause waits behind it, in its order.

        What was passed gets a new time, since it is handled later than it was posted: no automaton sees time go back.
        """
        waiting = list(self._ready)
        self._ready.clear()
        read()
        caused: list[tuple[Lane, Event]] = []
        while self._ready:
            lane, event = self._ready.popleft()
            if type(event) is DatagramsReceived:
                self._handle(lane, event)
            else:
                caused.append((lane, event))
        at = self.now()
        self._ready.extend((lane, msgspec.structs.replace(event, at=at)) for lane, event in (*waiting, *caused))
        if self.send_packets is not None:
            self.send_packets()

    def end(self, lanes: Sequence[Lane]) -> None:
        """Nothing is handled or carried out any more."""
        self._ready.clear()
        for lane in lanes:
            lane.stopped = True
            lane.held.clear()

    def _handle(self, lane: Lane, event: Event) -> None:
        if lane.stopped:
            return
        if type(event) is Requested and self.on_requested is not None:
            self.on_requested(event)
        if self.before is not None:
            self.before(lane, event)
        self.handled += 1
        try:
            actions = lane.handle(event)
            for look in self.after:
                look(lane, event, actions)
            if actions:
                self.perform(lane, actions)
                if self.when_performed is not None:
                    self.when_performed(lane)
        except RemoteProtocolError as error:
            self._count(lane, event, str(error))
        except Exception as error:  # whatever it is, the state can no longer be trusted
            self._failed(lane, event, error)

    def _count(self, lane: Lane, event: Event, reason: str) -> None:
        for look in self.after:
            look(lane, event, ())
        known = reason in self.refused or len(self.refused) < REASONS_MAX
        self.refused[reason if known else OTHER_REASONS] += 1
        if self.on_refused is not None:
            self.on_refused(lane, event, reason)

    # --- actions ---------------------------------------------------------------------------------------------------

    def perform(self, lane: Lane, actions: Sequence[Action]) -> None:
        """Do what the automaton said, in order, as far as no `Persist` holds it back."""
        if lane.held:
            self._hold(lane, actions)
            return
        performers = lane.performers
        for position, action in enumerate(actions):
            if type(action) is Persist:
                self._persist(lane, action)
                self._hold(lane, actions[position + 1 :])
                return
            performers[type(action)](lane, action)  # an action that is not known is an error of the composition
            if lane.stopped:
                return

    def _hold(self, lane: Lane, actions: Sequence[Action]) -> None:
        for action in actions:
            if type(action) is Persist:
                self._persist(lane, action)
            else:
                lane.held.append(action)

    def _persist(self, lane: Lane, action: Persist) -> None:
        lane.held.append(action)
        self._submit(lane, action.ticket, action.writes)

    def persisted(self, lane: Lane, failures: int, ticket: int, reason: str) -> None:
        """The disk is done with this `Persist`, or failed: ``reason`` says why.

        ``failures`` is that of the lane when it was submitted: a failure since then has answered it already.
        """
        if lane.stopped or lane.failures != failures:
            return
        try:
            if reason:
                self._fail(lane, reason)
            else:
                self._release(lane, ticket)
                if self.when_performed is not None:
                    self.when_performed(lane)
        except Exception as error:
            self._failed(lane, ticket, error)
        self.drain()

    def _release(self, lane: Lane, ticket: int) -> None:
        """The first `Persist` of the lane is durable: do what stands behind it, up to the next."""
        held = lane.held
        head = held.popleft()
        assert isinstance(head, Persist) and head.ticket == ticket, f"{lane.label}: {head} instead of {ticket}"
        self.post(lane, Persisted(self.now(), ticket))
        while held and type(held[0]) is not Persist and not lane.stopped:
            action = held.popleft()
            lane.performers[type(action)](lane, action)

    def _fail(self, lane: Lane, reason: str) -> None:
        """All that is held fails or is not done."""
        held = list(lane.held)
        lane.held.clear()
        lane.failures += 1
        for action in held:
            if isinstance(action, Persist):
                self.post(lane, PersistFailed(self.now(), action.ticket, reason))
