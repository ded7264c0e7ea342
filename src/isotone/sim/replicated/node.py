"""A server with replicated objects as a process of a simulated run: the replica, the objects, and programs using them.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from isotone.core.choice import Choice
from isotone.core.contract import Action, Event, Record, SetTimer, Started, TimerFired
from isotone.core.errors import MachineError
from isotone.core.ordered_log import LogEntry, OrderedLog, Snapshot
from isotone.corel import events as corel
from isotone.corel.replica import Replica
from isotone.replicated.database.files import MemoryFiles
from isotone.replicated.database.state import Databases
from isotone.replicated.state import ReplicatedState
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.replicated.code import BANK, Tally
from isotone.sim.replicated.log import NodeLog
from isotone.sim.replicated.log_node import MINE, LogNode
from isotone.sim.replicated.loop import US, NodeLoop
from isotone.sim.replicated.programs import TALLY, ObjectStep, Programs, calls_of, name_of_call, told_command
from isotone.sim.replicated.terms import Terms
from isotone.trace.events import Entry
from isotone.trace.replicated import CommandOrdered, StateReached

DIGEST_EVERY = 8


class LogWork(Event, frozen=True):
    """The port of the server has something done on its loop."""

    make: Callable[[], Coroutine[Any, Any, None]]


class ObjectNode(LogNode):
    """One incarnation."""

    def __init__(
        self,
        replica: Replica,
        mark: str,
        terms: Terms,
        *,
        wall: Callable[[int], int],
        choice: Choice,
        files: MemoryFiles,
    ) -> None:
        super().__init__(replica)
        self.mark = mark
        server = replica.settings.server
        self.loop = NodeLoop(terms.rates[server])
        self.log = NodeLog(self.loop, choice=choice, send=self._send, offer=self._offer)
        self.seen_wall, self._wall = 0, wall  # when it last did something, on the common clock
        self._opened = 0
        self.objects = CheckedState(
            self.loop,
            self._on_applied,
            self._record,
            self.log,
            nonce=self._nonce,
            server=server,
            servers=lambda: replica.ledger.queue.configuration.servers,
            why_no_order=lambda: "" if self.log.is_primary else "no primary component",
            lease_s=terms.lease_s,
            round_us=terms.round_us,
            classes=[Tally],
            databases=Databases([BANK], files),
            red=self.log.red_messages.records,
        )
        self._snapshot_every, self._snapshot_at = terms.snapshot_every, 0
        self.programs = Programs(
            self.objects, mark, self._record, lambda: wall(self._at), rate=self.loop.rate, red=self.log.told_records
        )

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
            case LogWork(make=make):
                self.loop.call_soon(lambda: self.loop.create_task(make()))
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

    def _wake(self) -> None:
        super()._wake()
        self._snapshot_at = self.log.first - 1
        self.loop.call_soon(lambda: self.loop.create_task(self.objects.start()))

    # --- what objects ask --------------------------------------------------------------------------------------------

    def _send(self, request: int, record: bytes) -> None:
        self._tell(corel.AppendWanted(self._at, request, record))

    def _offer(self, snapshot: Snapshot) -> None:
        self._tell(corel.SnapshotOffered(self._at, snapshot.position, snapshot.state, snapshot.digest))

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
    """Says of every record that it was applied, and of the commands of a tally what they are."""

    def __init__(
        self,
        loop: NodeLoop,
        applied: Callable[[int], None],
        record: Callable[[Entry], None],
        log: OrderedLog,
        **options: Any,
    ) -> None:
        super().__init__(log, **options)
        self._loop, self._on_applied, self._record = loop, applied, record

    def now(self) -> int:
        """As the loop has it; also when it does not run."""
        return int(self._loop.time() * US)

    def _apply(self, entry: LogEntry) -> None:
        super()._apply(entry)
        for call in calls_of(TALLY, [entry.record]) if self.server else ():
            counts = call.session in self.machine.state.sessions and not self.machine.why_unknown(
                call.kind, call.method
            )
            told = CommandOrdered(self.server, entry.position, TALLY, name_of_call(call), told_command(call), counts)
            self._record(told)
        self._on_applied(entry.position)
