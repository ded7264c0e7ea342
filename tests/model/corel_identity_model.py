"""Disks that are lost, as small as it goes: who knows whose log is which, and whether what was told green survives.

Three servers of one name each, a majority of two. A server's disk holds which log it is, the identities that it knows,
and how many messages it has of the one order. One step is a view of some of them, cut off at any of its servers after
they learned identities, and again after they ordered one message more; or one server loses its disk and comes back with
another log. As many disks are lost as a majority survives: one, at any moment. Red messages, colours and numbers are in
other models.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

SERVERS = (0, 1, 2)
Logs = tuple[int, ...]  # by server


class Disk(NamedTuple):
    """Of one server."""

    log: int = 1  # which one, of its name
    known: Logs = ()  # whose log is which, once it knows
    has: int = 0  # so many messages of the order


class State(NamedTuple):
    """All disks; how many messages anybody was told; how many disks were lost."""

    disks: tuple[Disk, ...] = (Disk(),) * len(SERVERS)
    told: int = 0
    lost: int = 0


class IdentityModel:
    """Explores all runs up to so many messages and lost disks."""

    def __init__(self, messages_max: int, *, lost_max: int = 1, by_name: bool = False, begins_anywhere: bool = False):
        self.messages_max, self.lost_max = messages_max, lost_max
        self.by_name = by_name  # a fault: whoever has the name counts
        self.begins_anywhere = begins_anywhere  # a fault: a majority learns whose log is which, not all servers

    def explore(self) -> tuple[int, str]:
        """How many states can be reached, and the first that must not be, in words."""
        start = State()
        seen, frontier = {start}, [start]
        while frontier:
            for following, wrong in self._following(frontier.pop()):
                if wrong:
                    return len(seen), wrong
                if following not in seen:
                    seen.add(following)
                    frontier.append(following)
        return len(seen), ""

    def _following(self, state: State) -> Iterator[tuple[State, str]]:
        if state.lost < self.lost_max:
            for server in SERVERS:
                disks = list(state.disks)
                disks[server] = Disk(disks[server].log + 1)
                yield State(tuple(disks), state.told, state.lost + 1), ""
        for size in range(1, len(SERVERS) + 1):
            for members in combinations(SERVERS, size):
                yield from self._view(state, members)

    def _view(self, state: State, members: tuple[int, ...]) -> Iterator[tuple[State, str]]:
        told = {server: state.disks[server] for server in members}
        known = max(disk.known for disk in told.values())
        if known and not self.by_name:
            told = {server: disk for server, disk in told.items() if known[server] in {0, disk.log}}
        elif not known and (len(told) == len(SERVERS) or self.begins_anywhere):
            known = tuple(told[server].log if server in told else 0 for server in SERVERS)
        if not known and not self.by_name:
            return
        if known:
            here = known if 0 not in known else tuple(log or _log(told, s) for s, log in enumerate(known))
            told = {server: disk._replace(known=here) for server, disk in told.items()}
        has = max((disk.has for disk in told.values()), default=0)
        yield from _cut_off(state, {server: disk._replace(has=has) for server, disk in told.items()}, state.told)
        if 2 * len(told) <= len(SERVERS):
            return
        wrong = f"{members} order message {has + 1}, and {state.told} were told green" if has < state.told else ""
        if wrong or has < self.messages_max:
            ordered = {server: disk._replace(has=has + 1) for server, disk in told.items()}
            base = _with(state, {server: disk._replace(has=has) for server, disk in told.items()}, state.told)
            for following, _ in _cut_off(base, ordered, base.told):
                yield following, wrong
            yield _with(base, ordered, max(base.told, has + 1)), wrong


def _log(told: dict[int, Disk], server: int) -> int:
    return told[server].log if server in told else 0


def _cut_off(state: State, after: dict[int, Disk], green: int) -> Iterator[tuple[State, str]]:
    """Some of them took the step."""
    for size in range(len(after) + 1):
        for part in combinations(sorted(after), size):
            yield _with(state, {server: after[server] for server in part}, green), ""


def _with(state: State, after: dict[int, Disk], green: int) -> State:
    disks = tuple(after.get(server, disk) for server, disk in enumerate(state.disks))
    return State(disks, green, state.lost)
