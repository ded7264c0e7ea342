"""A quorum alone: on some seeds the network is healed for some of the servers first, just enough that they may order.

All others are cut off or down. Whoever is there must be in one primary component within the bound, and have green all
that it has, and something new: not only when everybody is there. Whether they may order is reckoned from their disks
(`isotone.sim.corel_rules`): once to draw them, and again when the group service owes them their view, for a message
that was under way when they were parted may have told one of them of another primary, or of a reconfiguration.

Implements: [DESIGN 4], the second phase of a run; [COReL 3.5], [COReL 7.2.2].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from isotone.core.choice import Choice
from isotone.corel.events import Standing
from isotone.corel.explain import why_no_primary
from isotone.corel.ledger import Ledger
from isotone.corel.replica import Replica
from isotone.sim.corel_disks import ledger_on_disk
from isotone.sim.corel_node import AppendStep
from isotone.sim.corel_rules import may_order
from isotone.sim.corel_terms import Terms
from isotone.sim.corel_times import corel_times
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.faults import MILLISECOND
from isotone.sim.plan import Plan
from isotone.sim.world import World
from isotone.spec.bounds import BoundReport
from isotone.spec.corel_bounds import COREL_ORDERS
from isotone.trace.corel import OrderDue

ALONE = 0.5
LEFT_OUT, DOWN = 0.85, 0.3
APPENDED_WITHIN_MS = 1_500
LOOK_US = 50 * MILLISECOND
BOUND = "alone"


class QuorumAlone:
    """Of one run."""

    def __init__(self, world: World, nodes: EvsNodes, replica: Callable[[str], Replica], plan: Plan, terms: Terms):
        self._world, self._nodes, self._replica, self._terms = world, nodes, replica, terms
        self._names, self._times = plan.topology.names, corel_times(plan)
        self._choice = Choice(f"corel/{plan.seed}").derive("alone")
        self._drawn = not terms.raid and self._choice.chance(ALONE)
        self._members: tuple[str, ...] = ()
        self._green = 0  # the highest of their lines when they were parted from the others
        self.missing: list[str] = []  # what was still owed when the bound was over

    def play(self, calm: Callable[[], None]) -> None:
        """Let them go on alone, if the seed says so and enough can be left out; ``calm`` mends what is beneath them."""
        self._members = self._draw() if self._drawn else ()
        if not self._members:
            return
        self._part(calm)
        parted = self._world.now
        self._append()
        last, bound = self._world.now, COREL_ORDERS.function(self._times)
        self.missing = self._missing_within(bound, parted + self._times.view_us)
        if not self._members:
            return
        self._world.reports.append(BoundReport(BOUND, self._world.now - last, bound))
        owed = tuple(self._owed())
        for name in owed:
            self._world.record(name, OrderDue(name, owed))

    def _draw(self) -> tuple[str, ...]:
        """As few as may order, most of the time; none if no server of the last configuration can be left out."""
        ledgers = self._ledgers(self._names)
        last = max((each.queue.configuration for each in ledgers.values()), key=lambda each: each.number)
        gone = {*self._terms.lost, *last.retired}
        here = [name for name in self._names if name not in gone]
        turns = list(here)
        self._choice.shuffle(turns)
        for name in turns:
            rest = [each for each in here if each != name]
            if self._choice.chance(LEFT_OUT) and may_order({each: ledgers[each] for each in rest}):
                here = rest
        may = may_order({each: ledgers[each] for each in here})
        return tuple(sorted(here)) if may and set(last.servers) - set(here) else ()

    def _part(self, calm: Callable[[], None]) -> None:
        others = [name for name in self._names if name not in self._members]
        for name in others:
            if self._choice.chance(DOWN):
                self._nodes.crash(name)
        for name in self._members:
            self._nodes.restart(name)
            self._nodes.resume(name)
        self._nodes.heal()
        self._nodes.partition([self._members, others])
        calm()
        self._green = max(each.queue.green for each in self._ledgers(self._members).values())

    def _append(self) -> None:
        """Everybody, while they come together or soon after; until the last of it."""
        for name in self._members:
            step = AppendStep(at=self._world.now, node=name, lengths=(16,))
            after = self._choice.between(0, APPENDED_WITHIN_MS) * MILLISECOND
            self._world.after(after, partial(self._nodes.play, step))
        self._world.run_for(APPENDED_WITHIN_MS * MILLISECOND)

    def _missing_within(self, bound_us: int, viewed_us: int) -> list[str]:
        """What is missing when all is well or the bound is over.

        From ``viewed_us`` on they owe it only if they may still order: else nobody is a member any more.
        """
        end, reckoned = self._world.now + bound_us, False
        while missing := self._missing():
            if not reckoned and self._world.now >= viewed_us:
                reckoned = True
                if not may_order(self._ledgers(self._members)):
                    self._members = ()
                    return []
            if self._world.now >= end:
                break
            self._world.run_until(min(self._world.now + LOOK_US, end))
        return missing

    def _owed(self) -> list[str]:
        """The members, without those that a reconfiguration took out."""
        last = max((self._replica(name).ledger.queue for name in self._members), key=lambda queue: queue.green)
        return [name for name in self._members if name not in last.configuration.retired]

    def _missing(self) -> list[str]:
        owed = self._owed()
        missing = [f"{name} {text}" for name in owed for text in self._missing_at(self._replica(name), owed)]
        lines = {name: self._replica(name).ledger.queue.green for name in owed}
        if len(set(lines.values())) > 1:
            missing.append(f"the green lines differ: {lines}")
        if max(lines.values(), default=0) <= self._green:
            missing.append("nothing new is green")
        return [f"{', '.join(self._members)} may order alone: {text}" for text in missing]

    def _missing_at(self, replica: Replica, owed: Iterable[str]) -> list[str]:
        queue, together = replica.ledger.queue, set(replica.session.servers)
        missing = []
        if replica.standing is not Standing.REGULAR or not replica.flow.is_primary:
            missing.append(f"is not in a primary component: {replica.standing.value}; {why_no_primary(replica)}")
        elif not set(owed) <= together <= set(self._members):
            missing.append(f"is together with {', '.join(sorted(together))}")
        if queue.green < queue.end or replica.outbox.pending or replica.outbox.waiting:
            missing.append("has messages that are not green")
        if replica.journal.under_way:
            missing.append("still writes")
        return missing

    def _ledgers(self, names: Iterable[str]) -> dict[str, Ledger]:
        return {name: ledger_on_disk(self._world, self._terms, name) for name in names}
