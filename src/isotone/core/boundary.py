"""Boundary B4 as types: what a client asks of the group service, and what it hears.

The EVS oracle, the real stack and a client session all stand behind these types. A service is an automaton that takes
`Requested` and returns `Indicate`; a client automaton returns `Ask` and takes `Indicated`. One `Indicate` names all
local receivers, so that a bundle for a thousand local clients is one action.

Implements: [Spread 2.2.1], the external signature of EVS-C.
"""

from __future__ import annotations

import msgspec

from isotone.core.bundles import Bundle
from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId, GroupViewId, Stamp
from isotone.core.views import GroupView

# --- what a client asks --------------------------------------------------------------------------------------------


class Connect(msgspec.Struct, frozen=True, gc=False):
    """Open the session; first of all requests."""


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """Close the session and leave all groups."""


class Join(msgspec.Struct, frozen=True, gc=False):
    """Become a member of the group."""

    group: str


class Leave(msgspec.Struct, frozen=True, gc=False):
    """Cease to be a member of the group."""

    group: str


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a bundle; membership in its groups is not needed."""

    bundle: Bundle


Request = Connect | Disconnect | Join | Leave | Send


class Ask(Action, frozen=True, gc=False):
    """A client automaton asks something of its group service."""

    client: ClientId
    request: Request


class Requested(Event, frozen=True, gc=False):
    """A client asked something of this service."""

    client: ClientId
    request: Request


# --- what a client hears -------------------------------------------------------------------------------------------


class Connected(msgspec.Struct, frozen=True, gc=False):
    """The session is open."""


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A request was refused; the session stays as it was. Of a join or leave it says which group's."""

    request: str
    reason: str
    group: str = ""


class Disconnected(msgspec.Struct, frozen=True, gc=False):
    """The session is over; nothing follows."""

    reason: str


class Message(msgspec.Struct, frozen=True, gc=False):
    """A bundle in its place of the order."""

    bundle: Bundle
    stamp: Stamp


class View(msgspec.Struct, frozen=True, gc=False):
    """A new view of a group."""

    view: GroupView


class Transitional(msgspec.Struct, frozen=True, gc=False):
    """The view is about to end: until the next one, promises hold only among those who come along to it."""

    group: str
    view: GroupViewId


class SelfLeave(msgspec.Struct, frozen=True, gc=False):
    """The client has left the group, as it asked: the last that it hears of it."""

    group: str


Indication = Connected | Refused | Disconnected | Message | View | Transitional | SelfLeave


class Indicate(Action, frozen=True, gc=False):
    """The service tells these local clients; their order says nothing."""

    receivers: tuple[ClientId, ...]
    indication: Indication


class Indicated(Event, frozen=True, gc=False):
    """These clients, all played by this automaton, hear something from their service."""

    receivers: tuple[ClientId, ...]
    indication: Indication


def refusal(request: Request, reason: str) -> Refused:
    """The answer to a request that is not legal."""
    group = request.group if isinstance(request, Join | Leave) else ""
    return Refused(type(request).__name__.lower(), reason, group)
