"""Dynamic voting while servers are removed, as small as it goes: who may become primary, and whether somebody can.

A server's queue holds removals only: the first takes out a, the second b. So a queue is a length, and two lines divide
it. One step is one view, each of whose servers may be cut off before it adopts, attempts, commits or establishes; or a
removal that is sent in a primary component, which some receive, or all, and then some have green. All begin together in
primary 0, or with another history, and no primary yet. Quorums are those of `isotone.corel`; numbers stand for order
only, so runs are bounded by the highest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import msgspec

from isotone.corel.configuration import Configuration, changed, founded
from isotone.corel.quorum import History, Primary, Rule, merged

Members = tuple[int, ...]
Step = tuple["Global", str]


class Known(msgspec.Struct, frozen=True):
    """One server's durable variables."""

    history: History
    green: int = 0
    yellow: int = 0
    end: int = 0
    attempted: int = 0
    committed: int = 0


class Global(NamedTuple):
    """All servers, and what an observer saw: who committed to each number, and the last primary established."""

    servers: tuple[int, ...]  # what each knows, by its number in the model's list
    committed: tuple[tuple[int, Members], ...] = ()
    established: int = 0


def subsets(members: Members) -> Iterator[Members]:
    """All, the empty and the whole one among them."""
    for size in range(len(members) + 1):
        yield from combinations(members, size)


def merge(told: list[Known]) -> Known:
    """What they have together after the recovery; the number is the highest that any of them attempted."""
    committed = max(each.committed for each in told)
    green = max(each.green for each in told)
    yellow = max(green, min(each.yellow for each in told if each.committed == committed))
    end, attempted = max(each.end for each in told), max(each.attempted for each in told)
    return Known(merged([each.history for each in told]), green, yellow, end, attempted, committed)


class DynamicModel:
    """Explores all runs up to so many primary components after the first."""

    def __init__(
        self, names: str, rule: Rule, *, number_max: int, removals: int, before: History | None = None
    ) -> None:
        """``before``: what all know, who never were a primary together."""
        self._met = before is None
        self.names, self.number_max, self.removals = names, number_max, removals
        now = founded(names, rule)
        self.configurations = [now]
        for name in names[:removals]:
            now = changed(now, remove=name)
            self.configurations.append(now)
        self._known: list[Known] = []
        self._numbers: dict[Known, int] = {}
        self._everyone = tuple(range(len(names)))
        first = self._number(Known(before or History(Primary(0, tuple(names)))))
        self.start = Global((first,) * len(names))
        self._merged = lru_cache(maxsize=None)(self._merge)
        self._stands_still = lru_cache(maxsize=None)(self._stuck)

    def _number(self, known: Known) -> int:
        if known not in self._numbers:
            self._numbers[known] = len(self._known)
            self._known.append(known)
        return self._numbers[known]

    def _merge(self, told: tuple[int, ...]) -> Known:
        return merge([self._known[each] for each in told])

    def explore(self) -> tuple[int, str]:
        """How many states can be reached, and the first that must not be, in words."""
        seen, frontier = {self.start}, [self.start]
        following = self._removed(self.start, self._everyone) if self._met else self._views(self.start)
        while True:
            for state, wrong in following:
                if state in seen and not wrong:
                    continue
                wrong = wrong or self._stands_still(state.servers)
                if wrong:
                    return len(seen), wrong
                seen.add(state)
                frontier.append(state)
            if not frontier:
                return len(seen), ""
            following = self._views(frontier.pop())

    def _may_order(self, members: Members, history: History, green: int, end: int) -> bool:
        """As `isotone.corel.growth.may_order` has it."""
        servers = frozenset(self.names[each] for each in members)
        now, *coming = self.configurations[green : end + 1]
        return now.holds(servers, history) and all(each.would_hold(servers, history) for each in coming)

    def _stuck(self, servers: tuple[int, ...]) -> str:
        """All servers together may order; and those who stay, once each of them knows who was removed."""
        known = self._merged(servers)
        stay = self._places(self.configurations[known.green])
        sets = [self._everyone]
        if all(self._known[servers[each]].green == known.green for each in stay):
            sets.append(stay)
        for members in sets:
            here = self._merged(tuple(servers[each] for each in members))
            if not self._may_order(members, here.history, here.green, here.end):
                return f"{''.join(self.names[each] for each in members)} stand still for ever: {here}"
        return ""

    def _places(self, configuration: Configuration) -> Members:
        return tuple(place for place, name in enumerate(self.names) if name in configuration.servers)

    # --- one view ----------------------------------------------------------------------------------------------------

    def _views(self, state: Global) -> Iterator[Step]:
        for members in subsets(self._everyone):
            if members:
                yield from self._view(state, members)

    def _view(self, state: Global, members: Members) -> Iterator[Step]:
        here = self._merged(tuple(state.servers[each] for each in members))
        number = here.attempted + 1

        def adopt(known: Known) -> Known:
            return msgspec.structs.replace(here, attempted=known.attempted)

        yield from self._some(state, members, adopt)
        if number > self.number_max or not self._may_order(members, here.history, here.green, here.end):
            return
        state = self._with(state, members, adopt)
        attempted = msgspec.structs.replace(here, attempted=number)
        yield from self._some(state, members, lambda _: attempted)
        state = self._with(state, members, lambda _: attempted)
        wrong = self._wrong(state, members, number, here.committed)
        state = state._replace(committed=tuple(sorted({*state.committed, (number, members)})))
        primary = Primary(number, tuple(self.names[each] for each in members))
        committed = Known(here.history.committed(primary), here.green, here.end, here.end, number, number)
        for following, _ in self._some(state, members, lambda _: committed):
            yield following, wrong
        state = self._with(state, members, lambda _: committed)._replace(established=number)
        last = Known(committed.history.established(primary), here.end, here.end, here.end, number, number)
        yield from self._some(state, members, lambda _: last)
        yield from self._removed(self._with(state, members, lambda _: last), members)

    def _removed(self, state: Global, members: Members) -> Iterator[Step]:
        """The next removal is sent where it is accepted; some have it, or all and some of them green; then the next."""
        known = self._known[state.servers[members[0]]]
        end = known.end + 1
        if end > self.removals or not self._may_order(members, known.history, end, end):
            return
        received = msgspec.structs.replace(known, yellow=end, end=end)
        yield from self._some(state, members, lambda _: received)
        state = self._with(state, members, lambda _: received)
        green = msgspec.structs.replace(received, green=end)
        yield from self._some(state, members, lambda _: green)
        yield from self._removed(self._with(state, members, lambda _: green), members)

    def _wrong(self, state: Global, members: Members, number: int, known: int) -> str:
        """One primary for each number [Claim 4]; and whoever commits knows of the last that was established."""
        for other, others in state.committed:
            if other == number and others != members:
                return f"{others} and {members} are both primary {number}"
        if state.established > known:
            return f"{members} become primary {number} and do not know of primary {state.established}"
        return ""

    def _with(self, state: Global, members: Members, change: Callable[[Known], Known]) -> Global:
        following = list(state.servers)
        for each in members:
            following[each] = self._number(change(self._known[following[each]]))
        return state._replace(servers=tuple(following))

    def _some(self, state: Global, members: Members, change: Callable[[Known], Known]) -> Iterator[Step]:
        """These take the step, whoever of the members they are."""
        whole = self._with(state, members, change).servers
        for part in subsets(members):
            mixed = tuple(whole[place] if place in part else each for place, each in enumerate(state.servers))
            yield state._replace(servers=mixed), ""
