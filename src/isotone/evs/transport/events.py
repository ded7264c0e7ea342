"""What the transport takes from the layer above and gives to it.

Implements: [Spread 2.2.5, 3.4.2], sending and delivery between daemons, and what pruning has to know. Deviations: units
come in batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action, Event
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit


class Submitted(Event, frozen=True, gc=False):
    """These shall be stamped and reach every daemon of the view; look at ``transport.room`` first."""

    drafts: Sequence[Draft]


class InterestStated(Event, frozen=True, gc=False):
    """All groups in which a site is interested; until then it gets all content."""

    site: str
    groups: tuple[str, ...]


class DeliverUnits(Action, frozen=True, gc=False):
    """These units may be delivered now, in this order; pruned ones hold their places, and nobody here wants them."""

    units: Sequence[Unit]
