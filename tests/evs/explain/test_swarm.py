"""A run that does not become live in time says why, in the words of its daemons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from isotone.core.ids import MessageId, Stamp
from isotone.evs.explain import MessageStage, Ruling, status, why_excluded, why_no_view, why_not_delivered
from isotone.sim.evs_system import EvsSystem
from isotone.sim.full_system import FullRun
from isotone.sim.plan import Plan, Size
from isotone.sim.run import run_plan
from isotone.sim.system import RUN_LIVE, BuiltSystem, Setting, draw_plan
from isotone.sim.world import World


class HalfMendedRun(FullRun):
    """After the heal the first node is still alone."""

    def stabilise(self) -> tuple[tuple[str, ...], ...]:
        super().stabilise()
        self._world.partition(self._names[:1])
        return self._world.components()


class HalfMendedSystem(EvsSystem):
    """Runs that cannot become live."""

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        return HalfMendedRun(world, plan)

    def live_within_us(self, plan: Plan) -> int:
        del plan
        return 2_000_000


class AskingRun(FullRun):
    """Everybody is asked everything, again and again, through all faults."""

    places: ClassVar[Counter[MessageStage]] = Counter()
    rulings: ClassVar[Counter[Ruling]] = Counter()

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(world, plan)
        for at in range(0, plan.faults_end_us, 20_000):
            world.at(at, self._ask)

    def _ask(self) -> None:
        for name in self._names:
            if not self._world.is_up(name):
                continue
            stack, at = self._stack(name), self._world.clock(name)
            answers: list[object] = [why_no_view(stack, at), status(stack, at)]
            for other in self._names:
                answers.append(ruled := why_excluded(stack, other, at))
                self.rulings[ruled.ruling] += 1
            for message in self._messages():
                answers.append(said := why_not_delivered(stack, message, at))
                self.places[said.place] += 1
            for answer in answers:
                msgspec.json.encode(answer)

    def _messages(self) -> Iterator[MessageId | Stamp]:
        for name in self._names:
            if self._world.is_up(name):
                for session in self._clients(name).sessions.values():
                    yield MessageId(session.id, max(1, session.sent))
                network = self._stack(name).membership.node.network
                if network is not None:
                    for unit in network.transport.delivery.undelivered()[-1:]:
                        yield Stamp(unit.lamport, network.view.members[unit.daemon])


class AskingSystem(EvsSystem):
    """Runs with questions."""

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        return AskingRun(world, plan)


def test_questions_are_answered_at_any_time_through_all_faults() -> None:
    system = AskingSystem()
    for seed in (1, 2, 3):
        setting = Setting(system="evs", stack="full", size=Size.SMALL, faults="all")
        result = run_plan(system, draw_plan(system, setting, seed))
        assert not result.violations, result.violations[0]
    assert set(AskingRun.places) >= {
        MessageStage.UNKNOWN,
        MessageStage.WAITING,
        MessageStage.QUEUED,
        MessageStage.DELIVERED,
        MessageStage.MISSING,
    }
    assert set(AskingRun.rulings) >= {Ruling.OURSELVES, Ruling.MEMBER, Ruling.SUSPECTED, Ruling.COMING, Ruling.UNPROVEN}


def test_a_liveness_failure_prints_the_explanations() -> None:
    system = HalfMendedSystem()
    plan = draw_plan(system, Setting(system="evs", stack="full", size=Size.SMALL, faults="none", nodes="3"), 1)
    result = run_plan(system, plan)
    (violation,) = (each for each in result.violations if each.property == RUN_LIVE)
    for node in plan.topology.nodes:
        assert f"{node.name}#1 is operational" in violation.explanation, violation.explanation
    assert "because a daemon view was installed" in violation.explanation
    first = plan.topology.nodes[0].name
    assert f"{first} is suspected: silence" in violation.explanation
