"""A disk that is set back: an older copy of it takes its place, at a moment at which every other server can tell.

That is when each of them has a primary on disk that the server was in, and that the copy knows nothing of: then nobody
may count it, whoever meets it first. A copy of which nobody present knows better costs what it costs, and no run could
demand anything there. Nor is it from before the last restart: a life that is lived twice gives two messages one name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isotone.core.contract import Append, Write
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.sim.corel_disks import ledger_on_disk
from isotone.sim.corel_terms import LABEL, Terms
from isotone.sim.faults import MILLISECOND
from isotone.sim.world import World

LOOK_US = 20 * MILLISECOND

Replace = Callable[[Sequence[Write]], None]


class SetBack:
    """Of one server. Looks again and again until the end of the faults; then the disk is just lost."""

    def __init__(
        self, world: World, terms: Terms, name: str, *, names: tuple[str, ...], end_us: int, replace: Replace
    ) -> None:
        self._world, self._names, self._terms, self._name = world, names, terms, name
        self._end_us, self._replace = end_us, replace
        self._copies: list[tuple[Ledger, list[Write]]] = []  # one for each number attempted in the last life
        world.after(LOOK_US, self._look)

    def _look(self) -> None:
        now = self._ledger(self._name)
        self._copies = [each for each in self._copies if each[0].life == now.life]
        copy = next((writes for old, writes in self._copies if now.identity and self._all_know_better(old)), None)
        if copy is not None:
            self._replace(copy)
        elif self._world.now >= self._end_us:
            self._replace(())
        else:
            if not self._copies or self._copies[-1][0].attempted < now.attempted:
                stored = self._world.disk(self._name).storage(LABEL).logs.get(LOG)
                self._copies.append((now, [Append(LOG, record) for record in (stored.records if stored else ())]))
            self._world.after(LOOK_US, self._look)

    def _all_know_better(self, copy: Ledger) -> bool:
        others = [self._ledger(each) for each in self._names if each != self._name]
        servers = {server for each in others for server in each.queue.configuration.servers} - {self._name}
        return all(self._knows_better(self._ledger(server), copy) for server in servers)

    def _knows_better(self, ledger: Ledger, copy: Ledger) -> bool:
        known = dict(ledger.queue.configuration.identities).get(self._name) == copy.identity
        return known and any(
            self._name in each.servers and each.number > copy.attempted for each in ledger.history.formed
        )

    def _ledger(self, name: str) -> Ledger:
        return ledger_on_disk(self._world, self._terms, name)
