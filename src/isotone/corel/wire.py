"""What servers say to each other, as AGREED messages of one group. Each names the view that it was sent in.

What a server that catches up and the one that helps it say comes last.

Implements: [COReL 5.5], [COReL 5.6]. Deviations: D-view a message that reaches another view than the one it was sent in
counts for nothing there: B4 may carry it over, and its sender's state then says nothing about the new view.
"""

from __future__ import annotations

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.corel.configuration import Configuration
from isotone.corel.message import Message, Range
from isotone.corel.proposal import Proposal
from isotone.corel.quorum import History
from isotone.corel.snapshot import SnapshotHead

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
    known: tuple[str, ...] = ()  # the servers of all configurations that it knows of
    configuration: Configuration | None = None  # of its green prefix
    ready: bool = True  # caught up: it can take part
    forgotten: Natural = 0
    context: Natural = 0
    fence: Natural = 0
    applied: Natural = 0
    proposal: Proposal | None = None
    context_applied: Natural = 0
    identity: bytes = b""  # of its log
    coming: tuple[tuple[str, bytes], ...] = ()  # the logs of the servers of configurations that are not green, if any
    set_back: bool = False  # its log has less than it promised, as it knows


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
    """The sender wrote down that it attempts this primary component [COReL 5.6.1]; with its vote [COReL 7.1.4]."""

    view: str
    number: Natural
    accepts: bool = False  # the last order proposal; so says also who is not asked and could order by it


class Commit(ControlMessage, frozen=True, tag=0x86):
    """The sender wrote down that it committed, and has everything yellow [COReL 5.6.1]."""

    view: str
    number: Natural


class Proposing(ControlMessage, frozen=True, tag=0x87):
    """An order proposal, as far as its sender knows the votes, its own among them [COReL 7.1.3]."""

    view: str
    proposal: Proposal


Wire = Regular | Acknowledged | State | Priority | Retransmitted | Attempt | Commit | Proposing

CODEC: ControlCodec[ControlMessage] = ControlCodec(
    Regular, Acknowledged, State, Priority, Retransmitted, Attempt, Commit, Proposing, bytes_max=WIRE_BYTES_MAX
)


# --- catching up: FIFO messages to one server alone ------------------------------------------------------------------


class Fetch(ControlMessage, frozen=True, tag=0x88):
    """The sender is green up to ``after`` and wants what follows: at most so many parcels, then it asks again.

    Of a snapshot at ``position``, with this digest, it has the first ``offset`` bytes already.
    """

    server: str
    after: Natural
    position: Natural
    offset: Natural
    parcels: Natural
    fence: Natural
    digest: bytes = b""


class Fetched(ControlMessage, frozen=True, tag=0x89):
    """Green messages behind a place, and where the sender stands itself; ``last`` of those that were asked for."""

    after: Natural
    messages: tuple[Message, ...]
    green: Natural
    context: Natural
    base: Natural
    history: History
    fence: Natural
    forced: Configuration | None  # the servers that the fence made the only ones
    last: bool
    applied: Natural = 0


class FetchedHead(ControlMessage, frozen=True, tag=0x8A):
    """What was asked for is forgotten: a snapshot comes instead, and what follows it."""

    head: SnapshotHead
    context: Natural = 0
    applied: Natural = 0
    fence: Natural = 0
    forced: Configuration | None = None


class FetchedPiece(ControlMessage, frozen=True, tag=0x8B):
    """A piece of it, from an offset on."""

    position: Natural
    offset: Natural
    data: bytes
    last: bool
    digest: bytes = b""


class FetchRefused(ControlMessage, frozen=True, tag=0x8C):
    """The sender cannot help."""

    reason: str


Catching = Fetch | Fetched | FetchedHead | FetchedPiece | FetchRefused

CATCHING_CODEC: ControlCodec[ControlMessage] = ControlCodec(
    Fetch, Fetched, FetchedHead, FetchedPiece, FetchRefused, bytes_max=WIRE_BYTES_MAX
)
