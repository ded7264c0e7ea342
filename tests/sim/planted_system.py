"""An artificial system for tests of swarm and shrinker: it fails exactly when a chosen pair of faults meets a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.sim.faults import Fault
from isotone.sim.plan import Plan, Scale, Step, Topology, draw_topology
from isotone.sim.system import RUN_ASSERT, RUN_LIVE
from isotone.sim.world import World
from isotone.trace.events import Connected, Delivered, Recovered


class TickStep(Step, frozen=True, tag="tick"):
    """Nothing much."""

    number: int


class PlantedRun:
    """Raises when it was partitioned, then ``victim`` crashes, and any tick follows while the node is down."""

    def __init__(self, world: World, plan: Plan, victim: str) -> None:
        self.names = plan.topology.names
        self.victim = victim
        self.partitioned = False
        self.armed = False
        del world

    def partition(self, sides: Sequence[Sequence[str]]) -> None:
        self.partitioned = True

    def heal(self) -> None:
        self.partitioned = False

    def crash(self, node: str) -> None:
        self.armed = self.armed or (self.partitioned and node == self.victim)

    def cut(self, source: str, target: str, *, one_way: bool) -> None: ...

    def restart(self, node: str, *, elsewhere: bool = False) -> None: ...

    def slow_disk(self, node: str, sync_us: int | None) -> None: ...

    def pause(self, node: str) -> None: ...

    def resume(self, node: str) -> None: ...

    def kill_client(self, node: str, client: str) -> None: ...

    def play(self, step: Step) -> None:
        assert not self.armed, "the planted fault"

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        return (self.names,)

    def owes_progress(self) -> bool:
        return True

    def live(self) -> list[str]:
        return []

    def settled(self) -> bool | None:
        return None

    def choices(self) -> Mapping[str, int]:
        return {}


class PlantedSystem:
    """A system with one planted bug."""

    name = "planted"
    stacks: tuple[str, ...] = ("none",)
    step_type: Any = TickStep
    victim = "d2"

    def topology(self, choice: Choice, scale: Scale, nodes: int | None, stack: str) -> Topology:
        return draw_topology(choice, scale, nodes)

    def workload(
        self, choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, stack: str
    ) -> tuple[Step, ...]:
        moments = sorted(choice.between(0, scale.faults_end_us) for _ in range(300))
        return tuple(TickStep(at, choice.pick(topology.names), number) for number, at in enumerate(moments))

    def faults(self, stack: str) -> tuple[str, ...]:
        return ("partition", "cut", "crash", "pause", "kill")

    def properties(self, stack: str) -> tuple[str, ...]:
        return (RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> PlantedRun:
        return PlantedRun(world, plan, self.victim)

    def live_within_us(self, plan: Plan) -> int:
        return 1_000_000


class LyingRun(PlantedRun):
    """Its record has a delivery of what nobody sent."""

    def __init__(self, world: World, plan: Plan, victim: str) -> None:
        super().__init__(world, plan, victim)
        self.world = world

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        number = self.world.nodes["d2"].incarnation if "d2" in self.world.nodes else 0
        heard = Delivered(
            ("#c1#d1#1#1",),
            f"#c1#d2#{number}#1",
            1,
            Service.AGREED,
            ("#c1#d1",),
            (3,),
            (42,),
            lamport=7,
            stamper="d2#1",
        )
        for entry in (Recovered("d1#1"), Connected("#c1#d1#1#1"), heard):
            self.world.record("d1", entry)
        self.world.record("d2", Recovered(f"d2#{number}"))
        return super().stabilise()


class LyingSystem(PlantedSystem):
    """Breaks a promise that the checkers know."""

    name = "lying"
    victim = "nobody"

    def properties(self, stack: str) -> tuple[str, ...]:
        return ("EVS-2.5", "EVS-2.6", RUN_ASSERT, RUN_LIVE)

    def build(self, world: World, plan: Plan) -> PlantedRun:
        return LyingRun(world, plan, self.victim)
