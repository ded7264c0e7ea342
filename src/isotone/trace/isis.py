"""What an ISIS site does, as entries of the trace. Names are those of `isotone.isis.names`.

A row stands where its effect does: a delivery when the message is handed to the process.

Implements: [ISIS 3], [ISIS 4.2].
"""

from __future__ import annotations

from isotone.trace.events import Entry


class SiteStarted(Entry, frozen=True, gc=False, tag="isite"):
    """An incarnation of a site began; ``servers``: all configured sites, by name."""

    site: str
    servers: tuple[str, ...]


class SiteKilled(Entry, frozen=True, gc=False, tag="ikilled"):
    """An incarnation learnt that it was declared dead; nothing of it follows."""

    site: str
    why: str


class SiteViewInstalled(Entry, frozen=True, gc=False, tag="isiteview"):
    """A site is operational in this view."""

    site: str
    number: int
    servers: tuple[str, ...]


class NeighbourKnown(Entry, frozen=True, gc=False, tag="ineighbour"):
    """A site has learnt the site view of another cluster."""

    site: str
    number: int
    servers: tuple[str, ...]


class BroadcastBegun(Entry, frozen=True, gc=False, tag="ibcast"):
    """A process began a broadcast. ``chain`` and ``place``: its label, of an ABCAST the queue alone."""

    origin: str
    message: str
    primitive: str
    pgroup: str
    chain: str
    place: int
    destinations: tuple[str, ...]
    digest: int
    uniform: bool = False
    outside: bool = False  # the sender knows the group by a cache
    causal: bool = False  # an ABCAST behind all that its sender could know of


class BroadcastDelivered(Entry, frozen=True, gc=False, tag="ideliver"):
    """A process was handed a message; ``number``: the site view then."""

    process: str
    message: str
    origin: str
    primitive: str
    pgroup: str
    digest: int
    number: int


class BroadcastRejected(Entry, frozen=True, gc=False, tag="ireject"):
    """A site rejected a broadcast: its group has grown since it was addressed."""

    site: str
    message: str


class GroupViewInstalled(Entry, frozen=True, gc=False, tag="igview"):
    """A process was handed a view of its group, made by this GBCAST (none: a new group); ``failed``: who failed."""

    process: str
    pgroup: str
    number: int
    servers: tuple[str, ...]
    message: str
    failed: tuple[str, ...]


class GroupLeft(Entry, frozen=True, gc=False, tag="ileft"):
    """A process is no member any more, by its own wish or because it ended."""

    process: str
    pgroup: str


class StoreCounted(Entry, frozen=True, gc=False, tag="istore"):
    """How much a site keeps when nothing is under way."""

    site: str
    ids: int
    buffered: int
    listed: int
