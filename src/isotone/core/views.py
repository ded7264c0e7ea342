"""Views: who is together, as daemons see it and as a group's members see it. Implements: [Spread 2.2.1, 6.4]."""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId


class Cause(Enum):
    """Why a group's view changed."""

    JOIN = "join"
    LEAVE = "leave"
    DISCONNECT = "disconnect"
    NETWORK = "network"


class DaemonView(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A daemon view as one daemon installs it; both sets are sorted."""

    id: DaemonViewId
    members: tuple[DaemonId, ...]
    transitional: tuple[DaemonId, ...]


class GroupView(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A group's view as one member installs it; the sets are sorted.

    ``transitional`` are those who came from the same previous view; ``subject`` is who joined, left or was
    disconnected; ``together`` lists, for a network cause, the sets that came together (one per previous view).
    """

    group: str
    id: GroupViewId
    members: tuple[ClientId, ...]
    transitional: tuple[ClientId, ...]
    cause: Cause
    subject: ClientId | None = None
    together: tuple[tuple[ClientId, ...], ...] = ()
