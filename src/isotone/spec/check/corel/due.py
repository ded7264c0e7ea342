"""Liveness of a quorum alone: what those have ordered who were together, without the others, for long enough.

That they may order is the word of whoever parted the network (`OrderDue`), who knows their disks and their rule.

Implements: [COReL 3.5], [COReL 7.2.2]. Deviations: none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from isotone.spec.check.account import Account
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace


@dataclass(frozen=True)
class _Standing:
    """A server, where its order was due."""

    server: str
    event: EventId
    green: int
    lacking: str  # the first message that is not green there, if any
    primary: tuple[int, tuple[str, ...]] | None  # that it is in


def judge_due(trails: list[Trail], account: Account) -> None:
    """Each set of servers: all in one primary component, all that one of them has green at all."""
    found: dict[tuple[tuple[str, ...], int], list[_Standing]] = {}
    for trail in trails:
        primary: tuple[int, tuple[str, ...]] | None = None
        times = Counter[tuple[str, ...]]()
        told = set[str]()  # as green
        for row in trail.walk():
            match row.entry:
                case trace.PrimaryEstablished():
                    primary = (row.entry.primary, row.entry.servers)
                case trace.QueueArranged() | trace.ReplicaStarted() | trace.PrimaryAttempted():
                    primary = None
                case trace.Greened(messages=messages):
                    told.update(messages)
                case trace.OrderDue(servers=servers):
                    lacking = next((name for name in trail.queue if name not in told), "")
                    standing = _Standing(trail.server, event_of(row), trail.green, lacking, primary)
                    found.setdefault((servers, times[servers]), []).append(standing)
                    times[servers] += 1
    for (servers, _), standings in found.items():
        account.exercised.add("LIVE")
        _judge_set(servers, standings, account)


def _judge_set(servers: tuple[str, ...], standings: list[_Standing], account: Account) -> None:
    together = " ".join(servers)
    most = max(standings, key=lambda each: each.green)
    for each in standings:
        if each.primary is None:
            text = f"{together} may order alone, and {each.server} is in no primary component."
            account.accuse("LIVE", (each.event,), text)
        elif each.primary != most.primary:
            text = f"{together} may order alone, and {each.server} and {most.server} are not in one primary component."
            account.accuse("LIVE", (each.event, most.event), text)
        if each.lacking:
            text = f"{together} may order alone, and {each.lacking} is not green at {each.server}."
            account.accuse("LIVE", (each.event,), text)
        if each.green < most.green:
            lines = f"{each.server} is green up to {each.green}, {most.server} up to {most.green}"
            account.accuse("LIVE", (each.event, most.event), f"{together} may order alone, and {lines}.")
