"""What a member of a view-synchronous group does, as entries of the trace.

No field has the name of a column of group communication, so that all reach the checker on Spark as they were written.

Implements: [Spread 2.2.3.2], Sending View Delivery.
"""

from __future__ import annotations

from isotone.core.ids import GroupViewId
from isotone.trace.events import Entry


class SynchronousSent(Entry, frozen=True, gc=False, tag="vssend"):
    """A member sent these messages in this view."""

    member: str
    vgroup: str
    in_view: GroupViewId
    first: int
    count: int


class SynchronousDelivered(Entry, frozen=True, gc=False, tag="vsdeliver"):
    """A member was given these messages in this view."""

    member: str
    vgroup: str
    in_view: GroupViewId
    origin: str
    first: int
    count: int


class SynchronousView(Entry, frozen=True, gc=False, tag="vsview"):
    """A member installed this view; those of ``came_along`` came with it from the same view."""

    member: str
    vgroup: str
    in_view: GroupViewId
    present: tuple[str, ...]
    came_along: tuple[str, ...]


class SynchronousLeft(Entry, frozen=True, gc=False, tag="vsleft"):
    """A member is out of the group."""

    member: str
    vgroup: str
