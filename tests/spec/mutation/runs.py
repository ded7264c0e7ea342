"""Good recorded runs to spoil: small ones on the oracle, crowded with faults and views."""

from __future__ import annotations

from isotone.sim.plan import Scale, Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.trace.events import Row

CROWDED = Scale(
    sends_min=120,
    faults_min=8,
    faults_end_us=1_500_000,
    nodes=(3, 4),
    sites=(1, 2),
    clients_per_node=(1, 3),
    groups=(1, 2),
)


def recorded(seed: int) -> list[Row]:
    """The trace of one seed."""
    system, rows = system_named("evs"), list[Row]()
    play_plan(system, draw_plan(system, Setting(size=Size.SMALL), seed, CROWDED), rows.append)
    return rows
