"""What each server's own record must show: FIFO, Causal, No Changes in Green, Yellow, Durable, and rising epochs.

Implements: [COReL 5.4]. Deviations: D-life, D-told, see `isotone.spec.corel_properties`.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.order import GreenOrder
from isotone.spec.check.corel.trail import Trail, Vector, event_of, parted
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace

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
        self._attempted: tuple[int, EventId | None] = (0, None)
        self._life: tuple[int, EventId | None] = (0, None)
        self._open: tuple[tuple[str, ...], int, int, EventId | None] = (
            (),
            0,
            0,
            None,
        )  # queue and lines, before this row

    def judge(self) -> Had:
        """Judge every row; what the server ever had on disk."""
        trail = self._trail
        for row in trail.walk():
            event, entry = event_of(row), row.entry
            match entry:
                case trace.PrimaryAttempted(primary=number):
                    self._judge_attempt(event, number)
                case trace.Reddened(messages=messages) | trace.Yellowed(messages=messages):
                    self._join(event, messages)
                case trace.Greened():
                    self._judge_green(event, entry)
                case trace.ReplicaStarted():
                    self._judge_log(event, entry.log)
                    self._judge_counts(event, entry)
                    self._judge_restart(event)
                    self._judge_found(event, entry.attempted)
                    self._told = entry.green
                    self._judge_placed(event)
                case trace.QueueArranged():
                    self._judge_kept(event)
                    self._judge_placed(event)
                case trace.StateInstalled(place=place):
                    self._judge_installed(event, place)
                    self._told = place
                case trace.PrimaryCommitted():
                    self._judge_epoch(event)
                    self._judge_yellow(event, including=False)
            if not isinstance(entry, trace.StateInstalled):  # what is left of the queue is told right behind it
                self._open = (tuple(trail.queue), trail.green, trail.yellow, event)
        if trail.rows:
            self._judge_yellow(event_of(trail.rows[-1]), including=True, is_end=True)
        return dict(self._had)

    def _judge_placed(self, event: EventId) -> None:
        """The whole queue was set anew."""
        trail = self._trail
        self._judge_lines(event)
        self._vector = self._order.prefix(trail.green)
        for name in trail.queue:
            if self._order.places.get(name, trail.green + 1) <= trail.green:
                self._account.accuse("GREEN", (event,), f"{name} stands in the queue of {trail.server} and is green.")
        self._join(event, tuple(trail.queue))
        self._judge_epoch(event)
        self._judge_yellow(event, including=True)

    def _judge_installed(self, event: EventId, place: int) -> None:
        """A state stands for more than what is green, or for the same."""
        _, green, _, since = self._open
        if since is not None and place < green:
            text = f"{self._trail.server} had {green} green messages, and installed a state of {place}."
            self._account.accuse("GREEN", (since, event), text, proven=True)

    def _judge_kept(self, event: EventId) -> None:
        """A recovery reorders what is not green, adds to it, and makes some of it green; it drops nothing."""
        trail, account = self._trail, self._account
        queue, green, _, since = self._open
        if since is None:
            return
        if green:
            account.exercised.add("GREEN")
        if trail.green < green:
            text = f"{trail.server} had {green} green messages, and {trail.green} after a recovery."
            account.accuse("GREEN", (since, event), text, proven=True)
        if queue:
            account.exercised.add("KEPT")
        there = set(trail.queue)
        for name in queue:
            if name not in there and self._order.places.get(name, trail.green + 1) > trail.green:
                text = f"{trail.server} had {name}, and a recovery dropped it."
                account.accuse("KEPT", (since, event), text, proven=trail.green <= green)
                return

    def _judge_lines(self, event: EventId) -> None:
        """What is green is yellow too, what is yellow is in the queue; nothing is green that nobody ever ordered."""
        trail, account = self._trail, self._account
        end = trail.green + len(trail.queue)
        if not trail.green <= trail.yellow <= end:
            text = (
                f"{trail.server} is green up to {trail.green} and yellow up to {trail.yellow}; its queue ends at {end}."
            )
            account.accuse("YELLOW", (event,), text, proven=True)
        queue, green, _, since = self._open
        if since is not None and self._order.names and trail.green > max(self._order.highest, green + len(queue)):
            text = f"{trail.server} is green up to {trail.green}; nobody ever ordered more than {self._order.highest}."
            account.accuse("GREEN", (since, event), text)

    def _judge_attempt(self, event: EventId, number: int) -> None:
        highest, since = self._attempted
        if since is not None:
            self._account.exercised.add("ATTEMPTS")
            if number <= highest:
                text = f"{self._trail.server} attempts primary {number} behind {highest}."
                self._account.accuse("ATTEMPTS", (since, event), text, proven=True)
        committed, since = self._epoch
        if since is not None and number <= committed:
            text = f"{self._trail.server} attempts primary {number}, and knows of {committed}."
            self._account.accuse("ATTEMPTS", (since, event), text, proven=True)
        self._attempted = max(self._attempted, (number, event), key=lambda each: each[0])

    def _judge_found(self, event: EventId, number: int) -> None:
        """The last attempted primary, as it was on disk: an attempt is written down before anybody hears of it."""
        highest, since = self._attempted
        if highest:
            self._account.exercised.add("ATTEMPTS")
        if number < highest and since is not None:
            text = f"{self._trail.server} attempted primary {highest}, and came back with {number} as the last one."
            self._account.accuse("ATTEMPTS", (since, event), text, proven=True)
        if number > highest or since is None:
            self._attempted = (number, event)

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
            text = f"{server} adds green at {entry.place} behind {self._told}."
            account.accuse("GREEN", (event,), text, proven=True)
        for name in self._trail.strays[:1]:
            text = f"{server} has {name} green, which did not stand there in its queue."
            account.accuse("GREEN", (event,), text, proven=True)
        self._told = entry.place + len(entry.messages) - 1
        for place, name in enumerate(entry.messages, entry.place):
            before = self._green.setdefault(place, (name, event))
            if before[0] != name:
                text = f"{server} had {before[0]} green at {place}, and then {name}."
                account.accuse("GREEN", (before[1], event), text, proven=True)

    def _judge_log(self, event: EventId, log: str) -> None:
        """Nobody took its disk away: it comes back with the same log."""
        known, since = self._log
        if known and log != known and since is not None:
            text = f"{self._trail.server} came back with another log, and its disk was not lost."
            self._account.accuse("DURABLE", (since, event), text, proven=True)
        self._log = (log, event)

    def _judge_counts(self, event: EventId, entry: trace.ReplicaStarted) -> None:
        """A life is begun once; and what is yellow is on disk before anybody hears of it."""
        server, (life, born) = self._trail.server, self._life
        if born is not None and entry.life <= life:
            text = f"{server} begins life {entry.life} behind life {life}."
            self._account.accuse("DURABLE", (born, event), text, proven=True)
        _, _, yellow, since = self._open
        if since is not None and entry.yellow < yellow:
            text = f"{server} was yellow up to {yellow}, and came back with {entry.yellow}."
            self._account.accuse("DURABLE", (since, event), text, proven=True)
        self._life = (entry.life, event)

    def _judge_restart(self, event: EventId) -> None:
        """All that was on disk is there; what was told as green is green, or yellow in its place."""
        trail, account = self._trail, self._account
        if self._had:
            account.exercised.add("DURABLE")
        there = set(trail.queue)
        for name, since in self._had.items():
            if name not in there and self._order.places.get(name, trail.green + 1) > trail.green:
                text = f"{trail.server} had {name} on disk and came back without it."
                is_proven = len(self._green) >= trail.green  # it told itself what all the green ones are
                account.accuse("DURABLE", (since, event), text, proven=is_proven)
        for place, (name, since) in self._green.items():
            if place > trail.green and trail.marked(place) != name:
                text = f"{trail.server} told {name} as green at {place}; after its restart it is not there."
                account.accuse("DURABLE", (since, event), text, proven=True)

    def _judge_epoch(self, event: EventId) -> None:
        number, since = self._epoch
        if number:
            self._account.exercised.add("EPOCHS")
        if self._trail.committed < number and since is not None:
            text = f"{self._trail.server} falls from primary {number} to {self._trail.committed}."
            self._account.accuse("EPOCHS", (since, event), text, proven=True)
        self._epoch = (self._trail.committed, event)

    def _judge_yellow(self, event: EventId, *, including: bool, is_end: bool = False) -> None:
        """``is_end``: of what is at hand; what comes later may be lost."""
        trail = self._trail
        if not trail.vouches:
            return
        owed, since = self._order.owed(trail.committed, including=including)
        if since is None:
            return
        self._account.exercised.add("YELLOW")
        for place in range(trail.green + 1, owed + 1):
            name = self._order.names.get(place)
            if place > trail.yellow or trail.marked(place) != name:
                text = (
                    f"{trail.server} knows of a primary in which {name} became green at {place}, and has it not there."
                )
                self._account.accuse("YELLOW", (since, event), text, proven=name is not None and not is_end)
                return
