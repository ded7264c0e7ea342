"""Establishing primary components under a quorum rule, as small as it goes: who knows what, and who got how far.

One step is one view: its servers merge what they know, and each may be cut off anywhere: before it adopts, attempts,
commits or establishes. Nobody attempts before all adopted, nobody commits before all attempted, nobody establishes
before all committed, as [COReL 5.6.1] has it. Numbers stand for order only, so runs are bounded by the highest number.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec

from isotone.corel.quorum import History, Primary, Quorum, merged


class Known(msgspec.Struct, frozen=True):
    """One server's durable variables."""

    history: History
    attempted: int = 0
    committed: int = 0


class Global(msgspec.Struct, frozen=True):
    """All servers, and what an observer saw: every primary that anybody committed to or established."""

    servers: tuple[Known, ...]
    committed: tuple[Primary, ...] = ()
    established: tuple[Primary, ...] = ()


def subsets(members: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All, the empty and the whole one among them."""
    for size in range(len(members) + 1):
        yield from combinations(members, size)


class VotingModel:
    """Explores all runs."""

    def __init__(self, names: str, rule: Quorum, number_max: int) -> None:
        self.names = names
        self.rule = rule
        self.number_max = number_max
        everyone = Primary(0, tuple(names))
        self.start = Global(tuple(Known(History(everyone)) for _ in names))

    def explore(self) -> tuple[int, str]:
        """How many states can be reached, and the first that must not be, in words."""
        seen, frontier = {self.start}, [self.start]
        while frontier:
            state = frontier.pop()
            for following, wrong in self._following(state):
                if wrong:
                    return len(seen), wrong
                if following not in seen:
                    seen.add(following)
                    frontier.append(following)
        return len(seen), ""

    def _following(self, state: Global) -> Iterator[tuple[Global, str]]:
        for members in subsets(tuple(range(len(self.names)))):
            if members:
                yield from self._view(state, members)

    def _view(self, state: Global, members: tuple[int, ...]) -> Iterator[tuple[Global, str]]:
        told = [state.servers[each] for each in members]
        committed = max(each.committed for each in told)
        history = merged([each.history for each in told])
        number = max(each.attempted for each in told) + 1

        def adopt(known: Known) -> Known:
            return Known(history, known.attempted, committed)

        for part in subsets(members):
            yield _with(state, part, adopt), ""
        primary = Primary(number, tuple(self.names[each] for each in members))
        if number > self.number_max or not self.rule.holds(frozenset(primary.servers), history):
            return
        state = _with(state, members, adopt)
        for part in subsets(members):
            yield _with(state, part, lambda known: Known(known.history, number, known.committed)), ""
        state = _with(state, members, lambda known: Known(known.history, number, known.committed))
        wrong = self._wrong(state, primary, committed)
        state = msgspec.structs.replace(state, committed=_added(state.committed, primary))
        for part in subsets(members) if not wrong else [members]:
            yield _with(state, part, lambda known: Known(known.history.committed(primary), number, number)), wrong
        state = _with(state, members, lambda known: Known(known.history.committed(primary), number, number))
        state = msgspec.structs.replace(state, established=_added(state.established, primary))
        for part in subsets(members):
            if part:
                yield _with(state, part, lambda known: Known(known.history.established(primary), number, number)), ""

    def _wrong(self, state: Global, primary: Primary, known: int) -> str:
        """One primary for each number [Claim 4]; and whoever commits knows of every one established before."""
        for other in state.committed:
            if other.number == primary.number and other != primary:
                return f"{other.servers} and {primary.servers} are both primary {primary.number}"
        for other in state.established:
            if other.number > known:
                return f"{primary.servers} becomes primary {primary.number} and does not know of {other.servers}"
        return ""


def _with(state: Global, members: tuple[int, ...], change: object) -> Global:
    assert callable(change)
    servers = tuple(change(each) if place in members else each for place, each in enumerate(state.servers))
    return msgspec.structs.replace(state, servers=servers)


def _added(primaries: tuple[Primary, ...], primary: Primary) -> tuple[Primary, ...]:
    if primary in primaries:
        return primaries
    return tuple(sorted((*primaries, primary), key=lambda each: (each.number, each.servers)))
