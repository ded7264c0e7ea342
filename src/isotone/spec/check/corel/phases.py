"""Primary components come in three phases: all attempt one before one commits to it, all commit before one is in it.

Rows of two servers have no order, so of others it is asked that they took the step at all; of the server itself, that
it did before. A primary is the same only with the same servers.

Implements: [COReL Claims 5, 8]. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.spec.check.account import Account
from isotone.spec.check.corel.sides import Side
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Row

Primary = tuple[int, tuple[str, ...]]
"""The number and the servers."""
Later = trace.PrimaryCommitted | trace.PrimaryEstablished
Told = dict[Primary, set[str]]


class PhaseJudge:
    """Over all servers of a run, or of one side of a fence.

    ``known`` are the numbers of primaries that somebody committed to before that fence; those of this side are added.
    """

    def __init__(self, side: Side, known: set[int], account: Account) -> None:
        self._side = side
        self._known = known
        self._account = account
        self._attempts: Told = {}
        self._commits: Told = {}

    def judge(self) -> None:
        """Every step on this side."""
        for trail in self._side.own:
            for row in trail.rows:
                match row.entry:
                    case trace.PrimaryAttempted(primary=number, servers=servers):
                        self._attempts.setdefault((number, servers), set()).add(trail.server)
                    case trace.PrimaryCommitted(primary=number, servers=servers):
                        self._commits.setdefault((number, servers), set()).add(trail.server)
                        self._known.add(number)
        for trail in self._side.own:
            self._judge_steps(trail)
        self._judge_adopted()
        own = {event_of(row) for trail in self._side.own for row in trail.rows}
        for trail in self._side.whole:
            self._judge_context(trail, own)

    def _judge_steps(self, trail: Trail) -> None:
        attempted, committed = set[Primary](), set[Primary]()
        steps = _Steps()
        for row in trail.rows:
            if (fault := steps.take(row)) is not None:
                since, text = fault
                self._account.accuse("PHASES", (since, event_of(row)), f"{trail.server} {text}.", proven=True)
            match row.entry:
                case trace.PrimaryAttempted(primary=number, servers=servers):
                    attempted.add((number, servers))
                case trace.PrimaryCommitted(primary=number, servers=servers):
                    committed.add((number, servers))
                    lacking = _lacking(row.entry, self._attempts, attempted)
                    self._demand(row.entry, event_of(row), lacking, "committed to before {} attempted it")
                case trace.PrimaryEstablished():
                    lacking = _lacking(row.entry, self._commits, committed)
                    self._demand(row.entry, event_of(row), lacking, "established before {} committed to it")

    def _judge_context(self, trail: Trail, own: set[EventId]) -> None:
        """What is green in the context of a primary is so in one that somebody committed to, and in no other there.

        Whoever takes part in a primary orders in it only after it established it.
        """
        here = green = 0  # the primary that the server is in, and the green line before this row
        knows = False  # of a last primary, or that there was none
        begun = 0  # the primary that it attempted, and did not establish
        for row in trail.walk():
            before, green = green, trail.green
            knows = knows or isinstance(row.entry, trace.PrimaryCommitted) or trail.placed
            match row.entry:
                case trace.PrimaryEstablished(primary=number):
                    here, begun = number, 0
                case trace.PrimaryAttempted(primary=number):
                    here, begun = 0, number
                case trace.QueueArranged() | trace.ReplicaStarted():
                    here = begun = 0
                case trace.Greened(primary=number, proposal=0) if event_of(row) in own:
                    self._account.exercised.add("PHASES")
                    if number not in self._known:
                        text = f"{trail.server} has green in primary {number}, which nobody committed to."
                        self._account.accuse("PHASES", (event_of(row),), text)
                    elif here and number != here:
                        text = f"{trail.server} is in primary {here}, and has green in {number}."
                        self._account.accuse("PHASES", (event_of(row),), text)
                    elif number == begun and green > before:
                        text = f"{trail.server} orders in primary {number}, and has not established it."
                        self._account.accuse("PHASES", (event_of(row),), text)
                    elif knows and trail.vouches and number != trail.committed:
                        text = (
                            f"{trail.server} has green in primary {number}, and knows of {trail.committed} as the last."
                        )
                        self._account.accuse("PHASES", (event_of(row),), text)

    def _demand(self, entry: Later, event: EventId, lacking: list[str], text: str) -> None:
        self._account.exercised.add("PHASES")
        for server in lacking:
            primary = f"Primary {entry.primary} of {' '.join(entry.servers)}"
            self._account.accuse("PHASES", (event,), f"{primary} was {text.format(server)}.")

    def _judge_adopted(self) -> None:
        """Whoever learns of a primary from others learns of one that somebody committed to.

        A commit that was on its way to the disk in a crash may be there all the same: then the next start tells it.
        """
        own = {event_of(row) for trail in self._side.own for row in trail.rows}
        adopted: list[tuple[EventId, str, int]] = []
        for trail in self._side.whole:
            before = 0
            for row in trail.walk():
                if trail.committed > before:
                    if isinstance(row.entry, trace.ReplicaStarted):
                        self._known.add(trail.committed)
                    elif isinstance(row.entry, trace.QueueArranged) and event_of(row) in own:
                        adopted.append((event_of(row), trail.server, trail.committed))
                before = trail.committed
        for event, server, number in adopted:
            self._account.exercised.add("PHASES")
            if number not in self._known:
                text = f"{server} adopted primary {number}, which nobody committed to."
                self._account.accuse("PHASES", (event,), text)


def judge_found(trails: list[Trail], account: Account) -> None:
    """A start finds no primary that nobody in the run attempted: a commit may be on disk before it is told, no attempt.

    What a server found when its record began may be older than the run.
    """
    known = set[int]()
    found: list[tuple[EventId, str, int]] = []
    for trail in trails:
        before = 0
        for row in trail.walk():
            entry = row.entry
            if isinstance(entry, trace.PrimaryAttempted | trace.PrimaryCommitted):
                known.add(entry.primary)
            elif isinstance(entry, trace.ReplicaStarted):
                if row is trail.rows[0]:
                    known.add(entry.committed)
                elif entry.committed > before:
                    found.append((event_of(row), trail.server, entry.committed))
            before = trail.committed
    for event, server, number in found:
        if number not in known:
            text = f"{server} came back and knew of primary {number}, which nobody attempted."
            account.accuse("PHASES", (event,), text)


@dataclass
class _Steps:
    """The way of one server towards a primary component: each step once, towards the one that it attempted last."""

    attempted: tuple[Primary, EventId] | None = None
    committed: tuple[Primary, EventId] | None = None
    over: EventId | None = None  # since when the last commit leads nowhere
    restarted: EventId | None = None  # since the last attempt

    def take(self, row: Row) -> tuple[EventId, str] | None:
        """What contradicts an earlier step, if anything."""
        event = event_of(row)
        match row.entry:
            case trace.PrimaryAttempted(primary=number, servers=servers):
                self.attempted, self.over, self.restarted = ((number, servers), event), event, None
            case trace.QueueArranged() | trace.ReplicaStarted():
                self.over = event
                if isinstance(row.entry, trace.ReplicaStarted) and self.attempted is not None:
                    self.restarted = event
            case trace.PrimaryCommitted(primary=number, servers=servers):
                return self._commit((number, servers), event)
            case trace.PrimaryEstablished(primary=number, servers=servers):
                if self.committed is not None and self.committed[0] == (number, servers) and self.over is not None:
                    return self.over, f"established primary {number} when that was over"
                self.over = event
        return None

    def _commit(self, primary: Primary, event: EventId) -> tuple[EventId, str] | None:
        before, self.committed, self.over = self.committed, (primary, event), None
        if before is not None and before[0] == primary:
            return before[1], f"committed to primary {primary[0]} twice"
        if self.attempted is not None and self.attempted[0] != primary:
            return self.attempted[1], f"committed to primary {primary[0]}, and attempted {self.attempted[0][0]} last"
        if self.restarted is not None:
            return self.restarted, f"committed to primary {primary[0]}, and did not attempt it since its restart"
        return None


def _lacking(entry: Later, told: Told, own: set[Primary]) -> list[str]:
    """Who did not take the step before this one."""
    primary = (entry.primary, entry.servers)
    others = told.get(primary, set())
    own_lacks = [] if primary in own else [entry.server]
    return own_lacks + [server for server in entry.servers if server not in others]
