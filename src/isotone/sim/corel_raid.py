"""A raid: all servers stop at once, most for good as it seems, and an operator forces a primary of a few of them.

The others come back later with their old disks, and must be fenced; servers that were never started before come, and
must learn from the survivors. What the operator was shown as lost, and nothing else, is lost at the end. Some disks are
lost for good before it or behind it: no survivor is one of those, and whoever is a stranger by then is refused as one.

Implements: [DESIGN 4], the system side of a simulated run; docs/protocols/corel-growth.md, recovery by force.
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from isotone.core.choice import Choice
from isotone.core.contract import Append
from isotone.core.errors import LocalProtocolError
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Origin
from isotone.corel.recover import assess, forced_record
from isotone.sim.corel_disks import ledger_on_disk
from isotone.sim.corel_node import ReconfigureStep
from isotone.sim.corel_terms import LABEL, Terms
from isotone.sim.evs_nodes import EvsNodes
from isotone.sim.faults import MILLISECOND
from isotone.sim.plan import Plan
from isotone.sim.world import World

BACK_MS = (0, 600)
COMES_BACK = 0.6  # before all faults are over
ASKED_MAX, ASKED_AFTER_MS = 12, 400


class Raid:
    """Of one run."""

    def __init__(
        self, world: World, nodes: EvsNodes, choice: Choice, plan: Plan, terms: Terms, *, intact: Set[str]
    ) -> None:
        """``intact``: who still has the disk that it will lose."""
        self._world, self._nodes, self._choice = world, nodes, choice
        self._terms, self._names, self._intact = terms, plan.topology.names, intact
        self._late = tuple(name for name in self._names if name not in terms.founders)
        self.down = set(self._late)  # who does not start, whoever asks for it
        self.survivors: tuple[str, ...] = ()
        self._shown: set[str] = set()
        self._had: set[tuple[Origin, int]] = set()
        self._accepted: list[str] = []  # strangers that could have gone on
        world.after(0, partial(self._stop, self._late))
        struck = choice.between(plan.faults_end_us // 4, plan.faults_end_us * 3 // 4)
        world.after(struck, self._strike)
        for _ in range(choice.pick((0, ASKED_MAX))):
            world.after(choice.between(struck, plan.faults_end_us + ASKED_AFTER_MS * MILLISECOND), self._ask)

    def end(self) -> None:
        """All who are down may come back."""
        self.down.clear()

    def _strike(self) -> None:
        self._stop(self._names)
        ledgers = {name: ledger_on_disk(self._world, self._terms, name) for name in self._names}
        self.survivors = self._survivors(ledgers)
        strange = {*self._terms.lost} - self._intact
        kept = {name: ledger for name, ledger in ledgers.items() if name not in strange}
        self._had = {message.name for ledger in kept.values() for message in ledger.queue.held}
        known = dict(pair for ledger in kept.values() for pair in ledger.queue.configuration.identities)
        strangers = [
            name for name in sorted(strange) if known.get(name, ledgers[name].identity) != ledgers[name].identity
        ]
        self._accepted = [name for name in strangers if not _is_refused(ledgers, (*self.survivors, name))]
        self._shown = {each.name for each in assess(ledgers, self.survivors).messages}
        record = forced_record(ledgers, self.survivors)
        for name in self.survivors:
            self._world.disk(name).hold(LABEL, [Append(LOG, record)])
        self.down = set(self._names)
        for name in self._names:
            if name in (*self.survivors, *self._late) or self._choice.chance(COMES_BACK):
                self._world.after(self._choice.between(*BACK_MS) * MILLISECOND, partial(self._release, name))

    def _ask(self) -> None:
        """That a newcomer be added; most of it is refused, for it has to catch up first."""
        node, server = self._choice.pick(self.survivors), self._choice.pick(self._late)
        self._nodes.play(ReconfigureStep(at=self._world.now, node=node, server=server, adds=True))

    def _stop(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._nodes.crash(name)

    def _release(self, name: str) -> None:
        self.down.discard(name)
        self._nodes.restart(name)

    def _survivors(self, ledgers: dict[str, Ledger]) -> tuple[str, ...]:
        """Some of those who can go on: at most half of the servers, and one at least."""
        removed = {name for ledger in ledgers.values() for name in ledger.queue.configuration.retired}
        gone = removed | {*self._terms.lost}
        able = [name for name in self._terms.founders if name not in gone and _can_go_on(ledgers[name])]
        few = max(1, len(able) // 2)
        return tuple(sorted(self._choice.sample(able, self._choice.between(1, few))))

    def wrong(self, ledger: Ledger) -> list[str]:
        """Where what is lost is not what was shown; ``ledger``: of a server that has everything at the end."""
        found = [f"{name} came without its log, and could have gone on" for name in self._accepted]
        for origin, counter in sorted(self._had):
            is_lost, is_shown = not ledger.queue.has((origin, counter)), f"{origin}:{counter}" in self._shown
            if is_lost != is_shown:
                found.append(f"{origin}:{counter} was {'' if is_shown else 'not '}shown as lost, and is the contrary")
        return found


def _can_go_on(ledger: Ledger) -> bool:
    """It has caught up, and its log an identity."""
    return ledger.ready and bool(ledger.identity)


def _is_refused(ledgers: dict[str, Ledger], survivors: tuple[str, ...]) -> bool:
    try:
        forced_record(ledgers, survivors)
    except LocalProtocolError:
        return True
    return False
