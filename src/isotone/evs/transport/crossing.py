"""Which links of its site a draft will cross, as the daemon that stamps it knows: it waits for room on those only.

Implements: [Spread 3.3, 3.4.2], where content goes, before it is stamped. Nothing rests on it but how long a draft
waits: where it goes the gateway decides when it leaves. Deviations: D-hold of docs/protocols/ordering.md.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.ordering.pruning import SITES_MAX
from isotone.evs.ordering.stamper import LINKS, PLACE, Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import Interest
from isotone.evs.transport.pressure import link_bit
from isotone.evs.transport.settings import Peek, everybody

SMALL_BYTES = 1024  # a message among groups of at most so much is no larger than metadata of many units


class Crossing:
    """For the drafts of one daemon; ``interest`` is what this daemon knows of all sites."""

    def __init__(self, site: str, interest: Interest, peek: Peek) -> None:
        self.interest = interest
        names = [each.name for each in interest.routes.topology.sites]
        self._peek = peek if len(names) <= SITES_MAX else everybody
        self._below = {
            link_bit(names.index(child)): interest.mask(interest.routes.below(site, child))
            for child in interest.routes.children(site, site)
        }

    def crossed(self, draft: Draft) -> int:
        """The bits of the links that it crosses, and `PLACE`, since every unit's place in the order crosses all."""
        if draft.kind is UnitKind.GROUPS and len(draft.body) <= SMALL_BYTES:
            return PLACE
        if self._peek is everybody or draft.kind is not UnitKind.BUNDLE:
            return LINKS | PLACE
        groups = self._peek(Unit(draft.kind, Service.RELIABLE, 0, 0, 0, 0, 0, draft.body)).groups
        if groups is None:
            return LINKS | PLACE
        needed = self.interest.sites_needed(groups)
        return sum([bit for bit, below in self._below.items() if needed & below], PLACE)
