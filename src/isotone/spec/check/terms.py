"""The terms of the checker of one boundary: ids, stamps, contents, rows taken apart, and how a stay ends.

Implements: [Spread 2.2.1], as far as names go. Deviations: none.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from isotone.core.ids import GroupViewId
from isotone.core.services import Service

ViewId = Any
"""A `GroupViewId` or a `DaemonViewId`: hashable, totally ordered."""
StampKey = tuple[int, tuple[str, int]]
"""(Lamport time, (daemon name, incarnation)): the order of stamps."""

Content = tuple[Service, tuple[str, ...], tuple[int, ...], tuple[int, ...]]
"""Service, groups, lengths and digests of a bundle."""

Messages = tuple[str, int, Content]
"""The sender, the first sequence and the content of what a delivery row is about."""

NO_STAMP: StampKey = (-1, ("", 0))
TOP_STAMP: StampKey = (1 << 64, ("", 0))
NEVER = 1 << 62
NOWHERE: dict[str, ViewId] = {}
"""Shared by all bundles whose senders were in none of their groups; never filled."""


def comparable(id: ViewId) -> Any:
    """What orders a view among those of other components: a group's by daemon view and stamp.

    The next daemon view says only by which way out of the daemon view the view was made; that orders nothing.
    """
    return (id.daemon_view, id.stamp) if isinstance(id, GroupViewId) else id


class Seen(NamedTuple):
    """A view as an installation names it."""

    group: str
    id: ViewId
    members: tuple[str, ...]
    transitional: tuple[str, ...]


class Left(Enum):
    """How a stay ended."""

    OPEN = "open"
    MOVED = "moved"
    LEFT = "left"
    ENDED = "ended"
    LOST = "lost"


class Before(Enum):
    """What stands for a previous view where there is none."""

    FIRST = "first"
    UNKNOWN = "unknown"
