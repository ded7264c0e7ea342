"""One server's rows read again: its queue as they describe it, step by step.

Implements: [COReL 3.2], MQ as an observer knows it. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Row

Vector = dict[str, int]


def parted(name: str) -> tuple[str, int]:
    """Origin and counter of a message's name; what is no such name is the only message of its own origin."""
    origin, _, counter = name.rpartition(":")
    return (origin, int(counter)) if counter.isdecimal() and origin else (name, 1)


def event_of(row: Row) -> EventId:
    """The id of a row."""
    return (row.node, row.incarnation, row.index)


@dataclass
class Trail:
    """The rows of one log of a server, in their order, and the model of its queue after those that were walked."""

    server: str
    rows: list[Row] = field(default_factory=list)
    began_empty: bool = False  # for an earlier log of this server was lost with its disk
    is_restored: bool = False  # it began from a copy, and an earlier log of this server was given up
    green: int = 0
    yellow: int = 0
    told: int = 0  # green messages told in this life, as a place
    committed: int = 0
    queue: list[str] = field(default_factory=list)  # what is not green
    placed: bool = False  # whether the last row set the whole queue anew
    strays: tuple[str, ...] = ()  # what the last row called green, and did not stand there
    vouches: bool = True  # it did not lose yellow marks by catching up
    servers: tuple[str, ...] = ()  # of its green prefix, as it tells it
    rule: str = ""  # of their quorums, as it tells it
    is_told: bool = False  # whether a row has told what it has: else the record begins later than its life

    def marked(self, place: int) -> str | None:
        """What stands at a place behind the green line, if it is yellow; none also where the queue is too short."""
        at = place - self.green - 1
        return self.queue[at] if place <= self.yellow and 0 <= at < len(self.queue) else None

    @property
    def is_lost(self) -> bool:
        """Whether it ended with its disk."""
        return isinstance(self.rows[-1].entry, trace.DiskLost)

    @property
    def copied_green(self) -> int:
        """The green line of the copy that it began from, if it did."""
        first = self.rows[0].entry
        return first.green if self.is_restored and isinstance(first, trace.ReplicaStarted) else 0

    def walk(self) -> Iterator[Row]:
        """Each row, after it took effect on the model."""
        self.green = self.yellow = self.told = self.committed = 0
        self.queue = []
        self.vouches, self.servers, self.rule, self.is_told = True, (), "", False
        for row in self.rows:
            self.placed, self.strays = False, ()
            self._take(row.entry)
            yield row

    def _take(self, entry: object) -> None:
        match entry:
            case trace.Reddened(messages=messages):
                self.queue += messages
            case trace.Yellowed(messages=messages):
                self.queue += messages
                self.yellow = self.green + len(self.queue)
            case trace.Greened(place=place, messages=messages):
                self.told = place + len(messages) - 1
                if self.told > self.green:
                    new = messages[max(0, self.green + 1 - place) :]
                    there = self.queue[: self.told - self.green]
                    self.strays = tuple(name for at, name in enumerate(new) if name not in there[at : at + 1])
                    del self.queue[: self.told - self.green]
                    self.green = self.told
                    self.yellow = max(self.yellow, self.green)
            case trace.QueueArranged():
                self.committed, self.vouches = entry.committed, entry.vouches
                self._place(entry.green, entry.yellow, entry.queue)
            case trace.ReplicaStarted():
                self.committed, self.vouches = entry.committed, entry.vouches
                self.servers, self.rule = entry.servers or self.servers, entry.rule
                self.told = entry.green
                self._place(entry.green, entry.yellow, entry.queue)
            case trace.StateInstalled(place=place, servers=servers):
                self.servers, self.rule, self.is_told = servers or self.servers, "", True
                self.told = self.green = self.yellow = place
                self.queue = []
            case trace.Reconfigured(servers=servers):
                self.servers, self.rule = servers or self.servers, entry.rule
            case trace.Fenced(servers=servers):
                self.servers, self.rule = servers or self.servers, ""
            case trace.PrimaryCommitted(primary=primary):
                self.committed, self.vouches = primary, True
                self.yellow = self.green + len(self.queue)

    def _place(self, green: int, yellow: int, queue: tuple[str, ...]) -> None:
        self.green, self.yellow, self.queue = green, yellow, list(queue)
        self.placed = self.is_told = True
