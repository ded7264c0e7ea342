"""Primary components: one for each number, and what Order Rule 1 and white ask of all servers.

Implements: [COReL Claim 4], [COReL 5.2], [COReL 3.3]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.forgotten import judge_forgotten
from isotone.spec.check.corel.queues import Had
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace

Held = dict[tuple[int, str], list[tuple[Had, EventId | None]]]
"""By primary and server, the logs that took part, each with the row that ended the primary there, if one did."""


class PrimaryJudge:
    """Over all servers of a run, or of one side of a fence."""

    def __init__(self, trails: list[Trail], account: Account) -> None:
        self._trails = trails
        self._account = account
        self._sets: dict[int, tuple[tuple[str, ...], EventId]] = {}

    def judge(self, had: list[Had], torn: list[Trail]) -> None:
        """``had``: of each log, what was ever in it; ``torn``: single rows, behind lost ones."""
        for trail in (*self._trails, *torn):
            for row in trail.rows:
                if isinstance(row.entry, trace.PrimaryCommitted):
                    self._judge_one(row.entry.primary, row.entry.servers, event_of(row))
        held = self._held(had)
        for trail in self._trails:
            self._judge_synced(trail, held)
        self._judge_white()
        judge_forgotten(self._trails, self._account)

    def _held(self, had: list[Had]) -> Held:
        """Another log of a server does not count."""
        held: Held = {}
        for trail, names in zip(self._trails, had, strict=True):
            for number, end in _ends(trail).items():
                held.setdefault((number, trail.server), []).append((names, end))
        return held

    def _judge_one(self, number: int, servers: tuple[str, ...], event: EventId) -> None:
        known = self._sets.setdefault(number, (servers, event))
        if known[1] != event:
            self._account.exercised.add("ONE")
        if known[0] != servers:
            one, other = " ".join(known[0]), " ".join(servers)
            text = f"Primary {number} is {one}, and also {other}."
            self._account.accuse("ONE", (known[1], event), text, proven=True)

    def _judge_synced(self, trail: Trail, held: Held) -> None:
        """Between establishing and the next change of the view, green is by Order Rule 1."""
        primary, servers = 0, tuple[str, ...]()
        for row in trail.rows:
            match row.entry:
                case trace.PrimaryEstablished():
                    primary, servers = row.entry.primary, row.entry.servers
                case trace.QueueArranged() | trace.ReplicaStarted() | trace.PrimaryAttempted():
                    servers = ()
                case trace.Greened(messages=messages) if servers:
                    self._account.exercised.add("SYNCED")
                    for server in servers:
                        logs = held.get((primary, server), [])
                        lacking = next((name for name in messages if not _is_held(name, logs)), None)
                        if lacking is not None:
                            text = f"{trail.server} has {lacking} green, and {server} did not have it on disk then."
                            self._account.accuse("SYNCED", (event_of(row),), text)

    def _judge_white(self) -> None:
        """Every server of the green prefix has had green, in any of its logs, what a server calls white."""
        highest: dict[str, int] = {}
        for trail in self._trails:
            highest[trail.server] = max(highest.get(trail.server, 0), _highest_green(trail))
        for trail in self._trails:
            white: tuple[int, EventId | None] = (0, None)
            for row in trail.walk():
                if isinstance(row.entry, trace.Whitened):
                    self._account.exercised.add("WHITE")
                    line, since = white
                    if row.entry.place < line and since is not None:
                        text = f"{trail.server} has white up to {line}, and then up to {row.entry.place}."
                        self._account.accuse("WHITE", (since, event_of(row)), text, proven=True)
                    white = (row.entry.place, event_of(row))
                    for server in trail.servers or tuple(highest):
                        if highest.get(server, 0) < row.entry.place:
                            green = highest.get(server, 0)
                            text = f"{trail.server} has white up to {row.entry.place}; {server} is green up to {green}."
                            self._account.accuse("WHITE", (event_of(row),), text)


def _is_held(name: str, logs: list[tuple[Had, EventId | None]]) -> bool:
    """What came with a later recovery, or was found at the next start, came too late."""
    return any(name in had and (end is None or had[name] < end) for had, end in logs)


def _ends(trail: Trail) -> dict[int, EventId | None]:
    """Each primary that this log attempted, and the row that ended it there, if one did.

    The first behind the last one that names it: if a proposal is committed to with it, the queue is set anew before.
    """
    ends: dict[int, EventId | None] = {}
    number = 0
    for row in trail.rows:
        match row.entry:
            case trace.PrimaryCommitted(primary=same) | trace.PrimaryEstablished(primary=same) if same == number:
                ends[number] = None
            case trace.QueueArranged() | trace.ReplicaStarted() | trace.PrimaryAttempted():
                if number and ends[number] is None:
                    ends[number] = event_of(row)
                if isinstance(row.entry, trace.PrimaryAttempted):
                    number = row.entry.primary
                    ends[number] = None
    return ends


def last_primary(trails: list[Trail]) -> tuple[str, ...]:
    """The servers of the one with the highest number that was established."""
    told = (row.entry for trail in trails for row in trail.rows if isinstance(row.entry, trace.PrimaryEstablished))
    last = max(told, key=lambda entry: entry.primary, default=None)
    return last.servers if last is not None else ()


def _highest_green(trail: Trail) -> int:
    green = 0
    for _ in trail.walk():
        green = max(green, trail.green)
    return green
