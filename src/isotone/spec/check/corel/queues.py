"""What each server's own record must show: FIFO, Causal, No Changes in Green, Yellow, Durable, and rising epochs.

Implements: [COReL 5.4]. Deviations: D-life, D-told, see `isotone.spec.corel_properties`.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.order import GreenOrder
from isotone.spec.check.corel.trail import Trail, Vector, event_of, parted
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Row

Past = dict[str, tuple[EventId, Vector]]
Had = dict[str, EventId]
"""What was in a log, each name with the row that first told so."""


def pasts(trails: list[Trail], order: GreenOrder) -> Past:
    """What each message's sender had when it sent it."""
    found: Past = {}
    for trail in trails:
        vector: Vector = {}
        for row in trail.walk():
            entry = row.entry
            if trail.placed:
                vector = order.prefix(trail.green)
                _count(vector, trail.queue)
            elif isinstance(entry, trace.Reddened | trace.Yellowed):
                _count(vector, entry.messages)
            elif isinstance(entry, trace.Initiated):
                found[entry.message] = (event_of(row), dict(vector))
    return found


def _count(vector: Vector, names: list[str] | tuple[str, ...]) -> None:
    for name in names:
        origin, counter = parted(name)
        vector[origin] = counter


class QueueJudge:
    """Walks along one server's record."""

    def __init__(self, trail: Trail, order: GreenOrder, past: Past, account: Account) -> None:
        self._trail = trail
        self._order = order
        self._past = past
        self._account = account
        self._vector: Vector = {}
        self._had: Had = {}  # on this server's disk, as it said
        self._green: dict[int, tuple[str, EventId]] = {}  # what it told as green, in any life
        self._told = 0
        self._epoch: tuple[int, EventId | None] = (0, None)
        self._log: tuple[str, EventId | None] = ("", None)  # its identity, as soon as one is told

    def judge(self) -> Had:
        """Judge every row; what the server ever had on disk."""
        trail = self._trail
        for row in trail.walk():
            event, entry = event_of(row), row.entry
            match entry:
                case trace.Reddened(messages=messages) | trace.Yellowed(messages=messages):
                    self._join(event, messages)
                case trace.Greened():
                    self._judge_green(event, entry)
                case trace.ReplicaStarted():
                    self._judge_log(event, entry.log)
                    self._judge_restart(event)
                    self._told = entry.green
                    self._judge_placed(event)
                case trace.QueueArranged():
                    self._judge_placed(event)
                case trace.StateInstalled(place=place):
                    self._told = place
                case trace.PrimaryCommitted():
                    self._judge_epoch(event)
                    self._judge_yellow(event, including=False)
        if trail.rows:
            self._judge_yellow(event_of(trail.rows[-1]), including=True)
        return dict(self._had)

    def _judge_placed(self, event: EventId) -> None:
        """The whole queue was set anew."""
        trail = self._trail
        self._vector = self._order.prefix(trail.green)
        for name in trail.queue:
            if self._order.places.get(name, trail.green + 1) <= trail.green:
                self._account.accuse("GREEN", (event,), f"{name} stands in the queue of {trail.server} and is green.")
        self._join(event, tuple(trail.queue))
        self._judge_epoch(event)
        self._judge_yellow(event, including=True)

    def _join(self, event: EventId, names: tuple[str, ...]) -> None:
        """These stand behind all that was counted so far: FIFO and Causal."""
        account, server, vector = self._account, self._trail.server, self._vector
        for name in names:
            origin, counter = parted(name)
            self._had.setdefault(name, event)
            if counter > 1:
                account.exercised.add("FIFO")
            if vector.get(origin, 0) != counter - 1:
                account.accuse("FIFO", (event,), f"{server} has {name} behind {origin}:{vector.get(origin, 0)}.")
            sent = self._past.get(name)
            if sent is not None:
                self._judge_causal(event, name, sent)
            vector[origin] = counter

    def _judge_causal(self, event: EventId, name: str, sent: tuple[EventId, Vector]) -> None:
        own = parted(name)[0]
        for origin, counter in sent[1].items():
            if origin != own:
                self._account.exercised.add("CAUSAL")
                if self._vector.get(origin, 0) < counter:
                    text = (
                        f"{self._trail.server} has {name} and not before it {origin}:{counter}, which its sender had."
                    )
                    self._account.accuse("CAUSAL", (event, sent[0]), text)

    def _judge_green(self, event: EventId, entry: trace.Greened) -> None:
        account, server = self._account, self._trail.server
        account.exercised.add("GREEN")
        if entry.place != self._told + 1:
            account.accuse("GREEN", (event,), f"{server} adds green at {entry.place} behind {self._told}.")
        for name in self._trail.strays[:1]:
            account.accuse("GREEN", (event,), f"{server} has {name} green, which did not stand there in its queue.")
        self._told = entry.place + len(entry.messages) - 1
        for place, name in enumerate(entry.messages, entry.place):
            before = self._green.setdefault(place, (name, event))
            if before[0] != name:
                account.accuse(
                    "GREEN", (before[1], event), f"{server} had {before[0]} green at {place}, and then {name}."
                )

    def _judge_log(self, event: EventId, log: str) -> None:
        """Nobody took its disk away: it comes back with the same log."""
        known, since = self._log
        if known and log != known and since is not None:
            text = f"{self._trail.server} came back with another log, and its disk was not lost."
            self._account.accuse("DURABLE", (since, event), text)
        self._log = (log, event)

    def _judge_restart(self, event: EventId) -> None:
        """All that was on disk is there; what was told as green is green, or yellow in its place."""
        trail, account = self._trail, self._account
        if self._had:
            account.exercised.add("DURABLE")
        there = set(trail.queue)
        for name, since in self._had.items():
            if name not in there and self._order.places.get(name, trail.green + 1) > trail.green:
                account.accuse(
                    "DURABLE", (since, event), f"{trail.server} had {name} on disk and came back without it."
                )
        for place, (name, since) in self._green.items():
            if place > trail.green and (place > trail.yellow or trail.queue[place - trail.green - 1] != name):
                text = f"{trail.server} told {name} as green at {place}; after its restart it is not there."
                account.accuse("DURABLE", (since, event), text)

    def _judge_epoch(self, event: EventId) -> None:
        number, since = self._epoch
        if number:
            self._account.exercised.add("EPOCHS")
        if self._trail.committed < number and since is not None:
            text = f"{self._trail.server} falls from primary {number} to {self._trail.committed}."
            self._account.accuse("EPOCHS", (since, event), text)
        self._epoch = (self._trail.committed, event)

    def _judge_yellow(self, event: EventId, *, including: bool) -> None:
        trail = self._trail
        if not trail.vouches:
            return
        owed, since = self._order.owed(trail.committed, including=including)
        if since is None:
            return
        self._account.exercised.add("YELLOW")
        for place in range(trail.green + 1, owed + 1):
            name = self._order.names.get(place)
            if place > trail.yellow or trail.queue[place - trail.green - 1] != name:
                text = (
                    f"{trail.server} knows of a primary in which {name} became green at {place}, and has it not there."
                )
                self._account.accuse("YELLOW", (since, event), text)
                return


