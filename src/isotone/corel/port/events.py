"""What the two ends of a log's port are told and say, beside streams and timers."""

from __future__ import annotations

from typing import Any

import msgspec

from isotone.core.contract import Action, Event
from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError
from isotone.core.ordered_log import Maybe, Refused
from isotone.corel.port import wire

Ticket = int
"""By which a caller names what it asked for."""


class Unanswered(IsotoneError):
    """Nobody answered in time."""


class Unwelcome(MachineError):
    """The servers answer, and do not take this client: its credential, its permission, its version."""


class NotYet(IsotoneError):
    """The position is not green here within the time that was given."""


class FellBehind(IsotoneError):
    """A follower of red messages did not keep up, and has missed some."""


_ERRORS: dict[str, type[IsotoneError]] = {
    each.__name__: each for each in (NotYet, FellBehind, LocalProtocolError, InputError, Refused, Maybe)
}


def error_of(kind: str, reason: str) -> IsotoneError:
    """As a server names it."""
    return _ERRORS.get(kind, MachineError)(reason)


# --- the server's end: what it is told -------------------------------------------------------------------------------


class AppendAnswer(msgspec.Struct, frozen=True, gc=False):
    """A position, or why there is none."""

    stream: int
    request: int
    outcome: int | IsotoneError


class AppendsAnswered(Event, frozen=True, gc=False):
    """By the log, in one turn."""

    answers: tuple[AppendAnswer, ...]


class WorkDone(Event, frozen=True, gc=False):
    """The answer to what was asked: entries, `Told` or `Failed`."""

    stream: int
    request: int
    answer: wire.Said


class NextFound(Event, frozen=True, gc=False):
    """The next frame of one who follows."""

    stream: int
    request: int
    frame: wire.Fed


class LogEnded(Event, frozen=True, gc=False):
    """Nothing more is to be had here: all clients go to another server."""


# --- the server's end: what it wants ---------------------------------------------------------------------------------


class RecordsCame(Action, frozen=True, gc=False):
    """Order these; their requests are numbered from ``request`` on."""

    stream: int
    request: int
    within_ms: int
    records: tuple[bytes, ...]


class WorkWanted(Action, frozen=True, gc=False):
    """Find the answer, which comes as `WorkDone`."""

    stream: int
    frame: wire.ReadRange | wire.WaitFor | wire.Question | wire.Reconfigure


class NextWanted(Action, frozen=True, gc=False):
    """Find the next frame of what is followed, as soon as there is one; `Follow` names where it begins."""

    stream: int
    wanted: wire.Wanted


class SnapshotCame(Action, frozen=True, gc=False):
    """Keep it, and answer with `WorkDone`; until then it counts."""

    stream: int
    request: int
    position: int
    state: bytes


class WorkUnwanted(Action, frozen=True, gc=False):
    """Nobody waits for it any more."""

    stream: int
    request: int


class Dropped(Action, frozen=True, gc=False):
    """A client is sent away, for the record."""

    stream: int
    reason: str


# --- the client's end: what it is told -------------------------------------------------------------------------------


class AppendWanted(msgspec.Struct, frozen=True, gc=False):
    """Order a record. ``within_us`` None: there is no deadline."""

    ticket: Ticket
    record: bytes
    within_us: int | None = None


class AppendsWanted(Event, frozen=True, gc=False):
    """Of one turn of the program: they travel together as far as they fit."""

    appends: tuple[AppendWanted, ...]


class Asked(Event, frozen=True, gc=False):
    """Ask this, whatever its number says. ``is_change``: it is asked once, and what becomes of it may stay unknown;
    all else is asked elsewhere when a server is lost.
    """

    ticket: Ticket
    frame: wire.ReadRange | wire.WaitFor | wire.Question | wire.Reconfigure
    within_us: int | None = None
    is_change: bool = False


class FollowWanted(Event, frozen=True, gc=False):
    """Follow this; ``elsewhere``: also at another server when one is lost."""

    ticket: Ticket
    wanted: wire.Wanted
    elsewhere: bool = True


class FrameTaken(Event, frozen=True, gc=False):
    """Who follows has used a frame of this size."""

    ticket: Ticket
    size: int


class OfferWanted(Event, frozen=True, gc=False):
    """Hand in a snapshot, in pieces."""

    ticket: Ticket
    position: int
    state: bytes


class ConnectionWanted(Event, frozen=True, gc=False):
    """Find a server, also while there is nothing to ask."""

    ticket: Ticket


class Unwanted(Event, frozen=True, gc=False):
    """Nobody waits for it any more."""

    ticket: Ticket


class Parting(Event, frozen=True, gc=False):
    """The program is done with the log."""


# --- the client's end: what it says ----------------------------------------------------------------------------------


class Settled(Action, frozen=True, gc=False):
    """What became of it: a value, or an `IsotoneError`. Of one that follows: why nothing more comes."""

    ticket: Ticket
    outcome: Any


class FrameCame(Action, frozen=True, gc=False):
    """For one who follows."""

    ticket: Ticket
    frame: wire.Fed
