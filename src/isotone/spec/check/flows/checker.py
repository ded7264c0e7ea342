"""Every checker of distributed data flows over one run. Rows are collected and judged at the end.

Implements: [DESIGN 4], [Flows 2], [Flows 3.2]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account, CollectedRows
from isotone.spec.check.flows.decisions import DecisionJudge
from isotone.spec.check.flows.history import History
from isotone.spec.check.flows.rings import RingJudge
from isotone.spec.flows_properties import FLOW_PROPERTIES
from isotone.spec.verdicts import State, Verdict
from isotone.trace import flows as trace

ENTRIES = (
    trace.FlowStarted,
    trace.FlowInput,
    trace.RingEntered,
    trace.Contributed,
    trace.Aggregated,
    trace.Decided,
    trace.Flowed,
    trace.Dealt,
)


class FlowChecker(CollectedRows):
    """Takes rows of `ENTRIES`, and judges them at the end."""

    def missing(self) -> set[str]:
        """Nodes, or their lives, that stand in a view of a ring and tell nothing."""
        told = {_life(getattr(row.entry, "member", "")) for row in self._rows}
        entered = [row.entry for row in self._rows if isinstance(row.entry, trace.RingEntered)]
        named = {_life(name) for entry in entered for name in entry.servers}
        nodes = {_node(life) for life in told}
        return {life if _node(life) in nodes else _node(life) for life in named - told}

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """The verdicts; ``components`` are who reached whom when the run was stable."""
        account = Account(FLOW_PROPERTIES)
        history = History(self._rows)
        nodes = {node for node, _ in history.lives.values()}
        together = len(components) == 1 and nodes <= set(components[0])
        if history.rules:
            RingJudge(history, account).judge()
            DecisionJudge(history, account).judge(owes=together and liveness is None)
        return account.verdicts(lossy=lossy or self._is_torn, liveness=liveness)


def _life(member: str) -> str:
    """Of a member of any ring: ``node#incarnation``, without its place in the hierarchy."""
    return member.partition("/")[0]


def _node(life: str) -> str:
    return life.rpartition("#")[0]
