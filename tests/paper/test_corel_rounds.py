"""Two communication rounds without failures, counted on the trace of simulated runs, on the oracle and our own daemons.

Reference: [COReL 5.5].
"""

from __future__ import annotations

from functools import cache

import msgspec
import pytest

from isotone.sim.corel_node import AppendStep
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.trace.corel import Greened, PrimaryEstablished, Yellowed
from isotone.trace.events import Row
from tests.paper.corel_rounds import Rounds

SECOND = 1_000_000
TOGETHER_US = 20 * SECOND  # by then all are one primary component
SEED = 3  # of which all servers are founders, and no disk is lost
WORKLOADS = {
    "one by one": tuple((2 * SECOND * place, place) for place in range(8)),
    "side by side": tuple((2_000 * place, place) for place in range(24)),
}
"""When what is appended, and by which of the servers: after the last is over, or while others are under way."""


@cache
def recorded(stack: str, workload: str) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """A run without any fault, and its servers."""
    system = system_named("corel")
    setting = Setting(system="corel", stack=stack, size=Size.SMALL, faults="none", nodes="4")
    plan = draw_plan(system, setting, SEED)
    names = plan.topology.names
    steps = tuple(
        AppendStep(at=TOGETHER_US + at, node=names[place % len(names)], lengths=(16,))
        for at, place in WORKLOADS[workload]
    )
    rows: list[Row] = []
    play_plan(system, msgspec.structs.replace(plan, faults=(), faults_end_us=0, steps=steps), rows.append)
    return tuple(rows), names


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("stack", ["oracle", "full"])
def test_a_message_and_acknowledgements_and_nothing_else(stack: str, workload: str) -> None:
    rows, names = recorded(stack, workload)
    established = [row for row in rows if isinstance(row.entry, PrimaryEstablished)]
    assert {row.entry.servers for row in established} == {names} and max(row.at for row in established) < TOGETHER_US
    rounds = Rounds(list(rows), names)
    assert len(rounds.messages()) > 4
    assert {message: rounds.until_green(message) for message in rounds.messages()} == {
        message: dict.fromkeys(names, 2) for message in rounds.messages()
    }


def moved(rows: tuple[Row, ...], late: bool) -> list[Row]:
    """Green is told when all know that all have it; or as soon as the message is on disk here."""
    found: list[Row] = []
    for node in sorted({row.node for row in rows}):
        own = [row for row in rows if row.node == node]
        for row in [row for row in own if isinstance(row.entry, Greened)]:
            place = own.index(row)
            own.remove(row)
            written = [at for at, each in enumerate(own) if isinstance(each.entry, Yellowed)]
            if late:
                place = min((at - 2 for at in written if at > place), default=len(own))
            else:
                place = max(at + 1 for at in written if at < place)
            own.insert(place, row)
        found += [Row(row.node, row.incarnation, index, row.at, row.entry) for index, row in enumerate(own)]
    return found


@pytest.mark.parametrize("stack", ["oracle", "full"])
def test_a_third_round_is_counted_and_so_is_green_after_one(stack: str) -> None:
    rows, names = recorded(stack, "one by one")
    for late, expected in ((True, 3), (False, 1)):
        rounds = Rounds(moved(rows, late), names)
        for message in rounds.messages():
            assert rounds.until_green(message) == dict.fromkeys(names, expected)
