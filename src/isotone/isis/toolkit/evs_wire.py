"""What the processes of a system say to each other in its view-synchronous group.

Implements: [ISIS 3], on view-synchronous groups. Deviations: see `isotone.isis.toolkit.evs_layer`.
"""

from __future__ import annotations

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.isis.toolkit.wire import Said

# --- which view is primary -------------------------------------------------------------------------------------------


class Hello(Said, frozen=True):
    """What the sender brings into the present view; see `isotone.isis.toolkit.evs_primary`."""

    established: int
    together: tuple[str, ...]
    attempted: int
    base: int
    took_part: bool


class Attempted(Said, frozen=True):
    """The sender has saved that it takes part in this primary view."""

    number: int


class TablePart(Said, frozen=True):
    """A part of the table of groups, for who is new."""

    data: bytes


# --- groups ----------------------------------------------------------------------------------------------------------


class Enter(Said, frozen=True):
    """The sender wants to be a member of the group."""

    group: str


class Exit(Said, frozen=True):
    """The sender wants to be a member of it no more."""

    group: str


class Instant(Said, frozen=True):
    """All members take this at the same place among their messages."""

    group: str
    body: bytes


class GroupFlushed(Said, frozen=True):
    """The sender sends nothing more to the group before this change."""

    group: str
    change: int


class Cast(Said, frozen=True):
    """A broadcast to the group."""

    group: str
    body: bytes


class Private(Said, frozen=True):
    """A message to one process."""

    to: str
    body: bytes


class Secure(Said, frozen=True):
    """Sent SAFE: when its sender hears it, all that came before it is everywhere."""


Message = Hello | Attempted | TablePart | Enter | Exit | Instant | GroupFlushed | Cast | Private | Secure
_MESSAGE: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def decode(data: memoryview | bytes) -> Message:
    """Of one message of a bundle."""
    try:
        return _MESSAGE.decode(data)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"a message is none of the toolkit's: {error}") from error
