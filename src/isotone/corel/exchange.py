"""What follows from the states of all members of a view: the same plan at every one of them.

Implements: [COReL 5.6.2, Steps 2 to 4 and 7], who retransmits what. Deviations: D-always the recovery runs in every
view, also one without new members: after a transitional signal the members may have kept different messages red;
D-context a server that caught up by state transfer knows what was green, and not what was yellow.
"""

from __future__ import annotations

import msgspec

from isotone.corel.message import Message, Origin, Range
from isotone.corel.proposal import Level
from isotone.corel.quorum import History, merged
from isotone.corel.wire import State

Name = tuple[Origin, int]


class Plan(msgspec.Struct, frozen=True):
    """What the members of one view agree on."""

    states: dict[str, State]  # by server, sorted
    vouched: Level  # Max_Committed, and the last order proposal applied since; nothing if some caught up to later ones
    context: Level  # up to here some member has all that was green, though perhaps nobody what was yellow
    representatives: tuple[str, ...]
    green: int  # the maximum of all green lines
    yellow: int  # the minimum of the representatives' yellow lines
    ordered: int  # component_ordered: green for all members up to here
    attempt: int  # the number of the primary component to attempt
    history: History

    @property
    def by_proposal(self) -> int:
        """The order proposal by which some of the green messages may be green; 0 if a primary made them so."""
        return max(self.vouched, self.context)[1]

    @property
    def chosen(self) -> str:
        """The representative that enforces its order: the first by name that still has what any member lacks."""
        return next(each for each in self.representatives if self.states[each].forgotten <= self.ordered)

    @property
    def needs_priority(self) -> bool:
        """Whether some member is no representative and must be told the order [COReL 5.6.2, Step 4].

        One that caught up by a snapshot may know less of what is green than it has: it is told too.
        """
        forgot = any(state.forgotten > self.ordered for state in self.states.values())
        return forgot or len(self.representatives) < len(self.states)


def plan_of(states: dict[str, State]) -> Plan:
    """Steps 2 to 4."""
    ordered = {server: states[server] for server in sorted(states)}
    told = list(ordered.values())
    vouched = max((state.committed, state.applied) for state in told)
    context = max(map(_context_of, told))
    green = max(state.green for state in told)
    if vouched >= context:
        chosen = [s for s, state in ordered.items() if (state.committed, state.applied) == vouched]
        yellow = min(ordered[server].yellow for server in chosen)
    else:  # only servers that caught up know what came last: their green messages, and nothing behind them
        chosen = [s for s, state in ordered.items() if _context_of(state) == context and state.green == green]
        yellow = green
        vouched = context if context[0] == vouched[0] else (0, 0)  # by a proposal all is green or red, none yellow
    return Plan(
        states=ordered,
        vouched=vouched,
        context=context,
        representatives=tuple(chosen),
        green=green,
        yellow=yellow,
        ordered=min(state.green for state in told),
        attempt=max(state.attempted for state in told) + 1,
        history=merged([state.history for state in told]),
    )


def _context_of(state: State) -> Level:
    return state.context, state.context_applied


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
