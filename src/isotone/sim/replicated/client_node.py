"""A program that is no server, as a process of a simulated run: objects over the automaton of the log's port.

It stands beside a node and reaches the servers over streams; near the plan's faults it is killed, cut off, stopped.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isotone.core.contract import (
    Action,
    Address,
    Event,
    Record,
    SetTimer,
    Started,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
)
from isotone.core.errors import MachineError
from isotone.corel.port import wire
from isotone.corel.port.client import PortClient
from isotone.corel.port.search import Patience
from isotone.replicated.database.files import MemoryFiles
from isotone.replicated.database.state import Databases
from isotone.replicated.port_log import PortLog
from isotone.sim.evs_clients import StepDue
from isotone.sim.replicated.code import BANK, Tally
from isotone.sim.replicated.loop import NodeLoop
from isotone.sim.replicated.node import DIGEST_EVERY, CheckedState
from isotone.sim.replicated.programs import ObjectStep, Programs
from isotone.sim.replicated.terms import Terms
from isotone.trace.events import Entry
from isotone.trace.replicated import StateReached

PATIENCE = Patience(connect_within_us=1_000_000, grace_us=200_000, look_every_us=150_000)
MINE = "objects"


class ClientNode:
    """One incarnation."""

    periodic_timers = frozenset({MINE, "look", "rest", "time"})

    def __init__(
        self, mark: str, terms: Terms, addresses: Sequence[Address], *, wall: Callable[[int], int], rate: float
    ) -> None:
        self.mark, self._name = mark, mark.partition("#")[0]
        self.loop = NodeLoop(rate)
        self.seen_wall, self._wall, self._at = 0, wall, 0
        self._out: list[Action] = []
        self._opened = 0
        self.client = PortClient(addresses, wire.Hello(wire.VERSION, self._name), PATIENCE)
        self.log = PortLog(self.client, self)
        self.objects = CheckedState(
            self.loop,
            self._on_applied,
            self._record,
            self.log,
            nonce=self._nonce,
            lease_s=terms.lease_s,
            round_us=terms.round_us,
            classes=[Tally],
            databases=Databases([BANK], MemoryFiles()),
        )
        self.programs = Programs(self.objects, mark, self._record, lambda: wall(self._at), rate=rate, red=list)

    def _nonce(self) -> str:
        self._opened += 1
        return f"{self.mark}.{self._opened}"

    # --- for the log -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The process' clock."""
        return self._at

    def hand(self, event: Event) -> None:
        """To the automaton of the port."""
        self._out += [action for action in self.client.handle(event) if not self.log.take(action)]

    # --- events ------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Let programs, objects and the port have what is theirs."""
        self._at, self.seen_wall = event.at, self._wall(event.at)
        match event:
            case StepDue(step=ObjectStep() as step):
                self.loop.call_soon(self.programs.begin, step)
            case TimerFired(key=("objects", "wake")):
                pass
            case Started():
                self.loop.call_soon(lambda: self.loop.create_task(self._start()))
            case StreamOpened() | StreamReceived() | StreamWritable() | StreamClosed() | TimerFired():
                self.hand(event)
        self.loop.run_at(event.at)
        if (after := self.loop.wake_after_us()) is not None:
            self._out.append(SetTimer((MINE, "wake"), after))
        actions, self._out = self._out, []
        return actions

    async def _start(self) -> None:
        """A program whose servers do not answer at its start tries again; what it was to do meanwhile is not done."""
        while True:
            try:
                await self.objects.start()
                return
            except MachineError:
                continue

    def end(self) -> None:
        """The process is gone: whatever its programs held, they do not take for their own any more."""
        self.objects.failure = MachineError("the process ended")

    def _record(self, entry: Entry) -> None:
        self._out.append(Record(entry))

    def _on_applied(self, position: int) -> None:
        if position % DIGEST_EVERY == 0:
            self._record(StateReached(self._name, position, self.objects.machine.digest()))
