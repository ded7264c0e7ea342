"""What membership costs: a join, by the members that its group has; a change of daemon views, by the daemons in it.

Whole daemons run in the simulator's world, which carries their packets; only what daemons do themselves is counted, and
divided by their number, so that a figure is what one daemon of a cluster pays. What keep-alives take during a change is
measured beside it and subtracted. Of several measurements a low one counts: other work on the machine only adds.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from math import log10
from statistics import median

from isotone.bench.foundation import Effort, Say
from isotone.bench.measure import Figure
from isotone.core.boundary import Connect, Join, Leave, Request, Requested
from isotone.core.ids import ClientId
from isotone.sim.figures.fleet import SECOND, Fleet
from isotone.sim.figures.membership_scale import started
from isotone.sim.process import SERVICE_LABEL

DAEMONS_OF_GROUP = 8
DAEMONS_PER_SITE = 8
GROUP = "group"
JOIN_WITHIN_US = 100_000  # until the token, which stays a little with who used it, rests again
MEMBERS_AT_ONCE = 50
IDLE_US = 2 * SECOND
SETTLE_US = 5 * SECOND


def measure_membership(effort: Effort, say: Say) -> Iterator[Figure]:
    """All figures of membership, as they come."""
    yield from _joins(effort, say)
    yield from _changes(effort, say)


# --- joins ---------------------------------------------------------------------------------------------------------


def _joins(effort: Effort, say: Say) -> Iterator[Figure]:
    costs, bytes_each = [], []
    for members in effort.group_members:
        say(f"joins, group of {members}")
        cost, sent = join_cost(members, effort.joins)
        costs.append(cost * 1e6)
        bytes_each.append(sent)
        over = f"lower quartile of {effort.joins} joins, {DAEMONS_OF_GROUP} daemons of a site"
        yield Figure(f"join, group of {members}", costs[-1], "µs per daemon", over)
        yield Figure(f"join, group of {members}", sent, "bytes on links", "sent by all daemons, a multicast once")
    yield from _growth("join", "members", effort.group_members, costs)
    yield from _growth("join, bytes", "members", effort.group_members, bytes_each)


def join_cost(members: int, joins: int) -> tuple[float, float]:
    """CPU seconds per daemon, and bytes in all, that a client's join to a group of so many members costs."""
    fleet, _ = started(daemons=DAEMONS_OF_GROUP, sites=1)
    fleet.run(SETTLE_US)
    for place in range(members):
        client = _client(fleet, place, f"m{place}")
        _ask(fleet, client, Connect(), Join(GROUP))
        if place % MEMBERS_AT_ONCE == 0:
            fleet.run(JOIN_WITHIN_US)
    fleet.run(SECOND)
    newcomer = _client(fleet, 0, "newcomer")
    _ask(fleet, newcomer, Connect())
    taken, sent = [], []
    with_collector = gc.isenabled()
    gc.disable()  # as the daemon does
    try:
        for _ in range(joins):
            _ask(fleet, newcomer, Join(GROUP))
            taken.append(_spent(fleet, JOIN_WITHIN_US))
            sent.append(sum(tally.counted["link bytes"] for tally in fleet.tallies.values()))
            assert all(len(_group(fleet, name)) == members + 1 for name in fleet.names), "everybody knows of it"
            _ask(fleet, newcomer, Leave(GROUP))
            fleet.run(JOIN_WITHIN_US)
    finally:
        if with_collector:
            gc.enable()
    return sorted(taken)[joins // 4] / len(fleet.names), median(sent)


def _client(fleet: Fleet, place: int, name: str) -> ClientId:
    return ClientId(fleet.world.daemon(fleet.names[place % len(fleet.names)]), name, 1)


def _ask(fleet: Fleet, client: ClientId, *requests: Request) -> None:
    for request in requests:
        fleet.world.tell(client.daemon.name, SERVICE_LABEL, Requested(0, client, request))


def _group(fleet: Fleet, name: str) -> Sequence[ClientId]:
    return fleet.watched(name).stack.groups.roster.by_name[GROUP].members


# --- changes of daemon views ---------------------------------------------------------------------------------------


def _changes(effort: Effort, say: Say) -> Iterator[Figure]:
    left, returned = [], []
    for daemons in effort.view_daemons:
        say(f"daemon views of {daemons}")
        away, back = change_cost(daemons, effort.view_changes)
        left.append(away * 1e3)
        returned.append(back * 1e3)
        sites = max(1, daemons // DAEMONS_PER_SITE)
        over = f"least of {effort.view_changes}, {sites} site{'' if sites == 1 else 's'}, keep-alives subtracted"
        yield Figure(f"daemon view, one of {daemons} stops", left[-1], "ms per daemon", over)
        yield Figure(f"daemon view, it comes back to {daemons - 1}", returned[-1], "ms per daemon", over)
    yield from _growth("daemon view, one stops", "daemons", effort.view_daemons, left)
    yield from _growth("daemon view, one comes back", "daemons", effort.view_daemons, returned)


def change_cost(daemons: int, changes: int) -> tuple[float, float]:
    """CPU seconds per daemon when one of so many stops, and when it comes back."""
    fleet, _ = started(daemons=daemons, sites=max(1, daemons // DAEMONS_PER_SITE))
    fleet.run(SETTLE_US)
    gc.collect()
    left, returned = [], []
    for name in fleet.names[-changes:]:
        idle = _spent(fleet, IDLE_US) / IDLE_US * SECOND
        rest = [each for each in fleet.names if each != name]
        fleet.world.stop(name)
        left.append(_until_together(fleet, rest, idle))
        fleet.run(SETTLE_US)
        fleet.world.restart(name)
        returned.append(_until_together(fleet, fleet.names, idle))
        fleet.run(SETTLE_US)
    return min(left), min(returned)


def _until_together(fleet: Fleet, names: Sequence[str], idle: float) -> float:
    """CPU seconds per daemon until these are together, beyond what they take in the same time at rest."""
    fleet.clear()
    seconds = fleet.run_until_together(names)
    return (fleet.cpu_seconds() - idle * seconds) / len(names)


def _spent(fleet: Fleet, us: int) -> float:
    fleet.clear()
    fleet.run(us)
    return fleet.cpu_seconds()


# --- growth --------------------------------------------------------------------------------------------------------


def _growth(name: str, what: str, sizes: Sequence[int], values: Sequence[float]) -> Iterator[Figure]:
    """Ten means in proportion, a hundred quadratic, one not at all."""
    for place in range(1, len(sizes)):
        small, large = sizes[place - 1], sizes[place]
        ratio = per_tenfold(small, large, values[place - 1], values[place])
        yield Figure(f"{name}, {small} to {large} {what}", ratio, "times per tenfold", "1 is flat, 10 is in proportion")


def per_tenfold(small: int, large: int, value: float, larger_value: float) -> float:
    """By how much a value grows when the size grows ten times, from two measurements."""
    return float((larger_value / value) ** (1 / log10(large / small)))
