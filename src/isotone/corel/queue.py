"""The message queue: one order, divided by lines into white, green, yellow and red.

Places are numbered densely from 1 for ever. What is white may be forgotten; green never changes; yellow may have become
green elsewhere and stands as it is unless a recovery retreats it; red is in no agreed order yet.

Implements: [COReL 3.3], [COReL 5.2]. Deviations: D-stamp, see `isotone.corel.message`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from isotone.corel.configuration import Configuration
from isotone.corel.message import Message, Origin, Range

NOBODY = Configuration(0, (), b"")


def _stamp(message: Message) -> tuple[int, Origin]:
    return message.stamp


def _bytes(messages: Iterable[Message]) -> int:
    return sum(message.size for message in messages)


@dataclass
class MessageQueue:
    """Every message that this server has, in its order."""

    forgotten: int = 0  # places 1 … forgotten are no longer held
    green: int = 0  # places up to here are green; forgotten <= green
    yellow: int = 0  # places above green up to here are yellow; green <= yellow
    green_records: int = 0  # how many records the green messages hold: the last dense position
    held: list[Message] = field(default_factory=list)  # places forgotten + 1 …
    counters: dict[Origin, int] = field(default_factory=dict)  # of each origin the last that is in the queue
    lamport: int = 0  # the highest timestamp seen
    forgotten_records: int = 0  # how many records the forgotten messages held
    configuration: Configuration = NOBODY  # of the green prefix
    changed_at: int = 0  # the place of the last reconfiguration that took effect
    taken: list[tuple[int, Configuration]] = field(default_factory=list)  # took effect, and nobody was told yet
    held_bytes: int = field(init=False)  # of all messages that are held

    def __post_init__(self) -> None:
        self.held_bytes = _bytes(self.held)

    @property
    def end(self) -> int:
        """The last place."""
        return self.forgotten + len(self.held)

    def at(self, place: int) -> Message:
        """The message at a place that is held."""
        assert self.forgotten < place <= self.end
        return self.held[place - self.forgotten - 1]

    def between(self, after: int, up_to: int) -> list[Message]:
        """The messages at places after + 1 … up_to."""
        assert self.forgotten <= after <= up_to <= self.end
        return self.held[after - self.forgotten : up_to - self.forgotten]

    def walk(self, after: int, up_to: int) -> Iterator[Message]:
        """The same one by one: who stops early looked at no more."""
        return (self.at(place) for place in range(after + 1, up_to + 1))

    def has(self, name: tuple[Origin, int]) -> bool:
        """Whether the message is in the queue: each origin's are there without a hole."""
        return name[1] <= self.counters.get(name[0], 0)

    def open_ranges(self) -> tuple[Range, ...]:
        """What is not green, by origin: a run of counters each, since green is a prefix and FIFO holds."""
        first: dict[Origin, int] = {}
        for message in self.between(self.green, self.end):
            first.setdefault(message.origin, message.counter)
        return tuple(Range(origin, first[origin], self.counters[origin]) for origin in sorted(first))

    def coming(self) -> Iterator[Configuration]:
        """The configurations that take effect when all of the queue becomes green as it stands."""
        now = self.configuration
        for message in self.between(self.green, self.end):
            if message.change is not None and message.change.number == now.number + 1:
                now = message.change
                yield now

    # --- changes ---------------------------------------------------------------------------------------------------

    def append(self, messages: Iterable[Message], *, yellow: bool) -> None:
        """At the end; yellow if they were received in a primary component [COReL 5.5]."""
        for message in messages:
            self._count(message)
            self.held.append(message)
        if yellow:
            self.yellow = self.end

    def insert(self, messages: Iterable[Message]) -> None:
        """Among the red ones, by timestamp; those must stand by timestamp already."""
        for message in messages:
            self._count(message)
            insort(self.held, message, lo=self.yellow - self.forgotten, key=_stamp)

    def arrange(self, order: Sequence[Message], *, green: int, yellow: int) -> None:
        """Behind what is green here: these, then all others by timestamp; and set the lines [COReL 5.6.2, 3 and 6]."""
        named = {message.name for message in order}
        rest = sorted(
            (message for message in self.between(self.green, self.end) if message.name not in named), key=_stamp
        )
        for message in order:
            if not self.has(message.name):
                self._count(message)
        self.held[self.green - self.forgotten :] = [*order, *rest]
        assert self.green <= green <= yellow <= self.end
        self.yellow = yellow
        self.mark_green(green)

    def mark_all_yellow(self) -> None:
        """On commit [COReL 5.6.1]."""
        self.yellow = self.end

    def mark_green(self, place: int) -> None:
        """Up to this place."""
        assert self.green <= place <= self.yellow
        for at, message in enumerate(self.between(self.green, place), self.green + 1):
            self.green_records += len(message.records)
            if message.change is not None and message.change.number == self.configuration.number + 1:
                self.configuration, self.changed_at = message.change, at
                self.taken.append((at, message.change))
        self.green = place

    def forget(self, place: int) -> None:
        """What is white up to this place."""
        assert self.forgotten <= place <= self.green
        gone = self.between(self.forgotten, place)
        self.forgotten_records += sum(len(message.records) for message in gone)
        self.held_bytes -= _bytes(gone)
        del self.held[: place - self.forgotten]
        self.forgotten = place

    def add_green(self, messages: Sequence[Message]) -> None:
        """Green messages behind the green ones, from another server; all else is red."""
        place = self.green + len(messages)
        self.arrange(messages, green=place, yellow=place)

    def leap(
        self, place: int, records: int, counters: Mapping[Origin, int], configuration: Configuration, changed_at: int
    ) -> None:
        """Everything up to this place is green, by a state that stands for it; what it does not hold stays, red."""
        assert place > self.green, f"green up to {self.green}, and a state at {place}"
        rest = [each for each in self.between(self.green, self.end) if each.counter > counters.get(each.origin, 0)]
        self.counters = dict(counters) | {each.origin: each.counter for each in rest}
        self.held = sorted(rest, key=_stamp)
        self.held_bytes = _bytes(self.held)
        self.forgotten = self.green = self.yellow = place
        self.forgotten_records = self.green_records = records
        if configuration.number > self.configuration.number:  # else one that was forced since then
            self.configuration, self.changed_at = configuration, changed_at

    def _count(self, message: Message) -> None:
        known = self.counters.get(message.origin, 0)
        assert message.counter == known + 1, f"{message} follows {message.origin}:{known}"
        self.counters[message.origin] = message.counter
        self.held_bytes += message.size
        self.lamport = max(self.lamport, message.lamport)
