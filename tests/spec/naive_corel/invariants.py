"""The five invariants of [COReL 5.4]; each function yields one truth value for every case in which its premise is true.

Implements: [COReL 5.4]. A sender is one life of a server (D-life); a restart may tell green messages again (D-told).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from isotone.trace import corel as trace
from isotone.trace.events import Entry
from tests.spec.naive_corel.history import History, Log, Moment, Told, named_by, number_of, sender_of

Cases = Iterator[bool]


def _open_messages(history: History) -> Iterator[tuple[str, set[str], set[int]]]:
    """Every message that is not green in any queue that something came into; with what stands before it there, and the
    numbers of its sender's messages among those. Both sets grow on: look at them at once.
    """
    for log in history.logs:
        for moment in log.moments:
            if not moment.came:
                continue
            queue, before = moment.queue, set[str]()
            numbers: dict[str, set[int]] = {}
            for place, message in enumerate(queue):
                own = numbers.setdefault(sender_of(message), set())
                if place >= len(queue) - len(moment.open):
                    yield message, before, own
                before.add(message)
                own.add(number_of(message))


def fifo(history: History) -> Cases:
    """Before a message stands every message that its sender sent before it; and a message stands in a queue once."""
    for message, _, earlier in _open_messages(history):
        count = number_of(message) - 1
        if count or earlier:
            yield len(earlier) == count and max(earlier) == count


def causal(history: History) -> Cases:
    """Before a message stands every message that its sender had in its queue when it sent it."""
    had = {
        moment.entry.message: {name for name in moment.queue if sender_of(name) != sender_of(moment.entry.message)}
        for log in history.logs
        for moment in log.rows(trace.Initiated)
        if isinstance(moment.entry, trace.Initiated)
    }
    for message, before, _ in _open_messages(history):
        if had.get(message):
            yield had[message] <= before


def no_changes_in_green(history: History) -> Cases:
    """Green messages are added behind the last one, from the queue; none is ever another, or green and not green."""
    for log in history.logs:
        yield from _only_added(log)
        line = 0
        for moment in log.moments:
            if isinstance(moment.entry, trace.StateInstalled) and moment.entry.place < line:
                yield False
            line = line if isinstance(moment.entry, trace.StateInstalled) else moment.green
        for before, moment in pairwise([Moment(log.moments[0].where, log.moments[0].entry), *log.moments]):
            if isinstance(moment.entry, trace.Greened):
                whole = dict(enumerate(before.open, before.green + 1))
                yield all(place <= before.green or whole.get(place) == name for place, name in named_by(moment))
        told = [each for moment in log.rows(trace.Greened) for each in named_by(moment)]
        for (place, name), (other_place, other) in combinations(told, 2):
            if place == other_place:
                yield name == other
        for before, moment in pairwise(log.moments):
            if isinstance(moment.entry, trace.QueueArranged) and before.green:
                yield moment.green >= before.green
        for before, moment in pairwise(log.moments):
            if isinstance(moment.entry, (trace.QueueArranged, trace.ReplicaStarted)) and history.told_green:
                end = before.green + len(before.open)
                if moment.green > end:
                    yield _is_ordered(history, moment.green)
        for moment in log.rows(trace.QueueArranged, trace.ReplicaStarted):
            green = set(moment.queue[: len(moment.queue) - len(moment.open)])
            for name in green.intersection(moment.open):
                yield name not in green


def _is_ordered(history: History, line: int) -> bool:
    """Whether anybody told as much as green, got it by a state, or had it when its log began."""
    told = [place for moment in history.told_green for place, _ in named_by(moment)]
    told += [it.place for log in history.logs for _, it in _entries(log, trace.StateInstalled)]
    told += [log.moments[0].green for log in history.logs if isinstance(log.moments[0].entry, trace.ReplicaStarted)]
    told += list(history.logs[0].moments[0].names)
    return line <= max(told)


def _only_added(log: Log) -> Cases:
    """Row by row; a start and a state from another server set the line themselves."""
    line = 0
    for moment in log.moments:
        match moment.entry:
            case trace.Greened(place=place, messages=messages):
                yield place == line + 1
                line = place + len(messages) - 1
            case trace.ReplicaStarted(green=green):
                line = green
            case trace.StateInstalled(place=place):
                line = place


def agreed_green(history: History) -> Cases:
    """Any two green prefixes agree: one message at a place, one place for a message, as it was sent."""
    told = history.told_green
    contents: dict[str, set[int]] = {}
    for log in history.logs:
        for _, it in _entries(log, trace.Initiated):
            contents.setdefault(it.message, set()).add(it.digest)
    yield from (False for digests in contents.values() if len(digests) > 1)
    for moment in told:
        assert isinstance(moment.entry, trace.Greened)
        for name, digest in zip(moment.entry.messages, moment.entry.digests, strict=False):
            known = contents.setdefault(name, set())
            if known:
                yield known == {digest}
            known.add(digest)
        names = named_by(moment)
        for (place, name), (other_place, other) in combinations(names, 2):
            if name == other:
                yield place == other_place
    for one, other in combinations(told, 2):
        there = dict(named_by(other))
        places = {name: place for place, name in there.items()}
        for place, name in named_by(one):
            if place in there:
                yield there[place] == name
            elif name in places:
                yield places[name] == place


def yellow(history: History) -> Cases:
    """Whoever knows of a primary component has what became green in it, yellow or green, at the same place.

    A server knows of it when it has committed to it or adopted it, and has all of it when its queue was set since, or
    at the end; when it commits to the next one it has all of those before. What an order proposal made green is owed
    with the next primary. And where a queue is set, its lines are in it. Yellow is made in primary components alone.
    """
    if history.is_last:
        marked = {name for log in history.everybody for name in _marked(log)}
        yield from (False for log in history.everybody for is_right in _marks(log, marked) if not is_right)
    marks: dict[tuple[int, tuple[str, ...], int], str] = {}
    for log in history.logs:
        for primary, place, name in _marked_in_primaries(log):
            yield marks.setdefault((*primary, place), name) == name
    for log in history.logs:
        for moment in log.rows(trace.QueueArranged, trace.ReplicaStarted):
            if not moment.green <= moment.yellow <= moment.green + len(moment.open):
                yield False
        for moment in _looks(log):
            for told in history.told_green:
                entry = told.entry
                assert isinstance(entry, trace.Greened)
                is_later = entry.proposal or isinstance(moment.entry, trace.PrimaryCommitted)
                if moment.vouches and entry.primary < moment.committed + (not is_later):
                    yield all(place <= moment.green or moment.at(place) == name for place, name in named_by(told))


def _marked_in_primaries(log: Log) -> Iterator[tuple[tuple[int, tuple[str, ...]], int, str]]:
    """Each message that became yellow by a commit, or behind it before the next recovery or start, and its place."""
    kinds = (trace.PrimaryCommitted, trace.QueueArranged, trace.ReplicaStarted)
    for at, moment in enumerate(log.moments):
        names: tuple[str, ...] = ()
        if isinstance(moment.entry, trace.PrimaryCommitted):
            names = tuple(moment.open)
        elif isinstance(moment.entry, trace.Yellowed):
            names = moment.entry.messages
        step = next((each.entry for each in log.moments[at::-1] if isinstance(each.entry, kinds)), None)
        if isinstance(step, trace.PrimaryCommitted) and moment.is_own and moment.is_told:
            end = moment.green + len(moment.open)
            for place, name in enumerate(names, end - len(names) + 1):
                yield (step.primary, step.servers), place, name


def _marked(log: Log) -> Iterator[str]:
    for moment in log.moments:
        if isinstance(moment.entry, trace.Yellowed):
            yield from moment.entry.messages
        if isinstance(moment.entry, (trace.PrimaryCommitted, trace.ReplicaStarted)):
            yield from moment.open_yellow


def _marks(log: Log, marked: set[str]) -> Cases:
    """Whether each row that has yellow may have it, by what this server told last of its queue and of its primary."""
    before: Moment | None = None
    step: Entry | None = None
    for moment in log.moments:
        entry = moment.entry
        if isinstance(entry, trace.Yellowed) and step is not None:
            yield isinstance(step, trace.PrimaryEstablished)
        if isinstance(entry, trace.QueueArranged):
            yield marked.issuperset(moment.open_yellow)
            is_committing = isinstance(step, trace.PrimaryAttempted)
            if before is not None and before.committed == moment.committed and not is_committing:
                yield moment.yellow <= before.yellow or moment.yellow <= moment.green
        if isinstance(entry, trace.ReplicaStarted) and before is not None:
            is_outside = isinstance(step, (trace.QueueArranged, trace.ReplicaStarted))
            if is_outside and before.committed == moment.committed:
                yield moment.yellow <= before.yellow or moment.yellow <= moment.green
        if isinstance(entry, trace.Greened) and not entry.proposal and moment.vouches and before is not None:
            yield moment.green <= before.yellow or moment.green <= before.green
        if isinstance(entry, (trace.QueueArranged, trace.ReplicaStarted)) or before is not None:
            before = moment
        steps = (trace.QueueArranged, trace.ReplicaStarted, trace.PrimaryAttempted, trace.PrimaryEstablished)
        step = entry if isinstance(entry, steps) else step


def _looks(log: Log) -> Iterator[Moment]:
    yield from log.rows(trace.PrimaryCommitted, trace.QueueArranged, trace.ReplicaStarted)
    last = log.moments[-1]
    yield Moment(
        last.where, trace.DiskLost(log.server), last.green, last.yellow, last.open, last.committed, last.vouches
    )


def one_primary(history: History) -> Cases:
    """Any two commits under one number are to the same servers."""
    commits = [
        moment.entry
        for log in (*history.logs, *history.torn)
        for moment in log.rows(trace.PrimaryCommitted)
        if isinstance(moment.entry, trace.PrimaryCommitted)
    ]
    for one, other in combinations(commits, 2):
        if one.primary == other.primary:
            yield one.servers == other.servers


def same_queue(history: History) -> Cases:
    """Claim 10: any two who attempt a primary of one number and the same servers have the same lines and queue then.

    And they know of the same last primary.
    """
    for (_, one, first), (_, other, second) in combinations(history.told(trace.PrimaryAttempted), 2):
        if (first.primary, first.servers) == (second.primary, second.servers):
            yield (one.green, one.yellow, one.open) == (other.green, other.yellow, other.open)
            yield one.committed == other.committed


def synced(history: History) -> Cases:
    """Order Rule 1: what becomes green in an established primary came, at each server, to a log that took part, before
    the next recovery or the next start of that log.
    """
    for log in history.logs:
        for established, until in _established(log):
            assert isinstance(established.entry, trace.PrimaryEstablished)
            number, servers = established.entry.primary, established.entry.servers
            had = [[_had_in(each, number) for each in _took_part(history, server, number)] for server in servers]
            for moment in until:
                for _, name in named_by(moment):
                    yield all(any(name in each for each in of_server) for of_server in had)


def _had_in(log: Log, number: int) -> set[str]:
    """What had come when this primary ended there; the queue may be set anew between its attempt and its commit."""
    named = (trace.PrimaryAttempted, trace.PrimaryCommitted, trace.PrimaryEstablished)
    steps = [
        place
        for place, moment in enumerate(log.moments)
        if isinstance(moment.entry, named) and moment.entry.primary == number
    ]
    ends = [
        place
        for place, moment in enumerate(log.moments)
        if isinstance(moment.entry, (trace.QueueArranged, trace.ReplicaStarted)) and place > steps[-1]
    ]
    return Log(log.server, log.moments[: ends[0]] if ends else log.moments).ever_had


def _established(log: Log) -> Iterator[tuple[Moment, list[Moment]]]:
    """Each time that a primary was established, and the rows of green while it lasted."""
    changes = (trace.PrimaryEstablished, trace.QueueArranged, trace.ReplicaStarted, trace.PrimaryAttempted)
    cuts = [place for place, moment in enumerate(log.moments) if isinstance(moment.entry, changes)]
    for first, last in pairwise([*cuts, len(log.moments)]):
        if isinstance(log.moments[first].entry, trace.PrimaryEstablished) and log.moments[first].is_own:
            until = log.moments[first:last]
            yield log.moments[first], [moment for moment in until if isinstance(moment.entry, trace.Greened)]


def _took_part(history: History, server: str, number: int) -> list[Log]:
    return [
        log
        for log in history.logs
        if log.server == server
        and any(
            isinstance(moment.entry, trace.PrimaryAttempted) and moment.entry.primary == number
            for moment in log.moments
        )
    ]


def _entries(log: Log, kind: type[Told]) -> Iterator[tuple[Moment, Told]]:
    for moment in log.moments:
        if isinstance(moment.entry, kind):
            yield moment, moment.entry


def kept(history: History) -> Cases:
    """What stands in a queue before a recovery stands in it afterwards, or is green then.

    Between the state that a server gets and the queue that is left it has nothing else.
    """
    for log in history.logs:
        looks = [moment for moment in log.moments if not isinstance(moment.entry, trace.StateInstalled)]
        for before, moment in pairwise(looks):
            if isinstance(moment.entry, trace.QueueArranged) and before.open:
                yield set(before.open) <= set(moment.queue)


def durable(history: History) -> Cases:
    """A server comes back with its log: all that came is there, and what it told green is yellow there or green."""
    for log in history.logs:
        for place, moment in enumerate(log.moments):
            if isinstance(moment.entry, trace.ReplicaStarted):
                yield from _comes_back(Log(log.server, log.moments[:place]), moment)


def _comes_back(before: Log, moment: Moment) -> Cases:
    assert isinstance(moment.entry, trace.ReplicaStarted)
    starts = [each.entry for each in before.rows(trace.ReplicaStarted)]
    if starts and isinstance(starts[-1], trace.ReplicaStarted) and starts[-1].log:
        if starts[-1].log != moment.entry.log:
            yield False
    for start in starts[-1:]:
        if isinstance(start, trace.ReplicaStarted) and start.life >= moment.entry.life:
            yield False
    looks = [each for each in before.moments if not isinstance(each.entry, trace.StateInstalled)]
    if looks and looks[-1].yellow > moment.yellow:
        yield False
    for name in before.ever_had:
        yield name in moment.queue
    for told in before.rows(trace.Greened):
        for place, name in named_by(told):
            if place > moment.green:
                yield moment.at(place) == name
