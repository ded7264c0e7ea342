"""What a server has was sent, once, by the server and in the life that its name says, one number after the other.

A life that never tells of a send may have been recorded from a later moment on. One that does tells of all that follow.
A log that was restored from a copy is another one: what its server sent before is given up, and names may come again.

Implements: [COReL 3.2], the names of messages. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator

from isotone.spec.check.account import Account
from isotone.spec.check.corel.trail import Trail, event_of, parted
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Entry


def judge_sent(trails: list[Trail], account: Account) -> None:
    """Over all servers of a run."""
    sent: dict[str, tuple[EventId, str]] = {}  # the event, and the server that told of it
    told = set[str]()  # the same, with what was given up
    first: dict[str, int] = {}  # by life, the number of the first message that it told of
    for trail in trails:
        if trail.is_restored:
            sent = {message: send for message, send in sent.items() if send[1] != trail.server}
        for row in trail.rows:
            if isinstance(row.entry, trace.Initiated):
                message = row.entry.message
                life, number = parted(message)
                first[life] = min(number, first.get(life, number))
                told.add(message)
                since, _ = sent.setdefault(message, (event_of(row), trail.server))
                account.exercised.add("SENT")
                if since != event_of(row):
                    account.accuse("SENT", (since, event_of(row)), f"{message} was sent twice.", proven=True)
    for trail in trails:
        _judge_own_sends(trail, account)
        for row in trail.rows:
            for name in _named(row.entry):
                life, number = parted(name)
                if name not in told and number > first.get(life, number):
                    text = f"{trail.server} has {name}, which was never sent."
                    account.accuse("SENT", (event_of(row),), text)


def _judge_own_sends(trail: Trail, account: Account) -> None:
    """A start tells the life that it found: what is sent behind it is of that one or a later one, and of one only."""
    found: tuple[int, EventId | None] = (0, None)
    last: tuple[int, int, EventId] | None = None  # life, number, and where
    had: dict[str, EventId] = {}  # what is its own by its name, and where it was told first
    is_new = True  # since the last start nothing was sent
    for row in trail.rows:
        event = event_of(row)
        match row.entry:
            case trace.ReplicaStarted(life=life):
                if last is not None and life < last[0]:
                    text = f"{trail.server} sent in life {last[0]}, and came back in life {life}."
                    account.accuse("SENT", (last[2], event), text, proven=True)
                found, is_new = (life, event), True
            case trace.Initiated(message=message):
                origin, number = parted(message)
                server, _, told = origin.rpartition(".")
                if server != trail.server or not told.isdecimal():
                    account.accuse(
                        "SENT", (event,), f"{trail.server} sent {message}, by its name another's.", proven=True
                    )
                    continue
                life = int(told)
                if message in had:
                    text = f"{trail.server} had {message} before it sent it."
                    account.accuse("SENT", (had[message], event), text, proven=True)
                if life < found[0] and found[1] is not None:
                    text = f"{trail.server} sent {message}, and was in life {found[0]} before."
                    account.accuse("SENT", (found[1], event), text, proven=True)
                if last is not None and not _follows((life, number), last[:2], is_new=is_new):
                    text = f"{trail.server} sent {message} behind number {last[1]} of life {last[0]}."
                    account.accuse("SENT", (last[2], event), text, proven=True)
                last, is_new = (life, number, event), False
        for name in _named(row.entry):
            if name.startswith(f"{trail.server}."):
                had.setdefault(name, event)


def _follows(send: tuple[int, int], before: tuple[int, int], *, is_new: bool) -> bool:
    if is_new:
        return send[0] > before[0]
    return send == (before[0], before[1] + 1)


def _named(entry: Entry) -> Iterator[str]:
    match entry:
        case trace.Reddened(messages=names) | trace.Yellowed(messages=names) | trace.Greened(messages=names):
            yield from names
        case trace.QueueArranged(queue=names) | trace.ReplicaStarted(queue=names):
            yield from names
