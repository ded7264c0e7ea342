"""A COReL server as a process of a simulated run: the replica, and an application that appends and listens.

Its state is a digest over all green records, in their order; it offers a snapshot now and then. What else the replica
tells it is dropped: the record has it too, in its place behind the disk, and the checkers judge that.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from isotone.core import boundary as b4
from isotone.core.contract import Action, Event, Started
from isotone.corel.events import (
    AppendNamed,
    AppendRefused,
    AppendWanted,
    ConfigurationChanged,
    DeliverGreen,
    DeliverRed,
    DeliverWhite,
    InstallSnapshot,
    ReconfigurationAnswered,
    ReconfigurationWanted,
    SnapshotOffered,
    StandingChanged,
)
from isotone.corel.message import Message
from isotone.corel.quorum import DynamicVoting, Majority, Monarch, Rule, TieBreaker, Weighted
from isotone.corel.replica import Replica
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.plan import Step

APPLICATION = (
    AppendNamed,
    AppendRefused,
    ConfigurationChanged,
    DeliverGreen,
    DeliverRed,
    DeliverWhite,
    InstallSnapshot,
    ReconfigurationAnswered,
    StandingChanged,
)


class AppendStep(Step, frozen=True, tag="append"):
    """The application at a node appends records of these lengths, in one instant."""

    lengths: tuple[int, ...]


class ReconfigureStep(Step, frozen=True, tag="reconfigure"):
    """An operator asks the server at a node that this one be added or removed."""

    server: str
    adds: bool
    votes: int = 1  # of a server that is added, where votes are counted
    monarch: bool = False  # the new rule asks for it alone


class RuleStep(Step, frozen=True, tag="rule"):
    """An operator asks the server at a node for another rule."""

    rule: str
    server: str  # the monarch, the tie-breaker, or the one with more votes


def _other_rule(step: RuleStep) -> Rule:
    """Without the servers: the replica puts them in."""
    match step.rule:
        case "monarch":
            return Monarch(step.server)
        case "tie-breaker":
            return TieBreaker((), step.server)
        case "votes":
            return Weighted({step.server: 3})
        case "dynamic":
            return DynamicVoting(1)
    return Majority(())


RULE_KINDS = ("majority", "monarch", "tie-breaker", "votes", "dynamic")


def _wanted(at: int, step: ReconfigureStep | RuleStep) -> ReconfigurationWanted:
    if isinstance(step, RuleStep):
        return ReconfigurationWanted(at, 0, rule=_other_rule(step))
    if not step.adds:
        return ReconfigurationWanted(at, 0, remove=step.server)
    rule = Monarch(step.server) if step.monarch else None
    return ReconfigurationWanted(at, 0, add=step.server, rule=rule, votes=((step.server, step.votes),))


@dataclass
class Chain:
    """The application's state: a digest over the records up to a position."""

    position: int = 0
    digest: bytes = b""

    def take(self, first: int, messages: Iterable[Message]) -> None:
        """Green records from a position on; those that it knows already are passed over."""
        position = first
        for message in messages:
            for record in message.records:
                if position == self.position + 1:
                    self.digest = blake2b(self.digest + record, digest_size=16).digest()
                    self.position = position
                position += 1

    def state(self, size: int) -> bytes:
        """It, as long as this or longer."""
        return self.digest * (size // 16 + 1)


@dataclass
class CorelNode:
    """One incarnation."""

    replica: Replica
    mark: str
    heard: Callable[[StandingChanged | ConfigurationChanged], None]  # who lies in wait
    learned: Callable[[str], None]  # by whose help a piece of a state came, while it is not whole
    snapshot_every: int = 0  # after so many records a snapshot is offered; 0: never
    snapshot_bytes: int = 0
    appended: int = 0
    refused: int = 0
    chain: Chain | None = None  # kept where snapshots are
    _offered: int = 0

    def handle(self, event: Event) -> list[Action]:
        """Play a step, break the session, or let the replica have it."""
        match event:
            case StepDue(step=AppendStep(lengths=lengths)):
                return [action for length in lengths for action in self._append(event.at, length)]
            case StepDue(step=ReconfigureStep() | RuleStep()) if not self.snapshot_every:
                return []  # who comes back after all was forgotten could not be helped
            case StepDue(step=ReconfigureStep() | RuleStep() as step):
                return self._tell(_wanted(event.at, step))
            case ClientKilled():
                return self._kill(event.at)
        actions = self._tell(event)
        if isinstance(event, Started) and self.snapshot_every:
            self._wake()
        return actions + self._offer(event.at)

    def _append(self, at: int, length: int) -> list[Action]:
        self.appended += 1
        mark = f"{self.mark}.{self.appended}.".encode()
        record = (mark * (length // len(mark) + 1))[: max(length, len(mark))]
        return self._tell(AppendWanted(at, self.appended, record))

    def _kill(self, at: int) -> list[Action]:
        """The session breaks off: at B4 that looks like a farewell, and the replica hears that it is over."""
        client = self.replica.session.client
        if client is None:
            return []
        lost = b4.Indicated(at, (client,), b4.Disconnected("killed"))
        return [b4.Ask(client, b4.Disconnect()), *self._tell(lost)]

    def _wake(self) -> None:
        """The state as the log has it: the snapshot, and what is green behind it."""
        ledger = self.replica.ledger
        self.chain, snapshot = Chain(), ledger.snapshot
        place, records = 0, 0
        if snapshot is not None:
            self.chain = Chain(snapshot.head.position, snapshot.state[:16])
            place, records = snapshot.head.place, snapshot.head.records
        self.chain.take(records + 1, ledger.queue.between(place, ledger.queue.green))
        self._offered = self.chain.position

    def _offer(self, at: int) -> list[Action]:
        if self.chain is None or self.chain.position < self._offered + self.snapshot_every:
            return []
        self._offered = self.chain.position
        return self._tell(SnapshotOffered(at, self._offered, self.chain.state(self.snapshot_bytes)))

    def _tell(self, event: Event) -> list[Action]:
        ledger = self.replica.ledger
        had = ledger.arriving.size if ledger.arriving is not None else 0
        actions = self.replica.handle(event)
        if self.replica.learner.active and ledger.arriving is not None and ledger.arriving.size > had:
            self.learned(self.replica.learner.teacher)
        for action in actions:
            match action:
                case StandingChanged() | ConfigurationChanged():
                    self.heard(action)
                case AppendRefused():
                    self.refused += 1
                case DeliverGreen(position=position, messages=messages) if self.chain is not None:
                    self.chain.take(position, messages)
                case InstallSnapshot(position=position, state=state) if self.chain is not None:
                    self.chain = Chain(position, state[:16])
        return [action for action in actions if type(action) not in APPLICATION]
