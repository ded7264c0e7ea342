"""What a server's disk holds, read while it runs or is down."""

from __future__ import annotations

from isotone.core.contract import StoredLog
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.sim.corel_terms import LABEL, Terms
from isotone.sim.world import World


def ledger_on_disk(world: World, terms: Terms, name: str) -> Ledger:
    """As a start would find it."""
    ledger = Ledger.founded(terms.founders, terms.quorum)
    ledger.ready = name in terms.founders
    ledger.restore(world.disk(name).storage(LABEL).logs.get(LOG, StoredLog(1, ())))
    return ledger
