"""What passes between a HAB process and its surroundings: the application, operators, the local broadcast, detectors
and the way to other centres.

Implements: [HAB 2], the interfaces of the model.
"""

from __future__ import annotations

from isotone.core.contract import Action, Event
from isotone.hab.centre import Snapshot
from isotone.hab.messages import Entry

# --- the application -------------------------------------------------------------------------------------------------


class BroadcastWanted(Event, frozen=True, gc=False):
    """HA-broadcast this record; ``request`` is the application's own number for it."""

    request: int
    record: bytes


class BroadcastRefused(Action, frozen=True, gc=False):
    """It will not be ordered; or, with ``perhaps``, it was, and nobody here will know."""

    request: int
    reason: str
    perhaps: bool = False


class HaDeliver(Action, frozen=True, gc=False):
    """HA-deliver entries, in their order; ``own``: which requests of this process are among them, at which positions.

    After a restart some may come again, the same at the same positions.
    """

    entries: tuple[Entry, ...]
    own: tuple[tuple[int, int], ...]


class InstallState(Action, frozen=True, gc=False):
    """The application's state is this snapshot's now, or it is empty; what is delivered next stands behind it."""

    snapshot: Snapshot | None
    life: int = 0  # of the centre, which begins with it


class SnapshotOffered(Event, frozen=True, gc=False):
    """The application's state behind this position; entries up to it may be forgotten."""

    position: int
    state: bytes


# --- operators -------------------------------------------------------------------------------------------------------


class DeclareWanted(Event, frozen=True, gc=False):
    """An operator declares a centre lost; the shell has checked whose word it is. Without an operator it counts at
    once: so say those who know.

    ``override``: also where no majority can record it. ``withdrawn``: nobody shall declare it any more.
    """

    centre: str
    override: bool = False
    operator: str = ""
    withdrawn: bool = False


class HandoverWanted(Event, frozen=True, gc=False):
    """An operator wants this centre to be the primary."""

    centre: str


class RejoinWanted(Event, frozen=True, gc=False):
    """An operator wants this centre, which is out, back."""


class FoundWanted(Event, frozen=True, gc=False):
    """An operator begins the system; no centre has a state."""


class StandingChanged(Action, frozen=True, gc=False):
    """For those who watch: role, epoch, leader, and why."""

    role: str
    epoch: int
    why: str


# --- the local atomic broadcast and the local failure detector -------------------------------------------------------


class LocalBroadcast(Action, frozen=True, gc=False):
    """A-broadcast inside the centre."""

    record: bytes


class LocalDelivered(Event, frozen=True, gc=False):
    """A-delivered inside the centre. ``replayed``: an earlier incarnation of this process had these already."""

    records: tuple[bytes, ...]
    replayed: bool = False


class DeliverLocally(Action, frozen=True, gc=False):
    """Of a local broadcast: these are a-delivered."""

    records: tuple[bytes, ...]


class LocalRestored(Event, frozen=True, gc=False):
    """The local broadcast goes on behind this state of the centre, which was offered to it."""

    state: bytes


class OfferLocalState(Action, frozen=True, gc=False):
    """The state of the centre behind all that was a-delivered so far."""

    state: bytes


class LocalSuspected(Event, frozen=True, gc=False):
    """The processes of the centre that the failure detector suspects now."""

    processes: tuple[str, ...]


# --- other centres ---------------------------------------------------------------------------------------------------


class SendPacket(Action, frozen=True, gc=False):
    """To a process of another centre. May be lost, doubled and overtaken; never altered."""

    to: str
    data: bytes


class PacketReceived(Event, frozen=True, gc=False):
    """From a process of another centre, whose word it is: the shell has authenticated it."""

    source: str
    data: bytes
