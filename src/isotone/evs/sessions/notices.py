"""What a session tells the program around it beside boundary B4, and what it counts."""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.sessions.messages import EndCode

# --- at the client -------------------------------------------------------------------------------------------------


class SendWanted(Event, frozen=True, gc=False):
    """Send these messages; consecutive tickets are given to them, see `ClientSession.submitted`.

    After ``deadline_us`` they are not sent any more, unless the daemon has handed them on.
    """

    service: Service
    groups: tuple[str, ...]
    bodies: tuple[bytes | memoryview, ...]
    types: tuple[int, ...] = ()
    flags: int = 0
    deadline_us: int | None = None


class ReadingPaused(Event, frozen=True, gc=False):
    """The program reads nothing from the stream for now: that the daemon is silent means nothing."""


class ReadingResumed(Event, frozen=True, gc=False):
    """The program reads again."""


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """The messages with these tickets were not sent: they hold no place in the session and nobody hears them."""

    first: int
    count: int
    reason: str


class Slow(msgspec.Struct, frozen=True, gc=False):
    """The daemon warns: so many bytes wait for this client, and there is a bound."""

    held_bytes: int
    bound_bytes: int


class Broken(msgspec.Struct, frozen=True, gc=False):
    """The stream is gone; the session looks for the daemon to go on."""

    reason: str


class Reconnected(msgspec.Struct, frozen=True, gc=False):
    """The session goes on: nothing was lost or doubled in either direction."""


class Roomy(msgspec.Struct, frozen=True, gc=False):
    """There is room again after a send was refused."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """What this client sends waits for these clients, which do not read; for none any more if there are none."""

    readers: tuple[ClientId, ...]


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The session is over and the object done with: the last notice, also after a `Disconnect` that was asked for.

    ``untaken`` counts messages of which it is unknown whether the daemon took them.
    """

    code: EndCode
    reason: str
    untaken: int = 0


Notice = Dropped | Slow | Broken | Reconnected | Roomy | Held | Ended


class Notify(Action, frozen=True, gc=False):
    """The session of the client of this name says something to the program around it."""

    name: str
    notice: Notice


# --- at the daemon -------------------------------------------------------------------------------------------------


class ClientsDismissed(Event, frozen=True, gc=False):
    """The daemon is about to stop: its sessions end now, so that groups hear of it in order before the daemon goes."""


class RoomChanged(Event, frozen=True, gc=False):
    """The layer below takes so many more bytes of sends now; above 0 it takes one of any size."""

    room: int


class GroupsHeld(Event, frozen=True, gc=False):
    """Sends to these groups wait until told otherwise: readers that somebody else plays are too slow.

    ``readers`` are these readers. The stack passes those of another automaton here on to other daemons; sessions name
    them to the senders that wait.
    """

    groups: tuple[str, ...]
    readers: tuple[ClientId, ...] = ()


class SessionCounters:
    """What a daemon's sessions did; everything only grows."""

    def __init__(self) -> None:
        self.accepted = 0  # streams
        self.opened = 0  # sessions
        self.resumed = 0
        self.ended: dict[EndCode, int] = dict.fromkeys(EndCode, 0)  # sessions
        self.turned_away: dict[EndCode, int] = dict.fromkeys(EndCode, 0)  # streams that came to no session
        self.malformed = 0
        self.frames_received = 0
        self.bytes_received = 0
        self.encoded = 0  # indications, once each
        self.written = 0  # writes
        self.bytes_written = 0
        self.handed_on = 0  # requests
        self.dropped_messages = 0
        self.warnings = 0
        self.blocked = 0  # times that a reader began to block
