"""Growth from three servers to five, as small as it goes: which sets become primary components, and who knows of what.

A server's queue holds reconfigurations only: the first adds d, the second adds e. So a queue is a length, and two lines
divide it. One step is one view whose servers all attempt, and how far its course came at which of them: some committed;
some established; a reconfiguration was sent and some have it; some have it green; one of those sent the next. What
happens when a view breaks off before is in `corel_voting_model`. The founders are alike, so states that differ only in
their names are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

FOUNDERS, ALL = 3, 5  # a, b, c; then d and e
Server = tuple[int, int, int, int, int]  # green, yellow, end, attempted, committed
State = tuple[tuple[Server, ...], tuple[tuple[int, ...], ...], int]  # servers; members by number; the last established
Members = tuple[int, ...]


def is_majority(members: Members, configuration: int) -> bool:
    """Of the servers after so many reconfigurations."""
    servers = FOUNDERS + configuration
    return 2 * sum(each < servers for each in members) > servers


class GrowthModel:
    """Explores all runs up to so many primary components."""

    def __init__(self, number_max: int, *, yellow_counts: bool = True, learners_vote: bool = False) -> None:
        self.number_max = number_max
        self.yellow_counts = yellow_counts
        self.learners_vote = learners_vote

    def explore(self) -> tuple[int, str]:
        """How many states can be reached, and the first that must not be, in words."""
        start: State = (((0, 0, 0, 0, 0),) * ALL, (), 0)
        seen, frontier = {start}, [start]
        views = [each for size in range(1, ALL + 1) for each in combinations(range(ALL), size)]
        while frontier:
            state = frontier.pop()
            for members in views:
                for following, wrong in self._view(state, members):
                    if wrong:
                        return len(seen), wrong
                    known = _canonical(following)
                    if known not in seen:
                        seen.add(known)
                        frontier.append(known)
        return len(seen), ""

    def _may_order(self, members: Members, green: int, end: int) -> bool:
        if self.learners_vote:
            return is_majority(tuple(range(len(members))), green)  # heads, whoever they are
        return all(is_majority(members, each) for each in range(green, (end if self.yellow_counts else green) + 1))

    def _view(self, state: State, members: Members) -> Iterator[tuple[State, str]]:
        servers, primaries, established = state
        told = [servers[each] for each in members]
        committed = max(each[4] for each in told)
        green, end = max(each[0] for each in told), max(each[2] for each in told)
        yellow = max(green, min(each[1] for each in told if each[4] == committed))
        number = max(each[3] for each in told) + 1
        if number > self.number_max or not self._may_order(members, green, end):
            return
        attempted = _with(servers, members, (green, yellow, end, number, committed))
        wrong = _wrong(primaries, members, number, committed, established)
        primaries = _added(primaries, number, members)
        for part in subsets(members):
            yield (_with(attempted, part, (green, end, end, number, number)), primaries, established), wrong
        committed_by_all = _with(attempted, members, (green, end, end, number, number))
        yield from self._established(committed_by_all, primaries, members, (end, number), max(established, number))

    def _established(
        self, committed: tuple[Server, ...], primaries: tuple[Members, ...], members: Members, known: Members, last: int
    ) -> Iterator[tuple[State, str]]:
        end, number = known
        for part in subsets(members):
            yield (_with(committed, part, (end, end, end, number, number)), primaries, last), ""
        ready = _with(committed, members, (end, end, end, number, number))
        yield from self._grown(ready, primaries, members, (end, number), last)

    def _grown(
        self, servers: tuple[Server, ...], primaries: tuple[Members, ...], members: Members, known: Members, last: int
    ) -> Iterator[tuple[State, str]]:
        """The next server is added, if it is here and those who are here are a quorum of the new set."""
        end, number = known
        if end == ALL - FOUNDERS or FOUNDERS + end not in members or not self._may_order(members, end, end + 1):
            return
        for part in subsets(members):
            following = tuple(
                (each[0], end + 1, end + 1, number, number) if place in part else each
                for place, each in enumerate(servers)
            )
            yield (following, primaries, last), ""
        for part in subsets(members):  # all have it; these have it green, and one of them sends the next
            following = tuple(
                (end + 1 if place in part else each[0], end + 1, end + 1, number, number) if place in members else each
                for place, each in enumerate(servers)
            )
            yield (following, primaries, last), ""
            yield from self._grown(following, primaries, members, (end + 1, number), last)


def _wrong(primaries: tuple[Members, ...], members: Members, number: int, known: int, established: int) -> str:
    """One primary for each number, and whoever commits knows of the last that was established."""
    if number <= len(primaries) and primaries[number - 1] and primaries[number - 1] != members:
        return f"{primaries[number - 1]} and {members} are both primary {number}"
    if established > known:
        return f"{members} become primary {number} and do not know of primary {established}"
    return ""


def subsets(members: Members) -> Iterator[Members]:
    """All but the empty one."""
    for size in range(1, len(members) + 1):
        yield from combinations(members, size)


def _with(servers: tuple[Server, ...], part: Members, server: Server) -> tuple[Server, ...]:
    return tuple(server if place in part else each for place, each in enumerate(servers))


def _added(primaries: tuple[Members, ...], number: int, members: Members) -> tuple[Members, ...]:
    padded = (*primaries, *((),) * (number - len(primaries)))
    return (*padded[: number - 1], members, *padded[number:])


def _canonical(state: State) -> State:
    """The founders in order of what they know; their names in primaries follow."""
    servers, primaries, established = state
    order = sorted(range(FOUNDERS), key=lambda each: (servers[each], tuple(each in members for members in primaries)))
    rename = {old: new for new, old in enumerate(order)}
    renamed = tuple(tuple(sorted(rename.get(each, each) for each in members)) for members in primaries)
    return (tuple(servers[each] for each in order) + servers[FOUNDERS:], renamed, established)
