"""Local atomic broadcast by consensus with a rotating coordinator and an eventually strong failure detector.

Broadcasts are spread to all; instance after instance decides which come next. In a round the coordinator proposes, the
others accept it or suspect the coordinator; with a majority that accepts it is decided. Any round but the first begins
with estimates of a majority, of which the coordinator takes the one that was adopted last, so that what may have been
decided stays. A process that crashes stays away.

Implements: [HAB 2.3], the atomic broadcast that the paper takes from Chandra and Toueg. Deviations: Dc1 the first round
has no estimates (none can have been adopted before); Dc2 the batch carries the records, so no relaying is needed to
have them; Dc3 the next instance begins with the coordinator that proposed the last batch; Dc4 channels may lose: what
is not answered is sent again by a timer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isotone.core.codec import ControlMessage
from isotone.core.contract import Action, Event, SetTimer, Stop, TimerFired
from isotone.hab.consensus_messages import CODEC, Accept, Batch, Decide, Estimate, Item, Propose, Spread
from isotone.hab.events import DeliverLocally, LocalBroadcast, LocalSuspected, PacketReceived, SendPacket

AGAIN = "again"
BATCH_MAX, BATCH_BYTES_MAX = 256, 48 * 1024
DECISIONS_MAX = 4_096
CATCH_UP_MAX = 16


@dataclass
class Instance:
    """The instance that is not decided yet."""

    round: int = 1
    adopted: int = 0  # the round in which the estimate was adopted; 0: it is our own
    estimate: Batch | None = None
    proposal: Batch | None = None  # (coordinator) what we proposed in this round
    estimates: dict[int, tuple[int, Batch]] = field(default_factory=dict)  # (coordinator) by sender
    accepts: set[int] = field(default_factory=set)


@dataclass
class Consensus:
    """One process of a group that orders by consensus. Processes have places in ``processes``."""

    me: str
    processes: tuple[str, ...]
    again_us: int = 30_000
    instance: int = 1
    delivered: int = 0
    _now: Instance = field(default_factory=Instance)
    _first: int = 0  # the place of the coordinator of the first round
    _own: int = 0  # the number of our last broadcast
    _waiting: dict[tuple[int, int], Item] = field(default_factory=dict)  # spread, and not decided
    _numbers: dict[int, int] = field(default_factory=dict)  # the last number of each sender that is decided
    _decisions: deque[Batch] = field(default_factory=deque)  # the last ones, for those who lag behind
    _suspected: frozenset[int] = frozenset()
    _armed: bool = False

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        actions: list[Action] = []
        match event:
            case PacketReceived(source=source, data=data):
                actions = self._on_message(self.processes.index(source), CODEC.decode(data))
            case TimerFired():
                self._armed = False
                actions = self._send_again()
            case LocalSuspected(processes=processes):
                self._suspected = frozenset(self.processes.index(each) for each in processes if each in self.processes)
                actions = self._go_on()
        return [*actions, *self._arm()]

    def broadcast(self, wanted: LocalBroadcast) -> list[Action]:
        """A-broadcast."""
        self._own += 1
        item = Item(self._place, self._own, wanted.record)
        self._waiting[item.sender, item.number] = item
        return [*self._to_all(Spread(self.instance, (item,))), *self._go_on(), *self._arm()]

    @property
    def _place(self) -> int:
        return self.processes.index(self.me)

    def _coordinator(self, round: int) -> int:
        return (self._first + round - 1) % len(self.processes)

    @property
    def _majority(self) -> int:
        return len(self.processes) // 2 + 1

    def is_busy(self) -> bool:
        """Whether something is not decided."""
        return bool(self._waiting) or self._now.adopted > 0

    def _arm(self) -> list[Action]:
        if self._armed or not self.is_busy() or len(self.processes) == 1:
            return []
        self._armed = True
        return [SetTimer(AGAIN, self.again_us)]

    # --- sending ---------------------------------------------------------------------------------------------------

    def _to(self, place: int, message: ControlMessage) -> list[Action]:
        assert place != self._place
        return [SendPacket(self.processes[place], CODEC.encode(message))]

    def _to_all(self, message: ControlMessage) -> list[Action]:
        data = CODEC.encode(message)
        return [SendPacket(process, data) for process in self.processes if process != self.me]

    def _send_again(self) -> list[Action]:
        """Everything that was not answered may have been lost."""
        now, actions = self._now, self._go_on()
        own = tuple(item for key, item in sorted(self._waiting.items()) if key[0] == self._place)
        if own:
            actions += self._to_all(Spread(self.instance, _bounded(own)))
        coordinator = self._coordinator(now.round)
        if coordinator == self._place:
            if now.proposal is not None:
                actions += self._to_all(Propose(self.instance, now.round, now.proposal))
            elif now.round > 1 and now.estimate is not None:
                actions += self._to_all(Estimate(self.instance, now.round, now.adopted, now.estimate))
        elif now.adopted == now.round:
            actions += self._to(coordinator, Accept(self.instance, now.round))
        elif now.round > 1 and now.estimate is not None:
            actions += self._to(coordinator, Estimate(self.instance, now.round, now.adopted, now.estimate))
        return actions

    # --- rounds ----------------------------------------------------------------------------------------------------

    def _go_on(self) -> list[Action]:
        """Propose if it is our turn; leave a round whose coordinator is suspected."""
        actions: list[Action] = []
        for _ in self.processes:
            now = self._now
            if not self._waiting and not now.adopted:
                return actions
            if self._coordinator(now.round) == self._place:
                return [*actions, *self._propose()]
            if self._coordinator(now.round) not in self._suspected:
                return actions
            refused = Accept(self.instance, now.round, accepted=False)
            actions += self._to(self._coordinator(now.round), refused)
            actions += self._enter(now.round + 1, call=True)
        return actions

    def _enter(self, round: int, *, call: bool = False) -> list[Action]:
        """A later round: its coordinator gets our estimate; with ``call``, all do, so that they come along."""
        now = self._now
        now.round, now.proposal, now.estimates, now.accepts = round, None, {}, set()
        if now.estimate is None or not now.adopted:
            now.estimate = self._own_estimate()
        coordinator = self._coordinator(round)
        message = Estimate(self.instance, round, now.adopted, now.estimate)
        if coordinator == self._place:
            now.estimates[self._place] = (now.adopted, now.estimate)
        if call:
            return self._to_all(message)
        return [] if coordinator == self._place else self._to(coordinator, message)

    def _own_estimate(self) -> Batch:
        """What waits, of each sender in its order and without gaps."""
        taken: list[Item] = []
        numbers = dict(self._numbers)
        for (sender, number), item in sorted(self._waiting.items()):
            if number == numbers.get(sender, 0) + 1:
                numbers[sender] = number
                taken.append(item)
        return Batch(self._place, _bounded(tuple(taken)))

    def _propose(self) -> list[Action]:
        now = self._now
        if now.proposal is not None:
            return []
        if now.round == 1:
            batch = self._own_estimate()
        else:
            now.estimates.setdefault(self._place, (now.adopted, now.estimate or self._own_estimate()))
            if len(now.estimates) < self._majority:
                return []
            batch = max(now.estimates.items(), key=lambda each: (each[1][0], len(each[1][1].items), -each[0]))[1][1]
        if not batch.items:
            return []
        now.proposal = now.estimate = batch
        now.adopted = now.round
        now.accepts = {self._place}
        return [*self._to_all(Propose(self.instance, now.round, batch)), *self._decide_if_accepted()]

    def _decide_if_accepted(self) -> list[Action]:
        now = self._now
        if now.proposal is None or len(now.accepts) < self._majority:
            return []
        decided = Decide(self.instance, now.proposal)
        return [*self._to_all(decided), *self._decide(now.proposal)]

    def _decide(self, batch: Batch) -> list[Action]:
        """Deliver, and begin the next instance."""
        self._decisions.append(batch)
        if len(self._decisions) > DECISIONS_MAX:
            self._decisions.popleft()
        self.instance += 1
        self._now = Instance()
        self._first = batch.proposer
        records = []
        for item in batch.items:
            self._waiting.pop((item.sender, item.number), None)
            if item.number > self._numbers.get(item.sender, 0):
                self._numbers[item.sender] = item.number
                records.append(item.record)
        self.delivered += len(records)
        delivered: list[Action] = [DeliverLocally(tuple(records))] if records else []
        return [*delivered, *self._go_on()]

    # --- messages --------------------------------------------------------------------------------------------------

    def _on_message(self, sender: int, message: ControlMessage) -> list[Action]:
        instance: int = message.instance  # type: ignore[attr-defined]  # all have it
        if isinstance(message, Spread):
            for item in message.items:
                if item.number > self._numbers.get(item.sender, 0):
                    self._waiting[item.sender, item.number] = item
            behind = self._teach(sender, instance) if instance < self.instance else []
            return [*behind, *self._go_on()]
        if instance < self.instance:
            return [] if isinstance(message, Decide) else self._teach(sender, instance)
        if instance > self.instance:
            return self.on_progress(sender, instance)
        if isinstance(message, Decide):
            return self._decide(message.batch)
        return self._on_round(sender, message)

    def _teach(self, sender: int, instance: int) -> list[Action]:
        """One that lags behind gets the decisions that it lacks, some at a time."""
        oldest = self.instance - len(self._decisions)
        if instance < oldest:
            return []  # it hears from the detector's probe that it cannot go on
        actions: list[Action] = []
        for number in range(instance, min(self.instance, instance + CATCH_UP_MAX)):
            actions += self._to(sender, Decide(number, self._decisions[number - oldest]))
        return actions

    def on_progress(self, sender: int, instance: int) -> list[Action]:
        """Another is ahead: ask it, by a word about the instance that is not decided here."""
        if instance <= self.instance:
            return []
        if instance - self.instance > DECISIONS_MAX:
            return [Stop("too far behind the other processes of its centre")]
        return self._to(sender, Spread(self.instance, ()))

    def _on_round(self, sender: int, message: ControlMessage) -> list[Action]:
        round: int = message.round  # type: ignore[attr-defined]  # all that come here have it
        actions: list[Action] = []
        if round > self._now.round:
            actions = self._enter(round)
        now = self._now
        if round < now.round:
            return actions
        match message:
            case Estimate(adopted=adopted, batch=batch) if self._coordinator(round) == self._place:
                now.estimates[sender] = (adopted, batch)
                actions += self._propose()
            case Propose(batch=batch) if self._coordinator(round) == sender:
                now.estimate, now.adopted = batch, round
                actions += self._to(sender, Accept(self.instance, round))
            case Accept(accepted=True) if now.proposal is not None:
                now.accepts.add(sender)
                actions += self._decide_if_accepted()
            case Accept(accepted=False) if self._coordinator(round) == self._place:
                actions += self._enter(round + 1, call=True)
        return actions


def _bounded(items: tuple[Item, ...]) -> tuple[Item, ...]:
    size = 0
    for place, item in enumerate(items[:BATCH_MAX]):
        size += len(item.record)
        if place and size > BATCH_BYTES_MAX:
            return items[:place]
    return items[:BATCH_MAX]
