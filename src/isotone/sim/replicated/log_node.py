"""A server of a replicated log as a process of a simulated world, with its log as what stands above it sees it.

What the replica tells its application stands behind its writes: each such action becomes a timer of a microsecond in
the replica's stream, and is handled when that fires. So nobody hears of anything before it is on disk.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections import deque

from isotone.core import boundary as b4
from isotone.core.contract import Action, Event, SetTimer, Started, TimerFired
from isotone.core.ordered_log import Snapshot
from isotone.corel import events as corel
from isotone.corel.replica import Replica
from isotone.sim.corel_node import APPLICATION
from isotone.sim.replicated.log import NodeLog

MINE = "objects"


class LogNode:
    """One incarnation."""

    periodic_timers = frozenset({MINE})
    log: NodeLog

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._told: deque[Action] = deque()  # what waits for its timer
        self._tells = 0
        self._out: list[Action] = []
        self._at = 0

    def handle(self, event: Event) -> list[Action]:
        """Let the replica and the log have what is theirs."""
        self._at = event.at
        if isinstance(event, TimerFired) and event.key[0] == MINE:
            self._on_told(self._told.popleft())
        else:
            self._tell(event)
            if isinstance(event, Started):
                self._wake()
        actions, self._out = self._out, []
        return actions

    def _kill(self) -> None:
        """The session breaks off: at B4 that looks like a farewell."""
        client = self.replica.session.client
        if client is not None:
            self._out.append(b4.Ask(client, b4.Disconnect()))
            self._tell(b4.Indicated(self._at, (client,), b4.Disconnected("killed")))

    def _wake(self) -> None:
        """The state as the disk has it: the snapshot, and what is green behind it."""
        ledger = self.replica.ledger
        snapshot, place, records = None, 0, 0
        if ledger.snapshot is not None:
            head = ledger.snapshot.head
            snapshot = Snapshot(head.position, ledger.snapshot.state)
            place, records = head.place, head.records
        self.log.begin(snapshot, records, list(ledger.queue.between(place, ledger.queue.green)))
        self.log.on_red(ledger.queue.between(ledger.queue.green, ledger.queue.end))

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
            case corel.DeliverRed(messages=messages):
                self.log.on_red(messages)
            case corel.DeliverGreen(position=position, messages=messages):
                self.log.on_green(position, messages)
            case corel.InstallSnapshot(position=position, state=state):
                queue = self.replica.ledger.queue
                held = {message.name for message in queue.held}
                self.log.on_install(position, state, lambda name: queue.has(name) and name not in held)
            case corel.StandingChanged(primary=primary):
                self.log.on_standing(primary=primary)
