"""What follows from the states of all members of a view: the same plan at every one of them.

Implements: [COReL 5.6.2, Steps 2 to 4 and 7], who retransmits what. Deviations: D-always the recovery runs in every
view, also one without new members: after a transitional signal the members may have kept different messages red;
D-context a server that caught up by state transfer knows what was green, and not what was yellow.
"""

from __future__ import annotations

import msgspec

from isotone.corel.message import Message, Origin, Range
from isotone.corel.quorum import History, merged
from isotone.corel.wire import State

Name = tuple[Origin, int]


class Plan(msgspec.Struct, frozen=True):
    """What the members of one view agree on."""

    states: dict[str, State]  # by server, sorted
    committed: int  # Max_Committed
    context: int  # the highest primary before which some member knows everything
    applied: int  # the last order proposal that is applied, as the representatives know
    representatives: tuple[str, ...]
    green: int  # the maximum of all green lines
    yellow: int  # the minimum of the representatives' yellow lines
    ordered: int  # component_ordered: green for all members up to here
    attempt: int  # the number of the primary component to attempt
    history: History

    @property
    def vouched(self) -> int:
        """The last committed primary that all adopt; 0 if nobody here can vouch for what was green in it."""
        return self.committed if self.committed >= self.context else 0

    @property
    def by_proposal(self) -> int:
        """The order proposal by which some of the green messages may be green; 0 if a primary made them so."""
        return self.applied if self.committed >= self.context else 0

    @property
    def chosen(self) -> str:
        """The representative that enforces its order: any would do, so the first by name."""
        return self.representatives[0]

    @property
    def needs_priority(self) -> bool:
        """Whether some member is no representative and must be told the order [COReL 5.6.2, Step 4]."""
        return len(self.representatives) < len(self.states)


def plan_of(states: dict[str, State]) -> Plan:
    """Steps 2 to 4."""
    ordered = {server: states[server] for server in sorted(states)}
    told = list(ordered.values())
    committed = max(state.committed for state in told)
    context = max(state.context for state in told)
    applied = max((state.applied for state in told if state.committed == committed), default=0)
    green = max(state.green for state in told)
    if committed >= context:
        chosen = [s for s, state in ordered.items() if (state.committed, state.applied) == (committed, applied)]
        yellow = min(ordered[server].yellow for server in chosen)
    else:  # only servers that caught up know what came last: their green messages, and nothing behind them
        chosen = [s for s, state in ordered.items() if state.context == context and state.green == green]
        yellow = green
    return Plan(
        states=ordered,
        committed=committed,
        context=context,
        applied=applied,
        representatives=tuple(chosen),
        green=green,
        yellow=yellow,
        ordered=min(state.green for state in told),
        attempt=max(state.attempted for state in told) + 1,
        history=merged([state.history for state in told]),
    )


def _ranges(plan: Plan) -> list[tuple[State, dict[Origin, Range]]]:
    return [(state, {each.origin: each for each in state.ranges}) for state in plan.states.values()]


def _holds(ranges: dict[Origin, Range], name: Name) -> bool:
    found = ranges.get(name[0])
    return found is not None and found.first <= name[1] <= found.last


def priority_of(plan: Plan, stretch: list[Message]) -> list[Message]:
    """Step 5: the representative's messages behind what all have green; headers where every member has the message."""
    told = _ranges(plan)
    return [
        message.header()
        if all(place <= state.green or _holds(ranges, message.name) for state, ranges in told)
        else message
        for place, message in enumerate(stretch, plan.ordered + 1)
    ]


def retransmitters(plan: Plan, priority: set[Name]) -> dict[Name, str]:
    """Step 7: every red message that some member lacks, and the first member by name that has it."""
    told = _ranges(plan)
    found: dict[Name, str] = {}
    for state, ranges in told:
        for each in ranges.values():
            for counter in range(each.first, each.last + 1):
                found.setdefault((each.origin, counter), state.server)
    return {
        name: server
        for name, server in found.items()
        if name not in priority and not all(_holds(ranges, name) for _, ranges in told)
    }
