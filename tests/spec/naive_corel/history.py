"""A run of servers in memory: what each of them had after each of its rows.

Implements: [COReL 3.2], [COReL 3.3]. A *log* is what one disk of a server held; a server that lost its disk has another
one from there on. Its rows name what is not green; of what is green they tell the line, and once each name: so the
names before the line are those that the server itself told there, or if it never did, another server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from isotone.trace import corel as trace
from isotone.trace.events import Entry, Gap, Row, Truncated
from isotone.trace.vocabulary import fields_of

Told = TypeVar("Told", bound=Entry)
Where = tuple[str, int, int]
"""Node, incarnation and index of a row."""


@cache
def sender_of(message: str) -> str:
    """The life of a server that sent it."""
    origin, _, number = message.rpartition(":")
    return origin if origin and number.isdecimal() else message


@cache
def number_of(message: str) -> int:
    """The how manieth message of that life; what has no number is the first one of its own."""
    return 1 if sender_of(message) == message else int(message.rpartition(":")[2])


@dataclass
class Moment:
    """After a row."""

    where: Where
    entry: Entry
    green: int = 0
    yellow: int = 0
    open: list[str] = field(default_factory=list)  # what is not green, in its order
    committed: int = 0
    vouches: bool = True
    names: dict[int, str] = field(default_factory=dict)  # by place, what the green ones are called
    came: bool = False  # whether the row brought messages, or set them all anew
    servers: tuple[str, ...] = ()  # who votes by what is green here, as far as it was told
    fence: int = 0  # the highest that it has known
    is_own: bool = True  # whether it is on the side that is judged, and not before that fence
    rule: str = ""  # the rule of quorums that was told last, if it is in force still
    is_told: bool = False  # whether a row up to here has told what the server has

    @property
    def queue(self) -> list[str]:
        """MQ; places whose message nobody ever named are left out."""
        return [self.names[place] for place in range(1, self.green + 1) if place in self.names] + self.open

    @property
    def open_yellow(self) -> list[str]:
        """What is yellow of it, and not green."""
        return self.open[: max(0, self.yellow - self.green)]

    @property
    def green_names(self) -> set[str]:
        """What is green of it."""
        return {self.names[place] for place in range(1, self.green + 1) if place in self.names}

    def at(self, place: int) -> str | None:
        """The message there, if it is yellow or green."""
        if place <= self.green:
            return self.names.get(place)
        return self.open[place - self.green - 1] if place <= min(self.yellow, self.green + len(self.open)) else None


@dataclass
class Log:
    """Of one server, until its disk was lost."""

    server: str
    moments: list[Moment] = field(default_factory=list)
    is_restored: bool = False  # from a copy, and the server had another log before
    is_torn: bool = False  # one row, behind lost ones: what stood there is not known

    def rows(self, *kinds: type[Entry]) -> Iterator[Moment]:
        """Where entries of these kinds stand."""
        return (moment for moment in self.moments if isinstance(moment.entry, kinds))

    @property
    def ever_had(self) -> set[str]:
        """Everything that ever came."""
        return {name for moment in self.moments if moment.came for name in moment.open}


@dataclass
class History:
    """Of all servers, or of those on one side of a fence: with all that these did before it came."""

    logs: list[Log]
    others: list[Entry] = field(default_factory=list)  # told by no server
    everybody: list[Log] = field(default_factory=list)  # also who stayed before the fence
    is_last: bool = True
    torn: list[Log] = field(default_factory=list)  # single rows behind lost ones

    def of_kind(self, kind: type[Told]) -> list[Told]:
        """What is told of the run as a whole."""
        return [each for each in self.others if isinstance(each, kind)]

    def of(self, server: str) -> list[Log]:
        """One after the other, if it lost its disk."""
        return [log for log in self.logs if log.server == server]

    def told(self, kind: type[Told]) -> list[tuple[Log, Moment, Told]]:
        """Every entry of this kind on this side, whose it is, and what stood there then."""
        return [each for each in self.ever_told(kind) if each[1].is_own]

    def ever_told(self, kind: type[Told]) -> list[tuple[Log, Moment, Told]]:
        """By the same servers, also before the fence."""
        return _all_of(kind, self.logs)

    @property
    def copied(self) -> int:
        """The green line of the copies that logs began from here."""
        return max((log.moments[0].green for log in self.logs if log.is_restored), default=0)

    def told_by_anybody(self, kind: type[Told]) -> list[tuple[Log, Moment, Told]]:
        """By any server, until it was behind another fence."""
        return _all_of(kind, self.everybody)

    @property
    def told_green(self) -> list[Moment]:
        """By anybody here, by their place in the trace."""
        told = [moment for log in (*self.logs, *self.torn) for moment in log.rows(trace.Greened)]
        return sorted(told, key=lambda moment: moment.where)


def _all_of(kind: type[Told], logs: list[Log]) -> list[tuple[Log, Moment, Told]]:
    return [(log, moment, moment.entry) for log in logs for moment in log.moments if isinstance(moment.entry, kind)]


def sides_of(rows: Iterable[Row]) -> list[History]:
    """Read it: one history, or one for each side of a fence, the lowest first."""
    logs: dict[str, list[Log]] = {}
    ended: set[str] = set()
    others: list[Entry] = []
    alone: list[Log] = []
    torn: dict[str, int] = {}  # nodes behind lost rows, with the fence that they knew
    for row in sorted(rows, key=lambda each: (each.node, each.incarnation, each.index)):
        entry = row.entry
        if type(entry).__module__ != trace.__name__:
            others.append(entry)
            if isinstance(entry, Gap | Truncated) and row.node:
                torn.setdefault(row.node, logs[row.node][-1].moments[-1].fence if row.node in logs else 0)
            continue
        if row.node in torn:
            if isinstance(entry, trace.ReplicaStarted):
                del torn[row.node]
                logs.setdefault(row.node, []).append(Log(entry.server))
            else:
                single = _after(None, (row.node, row.incarnation, row.index), entry)
                single.fence = torn[row.node]
                alone.append(Log("", [single], is_torn=True))
                continue
        if row.node in logs and _is_from_a_copy(logs[row.node][-1], entry):
            logs[row.node].append(Log(entry.server, is_restored=True))  # type: ignore[attr-defined]
        elif row.node not in logs or row.node in ended:
            logs.setdefault(row.node, []).append(Log(entry.server))  # type: ignore[attr-defined]  # all have it
        ended.discard(row.node)
        log = logs[row.node][-1]
        before = log.moments[-1] if log.moments else None
        log.moments.append(_after(before, (row.node, row.incarnation, row.index), entry))
        if isinstance(entry, trace.DiskLost):
            ended.add(row.node)
    return list(_parted([log for each in logs.values() for log in each if log.moments], others, alone))


def _is_from_a_copy(log: Log, entry: Entry) -> bool:
    """It has another identity, and comes behind a fence of which the one before did not know."""
    names = [each.entry.log for each in log.rows(trace.ReplicaStarted) if each.entry.log]  # type: ignore[attr-defined]
    if not isinstance(entry, trace.ReplicaStarted) or not names:
        return False
    return entry.log != names[-1] and entry.fence > log.moments[-1].fence


def _parted(logs: list[Log], others: list[Entry], torn: list[Log]) -> Iterator[History]:
    """By fence; what is green before it, and nobody behind it ever named, is called as on the side before."""
    fences = sorted({moment.fence for log in logs for moment in log.moments}) or [0]
    known: dict[int, str] = {}
    if len(fences) == 1:
        found = History(logs, others, logs, torn=torn)
        _name(found, known)
        yield found
        return
    for fence in fences:
        everybody = [
            replace(
                log, moments=[replace(each, is_own=each.fence == fence) for each in log.moments if each.fence <= fence]
            )
            for log in logs
        ]
        here = [log for log in everybody if any(moment.is_own for moment in log.moments)]
        singles = [log for log in torn if log.moments[0].fence == fence]
        found = History(here, others, [log for log in everybody if log.moments], fence == fences[-1], singles)
        known = _name(found, known)
        yield found


def _after(before: Moment | None, where: Where, entry: Entry) -> Moment:
    now = Moment(where, entry)
    if before is not None:
        now.green, now.yellow, now.open = before.green, before.yellow, list(before.open)
        now.committed, now.vouches, now.servers = before.committed, before.vouches, before.servers
        now.fence, now.rule, now.is_told = before.fence, before.rule, before.is_told
    now.servers = _votes_from(entry) or now.servers
    now.fence = max(now.fence, getattr(entry, "fence", 0))
    if isinstance(entry, trace.ReplicaStarted | trace.Reconfigured | trace.StateInstalled | trace.Fenced):
        now.rule = getattr(entry, "rule", "")
    if isinstance(entry, trace.ReplicaStarted | trace.QueueArranged | trace.StateInstalled):
        now.is_told = True
    match entry:
        case trace.Reddened(messages=messages):
            now.open, now.came = [*now.open, *messages], True
        case trace.Yellowed(messages=messages):
            now.open, now.came = [*now.open, *messages], True
            now.yellow = now.green + len(now.open)
        case trace.PrimaryCommitted(primary=number):
            now.committed, now.vouches = number, True
            now.yellow = now.green + len(now.open)
        case trace.QueueArranged() | trace.ReplicaStarted():
            for name in {"green", "yellow", "committed", "vouches"} & fields_of(type(entry)).keys():
                setattr(now, name, getattr(entry, name))
            now.open, now.came = list(entry.queue), True
        case trace.StateInstalled(place=place):
            now.green = now.yellow = place
            now.open = []
        case trace.Greened(place=place, messages=messages):
            line = place + len(messages) - 1
            if line > now.green:
                now.open = now.open[line - now.green :]
                now.green = line
            now.yellow = max(now.yellow, now.green)
    return now


def _votes_from(entry: Entry) -> tuple[str, ...]:
    match entry:
        case (
            trace.ReplicaStarted(servers=servers)
            | trace.Reconfigured(servers=servers)
            | trace.StateInstalled(servers=servers)
            | trace.Fenced(servers=servers)
        ):
            return servers
    return ()


def _name(history: History, known: dict[int, str]) -> dict[int, str]:
    """Give every place up to the green lines its name; ``known``: where nobody here tells one."""
    anybody: dict[int, str] = {}
    for moment in history.told_green:
        for place, name in named_by(moment):
            anybody.setdefault(place, name)
    for log in history.logs:
        own: dict[int, str] = {}
        for moment in log.rows(trace.Greened):
            for place, name in named_by(moment):
                own.setdefault(place, name)
        names = {**known, **anybody, **own}
        for moment in log.moments:
            moment.names = names
    return {**known, **anybody}


def named_by(moment: Moment) -> list[tuple[int, str]]:
    """The messages that a row tells as green, each with its place."""
    assert isinstance(moment.entry, trace.Greened)
    return list(enumerate(moment.entry.messages, moment.entry.place))
