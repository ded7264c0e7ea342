"""What the membership hears besides the contract's events and those of the transport. The thesis has no such events."""

from __future__ import annotations

from isotone.core.contract import Address, Event
from isotone.evs.membership.settings import KnownDaemon
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.transport.events import InterestStated, Submitted

__all__ = ["InterestChanged", "InterestStated", "PeersChanged", "Submitted"]


class PeersChanged(Event, frozen=True, gc=False):
    """The settings changed at run time: these are known from now on, or have another address; those are not wanted."""

    known: tuple[KnownDaemon, ...] = ()
    removed: tuple[str, ...] = ()
    seeds: tuple[Address, ...] | None = None
    """In place of those so far; none leaves them."""
