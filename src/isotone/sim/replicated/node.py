"""A server with replicated objects as a process of a simulated run: the replica, the objects, and programs using them.

What the replica tells its application stands behind its writes: each such action becomes a timer of a microsecond in
the replica's stream, and is handled when that fires. So no program hears of anything before it is on disk.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Action, Event, Record, SetTimer, Started, TimerFired
from isotone.core.errors import MachineError
from isotone.core.ordered_log import LogEntry, Snapshot
from isotone.corel import events as corel
from isotone.corel.replica import Replica
from isotone.replicated.state import ReplicatedState
from isotone.sim.corel_node import APPLICATION
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.replicated.log import NodeLog
from isotone.sim.replicated.loop import US, NodeLoop
from isotone.sim.replicated.programs import ObjectStep, Programs
from isotone.sim.replicated.terms import Terms
from isotone.trace.events import Entry
from isotone.trace.replicated import StateReached

MINE = "objects"
DIGEST_EVERY = 8


class ObjectNode:
    """One incarnation."""

    periodic_timers = frozenset({MINE})

    def __init__(self, replica: Replica, mark: str, terms: Terms, wall: Callable[[int], int], choice: Choice) -> None:
        self.replica, self.mark = replica, mark
        server = replica.settings.server
        self.loop = NodeLoop(terms.rates[server])
        self.log = NodeLog(self.loop, choice, send=self._send, offer=self._offer)
        self.seen_wall, self._wall = 0, wall  # when it last did something, on the common clock
        self._opened = 0
        self._told: deque[Action] = deque()  # what waits for its timer
        self._tells = 0
        self._out: list[Action] = []
        self._at = 0
        self.objects = CheckedState(
            self.loop,
            self._on_applied,
            self.log,
            nonce=self._nonce,
            server=server,
            servers=lambda: replica.ledger.queue.configuration.servers,
            why_no_order=lambda: "" if self.log.is_primary else "no primary component",
            lease_s=terms.lease_s,
            round_us=terms.round_us,
        )
        self._snapshot_every, self._snapshot_at = terms.snapshot_every, 0
        self.programs = Programs(self.objects, mark, self._record, lambda: wall(self._at), self.loop.rate)

    def _nonce(self) -> str:
        self._opened += 1
        return f"{self.mark}.{self._opened}"

    # --- events ------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Let programs, objects and the replica have what is theirs."""
        self._at, self.seen_wall = event.at, self._wall(event.at)
        match event:
            case StepDue(step=ObjectStep() as step):
                self.loop.call_soon(self.programs.begin, step)
            case TimerFired(key=("objects", "told", _)):
                self._on_told(self._told.popleft())
            case TimerFired(key=("objects", "wake")):
                pass
            case ClientKilled():
                self._kill()
            case _:
                self._tell(event)
                if isinstance(event, Started):
                    self._wake()
        self.loop.run_at(event.at)
        self._look_at_snapshot()
        if (after := self.loop.wake_after_us()) is not None:
            self._out.append(SetTimer((MINE, "wake"), after))
        actions, self._out = self._out, []
        return actions

    def end(self) -> None:
        """The process is gone: whatever its programs held, they do not take for their own any more."""
        self.objects.failure = MachineError("the process ended")

    def _kill(self) -> None:
        client = self.replica.session.client
        if client is not None:
            self._out.append(b4.Ask(client, b4.Disconnect()))
            self._tell(b4.Indicated(self._at, (client,), b4.Disconnected("killed")))

    def _wake(self) -> None:
        """The state as the log has it: the snapshot, and what is green behind it."""
        ledger = self.replica.ledger
        snapshot, place, records = None, 0, 0
        if ledger.snapshot is not None:
            head = ledger.snapshot.head
            snapshot = Snapshot(head.position, ledger.snapshot.state)
            place, records = head.place, head.records
        self.log.begin(snapshot, records, list(ledger.queue.between(place, ledger.queue.green)))
        self._snapshot_at = records
        self.loop.call_soon(lambda: self.loop.create_task(self.objects.start()))

    def _tell(self, event: Event) -> None:
        for action in self.replica.handle(event):
            if type(action) in APPLICATION:
                self._told.append(action)
                self._tells += 1
                self._out.append(SetTimer((MINE, "told", self._tells), 1))
            else:
                self._out.append(action)

    def _on_told(self, action: Action) -> None:
        match action:
            case corel.AppendNamed(requests=requests, message=message):
                self.log.on_named(requests, message)
            case corel.AppendRefused(request=request, reason=reason):
                self.log.on_refused(request, reason)
            case corel.DeliverGreen(position=position, messages=messages):
                self.log.on_green(position, messages)
            case corel.InstallSnapshot(position=position, state=state):
                queue = self.replica.ledger.queue
                held = {message.name for message in queue.held}
                self.log.on_install(position, state, lambda name: queue.has(name) and name not in held)
            case corel.StandingChanged(primary=primary):
                self.log.on_standing(primary=primary)

    # --- what objects ask --------------------------------------------------------------------------------------------

    def _send(self, request: int, record: bytes) -> None:
        self._tell(corel.AppendWanted(self._at, request, record))

    def _offer(self, position: int, state: bytes) -> None:
        self._tell(corel.SnapshotOffered(self._at, position, state))

    def _record(self, entry: Entry) -> None:
        self._out.append(Record(entry))

    def _on_applied(self, position: int) -> None:
        if position % DIGEST_EVERY == 0:
            self._record(StateReached(self.replica.settings.server, position, self.objects.machine.digest()))

    def _look_at_snapshot(self) -> None:
        position = self.objects.machine.state.position
        if position >= self._snapshot_at + self._snapshot_every and self.objects.failure is None:
            self._snapshot_at = position
            self.loop.call_soon(lambda: self.loop.create_task(self.objects.offer_snapshot()))
            self.loop.run_at(self._at)


class CheckedState(ReplicatedState):
    """Says of every record that it was applied."""

    def __init__(self, loop: NodeLoop, applied: Callable[[int], None], log: NodeLog, **options: Any) -> None:
        super().__init__(log, **options)
        self._loop, self._on_applied = loop, applied

    def now(self) -> int:
        """As the loop has it; also when it does not run."""
        return int(self._loop.time() * US)

    def _apply(self, entry: LogEntry) -> None:
        super()._apply(entry)
        self._on_applied(entry.position)
