"""What a server has was sent, once.

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
        for row in trail.rows:
            for name in _named(row.entry):
                life, number = parted(name)
                if name not in told and number > first.get(life, number):
                    text = f"{trail.server} has {name}, which was never sent."
                    account.accuse("SENT", (event_of(row),), text)


def _named(entry: Entry) -> Iterator[str]:
    match entry:
        case trace.Reddened(messages=names) | trace.Yellowed(messages=names) | trace.Greened(messages=names):
            yield from names
        case trace.QueueArranged(queue=names) | trace.ReplicaStarted(queue=names):
            yield from names
