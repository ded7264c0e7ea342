"""What a member of a view-synchronous group does, as entries of the trace.

Implements: [Spread 2.2.3.2], Sending View Delivery.
"""

from __future__ import annotations

from isotone.core.ids import GroupViewId
from isotone.trace.events import Entry


class SynchronousSent(Entry, frozen=True, gc=False, tag="vssend"):
    """A member sent these messages in this view."""

    client: str
    group: str
    view: GroupViewId
    first_sequence: int
    count: int


class SynchronousDelivered(Entry, frozen=True, gc=False, tag="vsdeliver"):
    """A member was given these messages in this view."""

    client: str
    group: str
    view: GroupViewId
    sender: str
    first_sequence: int
    count: int


class SynchronousView(Entry, frozen=True, gc=False, tag="vsview"):
    """A member installed this view; ``transitional`` came with it from the same view."""

    client: str
    group: str
    view: GroupViewId
    members: tuple[str, ...]
    transitional: tuple[str, ...]


class SynchronousLeft(Entry, frozen=True, gc=False, tag="vsleft"):
    """A member is out of the group."""

    client: str
    group: str
