"""What the ISIS toolkit does, as entries of the trace. Processes are named as in `isotone.trace.isis`.

Implements: [ISIS 3.7], [ISIS 5].
"""

from __future__ import annotations

from isotone.trace.events import Entry


class ProcessBegan(Entry, frozen=True, gc=False, tag="tprocess"):
    """A process has a name; the one that the same node had before is over."""

    process: str


class MemberLeft(Entry, frozen=True, gc=False, tag="tleft"):
    """A process is a member of a group no more, because it left."""

    process: str
    pgroup: str


class MemberReady(Entry, frozen=True, gc=False, tag="tready"):
    """A member has the state of its group as of view ``number``: founded, from a checkpoint, kept or transferred.

    ``era`` is another one wherever the group began without the state that it had.
    """

    process: str
    pgroup: str
    number: int
    era: str
    how: str


class StateCounted(Entry, frozen=True, gc=False, tag="tstate"):
    """The digest of a member's state at one instant: right behind this view, or at a mark behind it."""

    process: str
    pgroup: str
    number: int
    instant: str
    digest: int


class ActionAsked(Entry, frozen=True, gc=False, tag="task"):
    """A caller asked an action of a group."""

    process: str
    pgroup: str
    message: str


class ActionBegun(Entry, frozen=True, gc=False, tag="tbegin"):
    """A member carries it out as its coordinator."""

    process: str
    pgroup: str
    message: str


class ActionDone(Entry, frozen=True, gc=False, tag="tdone"):
    """A member took over the result of an action, with its changes."""

    process: str
    pgroup: str
    message: str
    digest: int


class ActionAnswered(Entry, frozen=True, gc=False, tag="tanswer"):
    """The caller has its answer."""

    process: str
    pgroup: str
    message: str
    digest: int


class LockTaken(Entry, frozen=True, gc=False, tag="tlock"):
    """The steward of an owner holds a lock; ``place`` rises with every writer of the item."""

    process: str
    pgroup: str
    item: str
    origin: str
    writes: bool
    place: int


class LockFreed(Entry, frozen=True, gc=False, tag="tfree"):
    """It gives the lock back; ``place`` as this member knows it then."""

    process: str
    pgroup: str
    item: str
    origin: str
    writes: bool
    place: int


class PostMade(Entry, frozen=True, gc=False, tag="tpostmade"):
    """A member posts on a board of this level."""

    process: str
    pgroup: str
    board: str
    level: str
    message: str


class PostSeen(Entry, frozen=True, gc=False, tag="tpost"):
    """A member sees a post; ``place`` is where it stands on a board with one order, 0 on others."""

    process: str
    pgroup: str
    board: str
    level: str
    message: str
    place: int


class CopyStarted(Entry, frozen=True, gc=False, tag="tcopy"):
    """A process runs a copy of a program from here on."""

    process: str
    program: str


class CopyStopped(Entry, frozen=True, gc=False, tag="tuncopy"):
    """It does not run it any more."""

    process: str
    program: str