def rows_of(rows: list[Row]) -> list[Trail]:
    """The rows by server and log, each in their order.

    Of a log that was lost with its disk nothing more is owed; nor of one that an operator gave up for a copy: then the
    server comes back with another log and a higher fence.
    """
    trails: dict[str, list[Trail]] = {}
    known: dict[str, tuple[str, int]] = {}  # by node, the identity of its log and the fence
    for row in sorted(rows, key=event_of):
        found = trails.setdefault(row.node, [])
        log, fence = known.get(row.node, ("", 0))
        match row.entry:
            case trace.ReplicaStarted(log=other, fence=higher) if log and other != log and higher > fence:
                found.append(Trail(row.entry.server, is_restored=True))
                log, fence = "", 0
            case trace.DiskLost():
                log, fence = "", 0
        if not found or (found[-1].rows and found[-1].is_lost):
            found.append(Trail(row.entry.server, began_empty=bool(found)))  # type: ignore[attr-defined]
        if isinstance(row.entry, trace.ReplicaStarted | trace.Fenced):
            log = row.entry.log or log if isinstance(row.entry, trace.ReplicaStarted) else log
            fence = max(fence, row.entry.fence)
        known[row.node] = (log, fence)
        found[-1].rows.append(row)
    return [trail for found in trails.values() for trail in found]
