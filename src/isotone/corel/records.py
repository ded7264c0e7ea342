"""What a server writes to its one log. Each record is one atomic step of the algorithm.

A log survives a crash as a prefix, so there is no state between two steps to be found. Cells would break that: each
survives by itself. A checkpoint is a run of records that says again what is still needed; the log is cut before it.

Implements: [COReL 5.5], [COReL 5.6], "on stable storage". Deviations: D-log, one log and no cells.
"""

from __future__ import annotations

import msgspec

from isotone.core.codec.control import Natural
from isotone.core.errors import LocalProtocolError
from isotone.corel.configuration import Configuration
from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Proposal
from isotone.corel.quorum import History, Primary
from isotone.corel.snapshot import SnapshotHead
from isotone.corel.versions import RECORD_VERSIONS, marked, unmarked, version_of


class Stored(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Base of all records."""


class Lived(Stored, frozen=True, tag=1):
    """A life began; the first one says by which identity the log is known from now on."""

    life: Natural
    identity: bytes = b""


class Received(Stored, frozen=True, tag=2):
    """Messages at the end of the queue: yellow in a primary component, else red [COReL 5.5], [COReL 5.6.2, Step 5]."""

    messages: tuple[Message, ...]
    yellow: bool


class Inserted(Stored, frozen=True, tag=3):
    """Retransmitted messages among the red ones [COReL 5.6.2, Step 7]."""

    messages: tuple[Message, ...]


class Arranged(Stored, frozen=True, tag=5):
    """Lines and order as the representatives have them, and their last primary adopted [COReL 5.6.2, Steps 3, 6]."""

    committed: Natural
    green: Natural
    yellow: Natural
    order: tuple[tuple[Origin, int], ...]
    history: History
    context: Natural = 0
    applied: Natural = 0
    context_applied: Natural = 0


class Greened(Stored, frozen=True, tag=6):
    """Everything up to this place is green."""

    place: Natural


class Attempted(Stored, frozen=True, tag=7):
    """A primary component with this number is attempted."""

    number: Natural


class Committed(Stored, frozen=True, tag=8):
    """It is committed to, and all messages are yellow: one atomic step [COReL 5.6.1].

    If all its members accepted the last order proposal, they stand in its order first [COReL 7.1.4].
    """

    primary: Primary
    proposal: Proposal | None = None


class Established(Stored, frozen=True, tag=9):
    """It is the last primary now, and all messages are green."""

    primary: Primary


class Forgotten(Stored, frozen=True, tag=10):
    """White messages up to this place are no longer held."""

    place: Natural


class SnapshotBegun(Stored, frozen=True, tag=14):
    """A snapshot, offered here or fetched from a server; pieces follow. ``installs``: it moves the green line."""

    head: SnapshotHead
    installs: bool
    context: Natural = 0  # what the server knew that it is from
    applied: Natural = 0


class SnapshotPiece(Stored, frozen=True, tag=15):
    """The next piece of it; with the last one it takes effect."""

    data: bytes


class Transferred(Stored, frozen=True, tag=16):
    """Green messages from another server, behind the green ones; all else is red, and this server not caught up."""

    messages: tuple[Message, ...]
    context: Natural = 0  # what that server knew: less must not be known to whoever these are told
    applied: Natural = 0


class CaughtUp(Stored, frozen=True, tag=17):
    """Everything that was green before this primary was established is green here: from now on it takes part."""

    context: Natural
    history: History
    applied: Natural = 0


class Forced(Stored, frozen=True, tag=18):
    """An operator gave up the other servers: these alone go on, and whoever does not know of it never counts again.

    Also what a server writes first that learns from them: all that it learns then is from this side of the fence.
    """

    fence: Natural
    configuration: Configuration
    number: Natural = 0  # none of them knew of a primary with a higher one


class Proposed(Stored, frozen=True, tag=19):
    """The last order proposal, and all that is known of the votes on it [COReL 7.1.2]."""

    proposal: Proposal


class Applied(Stored, frozen=True, tag=20):
    """All servers accepted it: its messages are green, in its order [COReL 7.1.3]."""

    proposal: Proposal


class Founded(Stored, frozen=True, tag=22):
    """The servers of a configuration that did not know each other's logs met: these they are."""

    identities: tuple[tuple[str, bytes], ...]


class SetBack(Stored, frozen=True, tag=23):
    """This log has less than it promised: it never counts again, unless an operator chooses it to go on."""


class Knowledge(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Of a checkpoint: what came with growth, recovery by force, and order proposals."""

    configuration: Configuration
    changed_at: Natural
    context: Natural
    base: Natural
    fence: Natural
    applied: Natural
    vouches: bool
    ready: bool
    proposal: Proposal | None
    snapshot: SnapshotHead | None
    context_applied: Natural = 0
    forced: Configuration | None = None  # that of the fence
    identity: bytes = b""
    set_back: bool = False


class Checkpoint(Stored, frozen=True, tag=11):
    """All but the messages, as it stands; `Kept` follow, then `CheckpointEnded`."""

    life: Natural
    committed: Natural
    attempted: Natural
    history: History
    forgotten: Natural
    green: Natural
    yellow: Natural
    green_records: Natural
    lamport: Natural
    counters: tuple[tuple[Origin, int], ...]
    knowledge: Knowledge | None = None


class Kept(Stored, frozen=True, tag=12):
    """Messages of the checkpoint, in their order."""

    messages: tuple[Message, ...]


class KeptPiece(Stored, frozen=True, tag=21):
    """A piece of the checkpoint's snapshot."""

    data: bytes


class CheckpointEnded(Stored, frozen=True, tag=13):
    """The checkpoint is whole: what stands before it is not needed any more."""


Record = (
    Lived
    | Received
    | Inserted
    | Arranged
    | Greened
    | Attempted
    | Committed
    | Established
    | Forgotten
    | Checkpoint
    | Kept
    | CheckpointEnded
    | SnapshotBegun
    | SnapshotPiece
    | Transferred
    | CaughtUp
    | Forced
    | Proposed
    | Applied
    | KeptPiece
    | Founded
    | SetBack
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """As it stands in the log."""
    return marked(RECORD_VERSIONS.low, _ENCODER.encode(record))


def decode_record(data: bytes) -> Record:
    """The inverse; what cannot be read was not written by a server of this version."""
    version = version_of(data)
    if version not in RECORD_VERSIONS:
        raise LocalProtocolError(
            f"a record of version {version} of a replica's log; this program reads {RECORD_VERSIONS}: "
            "use the newer one that wrote it"
        )
    try:
        return _DECODER.decode(unmarked(data))
    except (msgspec.MsgspecError, ValueError) as error:
        raise LocalProtocolError(f"not a record of a replica's log: {error}") from error
