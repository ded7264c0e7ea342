"""What servers say to each other, as AGREED messages of one group. Each names the view that it was sent in.

Implements: [COReL 5.5], [COReL 5.6]. Deviations: D-view a message that reaches another view than the one it was sent in
counts for nothing there: B4 may carry it over, and its sender's state then says nothing about the new view.
"""

from __future__ import annotations

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.corel.message import Message, Range
from isotone.corel.quorum import History

WIRE_BYTES_MAX = 16 * 1024 * 1024


class Regular(ControlMessage, frozen=True, tag=0x80):
    """A message, with the sender's acknowledgement and green line [COReL 5.5]."""

    view: str
    acknowledged: Natural
    green: Natural
    message: Message


class Acknowledged(ControlMessage, frozen=True, tag=0x81):
    """The sender has everything up to a place yellow on disk, and everything up to another green on disk."""

    view: str
    acknowledged: Natural
    green: Natural


class State(ControlMessage, frozen=True, tag=0x82):
    """What a server has, when it comes into a view [COReL 5.6.2, Step 1]."""

    view: str
    server: str
    committed: Natural
    attempted: Natural
    green: Natural
    yellow: Natural
    ranges: tuple[Range, ...]
    history: History
    greens: tuple[tuple[str, int], ...]


class Priority(ControlMessage, frozen=True, tag=0x83):
    """A stretch of the representative's order from a place on [COReL 5.6.2, Step 5]; headers where all have it."""

    view: str
    first: Natural
    messages: tuple[Message, ...]


class Retransmitted(ControlMessage, frozen=True, tag=0x84):
    """Red messages that not all have [COReL 5.6.2, Step 7]."""

    view: str
    messages: tuple[Message, ...]


class Attempt(ControlMessage, frozen=True, tag=0x85):
    """The sender wrote down that it attempts this primary component [COReL 5.6.1]."""

    view: str
    number: Natural


class Commit(ControlMessage, frozen=True, tag=0x86):
    """The sender wrote down that it committed, and has everything yellow [COReL 5.6.1]."""

    view: str
    number: Natural


Wire = Regular | Acknowledged | State | Priority | Retransmitted | Attempt | Commit

CODEC: ControlCodec[ControlMessage] = ControlCodec(
    Regular, Acknowledged, State, Priority, Retransmitted, Attempt, Commit, bytes_max=WIRE_BYTES_MAX
)
