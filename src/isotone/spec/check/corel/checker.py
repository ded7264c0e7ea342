"""Every checker of COReL over one run. Rows are collected and judged at the end: a run is judged by the whole of the
green order, and no order across servers is assumed.

Implements: [DESIGN 4], [COReL 5.4], [COReL 6]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.corel.due import judge_due
from isotone.spec.check.corel.growth import GrowthJudge
from isotone.spec.check.corel.marks import judge_marks, judge_orders
from isotone.spec.check.corel.order import GreenOrder
from isotone.spec.check.corel.own_record import judge_names
from isotone.spec.check.corel.phases import PhaseJudge, judge_found
from isotone.spec.check.corel.primaries import PrimaryJudge, last_primary
from isotone.spec.check.corel.proposals import judge_proposals, judge_votes
from isotone.spec.check.corel.queues import Had, QueueJudge, pasts
from isotone.spec.check.corel.quorums import judge_quorums
from isotone.spec.check.corel.records import records_of, servers_missing
from isotone.spec.check.corel.recovered import judge_recovered
from isotone.spec.check.corel.sent import judge_sent
from isotone.spec.check.corel.sides import Side, sides_of
from isotone.spec.check.corel.trail import event_of
from isotone.spec.corel_properties import COREL_PROPERTIES
from isotone.spec.verdicts import State, Verdict
from isotone.trace import corel as trace
from isotone.trace.events import Row

ENTRIES = (
    trace.ReplicaStarted,
    trace.Initiated,
    trace.Reddened,
    trace.Yellowed,
    trace.QueueArranged,
    trace.Greened,
    trace.Whitened,
    trace.PrimaryAttempted,
    trace.PrimaryCommitted,
    trace.PrimaryEstablished,
    trace.Reconfigured,
    trace.SnapshotKept,
    trace.StateInstalled,
    trace.Voted,
    trace.Fenced,
    trace.DiskLost,
    trace.OrderDue,
)


class CorelChecker:
    """Takes rows of `ENTRIES`; all others are none of its business."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._losses: dict[str, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def feed(self, row: Row) -> None:
        """Take one row."""
        self._rows.append(row)

    def lose(self, row: Row) -> None:
        """Rows of this node are missing here."""
        self._losses.setdefault(row.node, []).append((row.incarnation, row.index))

    def missing(self) -> set[str]:
        """Servers that others name, and of which there is no row."""
        return servers_missing(self._rows)

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """The verdicts; ``components`` are who reached whom when the run was stable."""
        account = Account(COREL_PROPERTIES)
        records = records_of(self._rows, self._losses)
        trails = records.trails
        nodes = {trail.rows[0].node for trail in trails}
        together = len(components) == 1 and nodes <= set(components[0])
        earlier: GreenOrder | None = None
        primaries = set[int]()
        for side in sides_of(records, account):
            earlier = _judge(side, earlier, primaries, account, owes=side.is_last and together and liveness is None)
        judge_names(self._rows, account)
        judge_marks(trails, account)
        judge_found(trails, account)
        judge_votes(trails, account)
        judge_due(trails, account)
        judge_sent(trails, account)
        return account.verdicts(lossy=lossy or bool(self._losses), liveness=liveness)


def _judge(side: Side, earlier: GreenOrder | None, primaries: set[int], account: Account, *, owes: bool) -> GreenOrder:
    """``earlier``: the order of the side that it comes from; ``primaries``: what was committed to until here."""
    order = GreenOrder([*side.whole, *side.torn], account, earlier)
    past = pasts(side.whole, order)
    had = [QueueJudge(trail, order, past, account).judge() for trail in side.whole]
    PhaseJudge(side, primaries, account).judge()
    PrimaryJudge(side.own, account).judge(had, side.torn)
    judge_quorums(side, account)
    judge_recovered(side, account)
    judge_orders(side, account)
    GrowthJudge(side, order, account).judge()
    judge_proposals(side, account)
    if owes:
        _judge_liveness(side, had, order, account)
    return order


def _judge_liveness(side: Side, had: list[Had], order: GreenOrder, account: Account) -> None:
    """Owed when all servers ended in one component, to those who are servers at the end, and have no stranger's log."""
    account.exercised.add("LIVE")
    members = last_primary(side.own)
    there = [
        (trail, names)
        for trail, names in zip(side.whole, had, strict=True)
        if not trail.is_lost and (not trail.began_empty or trail.server in members)
    ]
    everything = set[str]().union(*(names for _, names in there))
    for trail, _ in there:
        for _ in trail.walk():
            pass
    last = max((trail for trail, _ in there), key=lambda trail: trail.green).servers if there else ()
    for trail, _ in there:
        if last and trail.server not in last:
            continue
        lacking = sorted(name for name in everything if order.places.get(name, trail.green + 1) > trail.green)
        if lacking:
            account.accuse("LIVE", (event_of(trail.rows[-1]),), f"{lacking[0]} is not green at {trail.server}.")
