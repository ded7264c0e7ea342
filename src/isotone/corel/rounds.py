"""Who takes part in the recovery of a view: the same answer at every member, from their states in the group's order.

A member waits for the states of all who are present and known as servers to anyone whose state it has. Who was unknown
to them, or had to catch up first, says its state later: then all begin another round of the same view.

Implements: [COReL 5.6.2, Steps 1 and 2] for servers that change. Deviations: D-round, D-growth, D-fence, see
docs/protocols/corel-growth.md; D-late who lacks much fetches it first, if the others are a quorum without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from msgspec.structs import replace

from isotone.core.errors import RemoteProtocolError
from isotone.corel.configuration import Configuration, decode_rule
from isotone.corel.exchange import plan_of
from isotone.corel.identities import of_one_log, strangers_of
from isotone.corel.promises import is_contradicted
from isotone.corel.quorum import doubled, formed_twice, is_dynamic, merged
from isotone.corel.wire import State

LAG_MAX = 64
"""So many messages may a server lack that is recovered in a view with all others; they wait for it."""


class Outcome(Enum):
    """What a state leads to."""

    WAIT = "wait"
    COMPLETE = "complete"
    AGAIN = "again"


@dataclass
class Round:
    """One exchange of states in one view."""

    present: frozenset[str]  # names in the view, strangers among them
    invited: frozenset[str] = frozenset()  # who made all begin again
    states: dict[str, State] = field(default_factory=dict)
    is_complete: bool = False
    parts: tuple[str, ...] = ()  # who takes part, sorted; when complete
    apart: dict[str, str] = field(default_factory=dict)  # who does not agree with those who take part, and how
    strangers: tuple[str, ...] = ()  # who has another log than its name stands for: left out too, sorted
    late: tuple[str, ...] = ()  # who would hold up a quorum of the others, and fetches first what it lacks: sorted
    set_back: tuple[str, ...] = ()  # whose log has less than it promised: left out too, sorted
    fence: int = 0

    def take(self, server: str, state: State) -> Outcome:
        """A member says its state."""
        known = self.states.get(server)
        if (
            state.server != server
            or server not in self.present
            or server in self.parts
            or (known is not None and known.ready and not self.is_complete)
        ):
            raise RemoteProtocolError(f"{server} sent the state of {state.server}, which is not expected")
        self.states[server] = state
        if self.is_complete:
            return Outcome.AGAIN if self._may_join(state) else Outcome.WAIT
        if self.awaited():
            return Outcome.WAIT
        self._complete()
        return Outcome.COMPLETE

    def dismiss(self, server: str) -> Outcome:
        """A member that said no state yet never will: it is not waited for."""
        assert server not in self.states, f"{server} has said its state"
        self.present -= {server}
        if self.is_complete or not self.states or self.awaited():
            return Outcome.WAIT
        self._complete()
        return Outcome.COMPLETE

    def awaited(self) -> tuple[str, ...]:
        """Whose state is missing."""
        known = self.invited.union(*(state.known for state in self.states.values()))
        return tuple(sorted((known & self.present) - self.states.keys()))

    @property
    def servers(self) -> frozenset[str]:
        """All that vote, as those who take part know it."""
        told = [self.states[part].configuration for part in self.parts]
        return frozenset(server for each in told if each is not None for server in each.servers)

    def helpers(self, server: str) -> tuple[str, ...]:
        """Of those who take part, who still has all messages that this one lacks; one of them, if it is late."""
        green = self.states[server].green
        return tuple(part for part in self.parts if self.states[part].forgotten <= green)

    def _complete(self) -> None:
        self.is_complete = True
        ready = [state for state in self.states.values() if state.ready]
        self.fence = max((state.fence for state in ready), default=0)
        live = [state for state in ready if state.fence == self.fence]
        of_one, begun_apart = of_one_log(live)
        self.apart = {state.server: begun_apart for state in live if state not in of_one}
        live, differing = _agreeing(of_one)
        self.apart |= differing
        self.strangers = strangers_of(self.states.values(), live)
        live = [state for state in live if state.server not in self.strangers]
        if fork := _fork(live):
            self.apart |= {state.server: fork for state in live}
            live = []
        self.set_back = set_back_of(live, live)
        able = _able([state for state in live if state.server not in self.set_back])
        self.late = _late([self.states[server] for server in able], self.invited)
        self.parts = tuple(server for server in able if server not in self.late)

    def _may_join(self, state: State) -> bool:
        """It caught up since, or knows of a fence that these do not."""
        parts = [self.states[part] for part in self.parts]
        if state.fence <= self.fence and strangers_of([state], parts):
            self.strangers = tuple(sorted({*self.strangers, state.server}))
            return False
        if not state.ready or state.fence < self.fence:
            return False
        if state.fence > self.fence:
            return True
        all_here = [*parts, state]
        apart = [of_one_log(all_here)[1], *_agreeing(all_here)[1].values(), _fork(all_here)]
        if any(apart):  # it is this one: the others agree
            self.apart[state.server] = next(filter(None, apart))
            return False
        if state.server in set_back_of(all_here, [state]):
            self.set_back = tuple(sorted({*self.set_back, state.server}))
            return False
        if state.server not in _able(all_here):
            return False
        if state.server not in self.late and state.server in _late(all_here, self.invited):
            self.late = tuple(sorted({*self.late, state.server}))  # it says its state again when it has fetched that
            return False
        return True


def _fork(states: list[State]) -> str:
    """How they show that two primaries of one number were formed, the first such number; empty if they do not.

    One was formed with a log that was set back. Nobody can tell which, and both may have ordered: so none of them goes
    on, also not those who know of neither, for one of them may have known. Who is known to be set back says nothing.
    """
    twice = doubled(state.history for state in states if not state.set_back)
    return formed_twice(next(iter(twice.values()))) if twice else ""


def set_back_of(states: list[State], newest: list[State]) -> tuple[str, ...]:
    """Those who have less than they promised, as one of these knows; or who know of the last primary and have less than
    was green in it, now or when they met others; sorted.

    By the invariant Yellow there are none [COReL 5.4], unless a disk lost what was acknowledged, or is an older copy.
    Only the ``newest`` states are held to promises: what is known of the others may have been promised since they were
    said.
    """
    found = [each for each in states if each.set_back]
    found += [each for each in newest if each not in found and any(is_contradicted(each, other) for other in states)]
    while short := _short([state for state in states if state not in found]):
        found += short
    return tuple(sorted(state.server for state in found))


def _short(states: list[State]) -> list[State]:
    """Of these, who would speak for the order and lacks what is green with another one."""
    if not states:
        return []
    plan = plan_of({state.server: state for state in states})
    if plan.representatives:
        return [state for state in states if state.server in plan.representatives and state.yellow < plan.green]
    return [state for state in states if (state.context, state.context_applied) == plan.context]


def _able(states: list[State]) -> tuple[str, ...]:
    """All of them, if one that knows the order still has what any of them lacks; else those who lack it cannot.

    Servers do not forget what another server lacks; but one that caught up by a snapshot has nothing from before it.
    """
    if not states:
        return ()
    plan = plan_of({state.server: state for state in states})
    forgotten = min(plan.states[each].forgotten for each in plan.representatives)
    return tuple(sorted(state.server for state in states if state.green >= forgotten))


def _late(states: list[State], invited: frozenset[str]) -> tuple[str, ...]:
    """Those who vote and lack many priority messages, if all others are a quorum; nobody whom all wait for this time.

    Where a reconfiguration is on its way, the others may need them for a quorum of the coming servers: nobody is late.
    Nor where the next primary is counted by the members of this one: it would be smaller than it need be. Nor who has
    no vote: what it lacks is not kept for it.
    """
    known = [state.configuration for state in states if state.configuration is not None]
    if not known:
        return ()
    configuration = max(known, key=lambda each: each.number)
    yellow = plan_of({state.server: state for state in states}).yellow
    voters = [state for state in states if state.server in configuration.servers and state.server not in invited]
    late = [state for state in voters if _lag(state, yellow) > LAG_MAX]
    others = [state for state in states if state not in late]
    if not late or any(state.coming for state in others) or is_dynamic(decode_rule(configuration.rule)):
        return ()
    members, history = frozenset(state.server for state in others), merged([state.history for state in others])
    return tuple(sorted(state.server for state in late)) if configuration.holds(members, history) else ()


def _lag(state: State, yellow: int) -> int:
    """How many messages up to this place it lacks, at least."""
    return yellow - state.green - sum(each.last - each.first + 1 for each in state.ranges)


def _agreeing(states: list[State]) -> tuple[list[State], dict[str, str]]:
    """Those who agree on what each number means, the most of them; and how each of the others differs.

    They differ if servers were set up with different founders, or if two sides were forced. Some may not know yet whose
    log is which.
    """
    meanings: dict[int, dict[Configuration, list[str]]] = {}
    for state in sorted(states, key=lambda each: each.server):
        if (meaning := _meaning(state)) is not None:
            meanings.setdefault(meaning.number, {}).setdefault(meaning, []).append(state.server)
    chosen = {number: max(found, key=lambda each: len(found[each])) for number, found in meanings.items()}
    agreeing = [each for each in states if _meaning(each) in {None, chosen.get(_number(each))}]
    differing: dict[str, str] = {}
    for state in states:
        if state not in agreeing and state.configuration is not None:
            number = state.configuration.number
            one, two = " ".join(chosen[number].servers), " ".join(state.configuration.servers)
            text = f"configuration {number} is {two} at {state.server}, and {one} at others, or their rules differ"
            differing[state.server] = text
    return agreeing, differing


def _meaning(state: State) -> Configuration | None:
    return None if state.configuration is None else replace(state.configuration, identities=())


def _number(state: State) -> int:
    return state.configuration.number if state.configuration is not None else 0
