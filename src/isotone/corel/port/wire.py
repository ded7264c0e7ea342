"""What clients of a replica's port say to it, and it to them: frames as those of sessions, over one stream.

The first message of each side names its version. Requests carry a number that the answer repeats; answers come in any
order. Appends travel many in one frame and are answered many in one frame. docs/protocols/host.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from isotone.core.codec.frame import FrameKind
from isotone.core.errors import RemoteProtocolError
from isotone.core.ordered_log import LogEntry
from isotone.evs.sessions.frames import HEAD_BYTES, FrameReader, control_frame

VERSION = 4
"""2: snapshots go in pieces; the rule and votes can be changed; red and white can be followed.
3: entries name their messages. 4: frames are those of sessions; a server says how much may be open."""
FRAME_BYTES_MAX = 32 * 1024 * 1024
READ_BYTES_MAX = 4 * 1024 * 1024
"""Entries of one frame; one alone may be larger."""
PIECE_BYTES_MAX = 1024 * 1024
"""So much of a snapshot stands in one frame."""
HELLO_BYTES_MAX = 4 * 1024
"""Who has not said who it is says no more."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Said(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Base of all frames."""


class Hello(Said, frozen=True, tag=1):
    """A client begins."""

    version: Natural
    name: str
    credential: bytes = b""


class AppendMany(Said, frozen=True, tag=2):
    """Order these records: their requests are numbered from ``request`` on. ``within_ms`` 0: no deadline."""

    request: Natural
    within_ms: Natural
    records: tuple[bytes, ...]


class ReadRange(Said, frozen=True, tag=3):
    """The entries of these positions."""

    request: Natural
    first: Natural
    last: Natural


class Follow(Said, frozen=True, tag=4):
    """All entries from here on, as far as credit goes: ``credit`` bytes may be under way."""

    request: Natural
    first: Natural
    credit: Natural


class Taken(Said, frozen=True, tag=5):
    """The follower has taken so much."""

    request: Natural
    size: Natural


class WaitFor(Said, frozen=True, tag=6):
    """Tell when this position is green."""

    request: Natural
    position: Natural
    within_ms: Natural


class Question(Said, frozen=True, tag=7):
    """How it stands: ``status``, ``end``, ``snapshot``, ``explain`` with the name of a message."""

    request: Natural
    what: str
    argument: str = ""


class OfferSnapshot(Said, frozen=True, tag=8):
    """A piece of a state that stands for everything up to a position; all pieces have the same number."""

    request: Natural
    position: Natural
    piece: bytes
    is_last: bool


class Reconfigure(Said, frozen=True, tag=10):
    """Add a server that has caught up, or remove one, or change the rule (encoded; empty: the present one) or votes."""

    request: Natural
    add: str
    remove: str
    within_ms: Natural
    rule: bytes = b""
    votes: tuple[tuple[str, Natural], ...] = ()


class Cancel(Said, frozen=True, tag=9):
    """Nobody waits for this request any more."""

    request: Natural


class FollowRed(Said, frozen=True, tag=11):
    """All messages from now on as they reach the disk of this server, as far as credit goes."""

    request: Natural
    credit: Natural


class FollowWhite(Said, frozen=True, tag=12):
    """The position up to which every server has everything, whenever it rises; ``credit`` counts positions."""

    request: Natural
    credit: Natural


class Welcome(Said, frozen=True, tag=1):
    """The server begins. So many appends, and bytes of them, may be open at a time; one alone may be larger."""

    version: Natural
    server: str
    appends_max: Natural = 1
    append_bytes_max: Natural = 0


class Ordered(Said, frozen=True, tag=2):
    """Requests with their positions."""

    requests: tuple[int, ...]
    positions: tuple[int, ...]


class Unordered(Said, frozen=True, tag=3):
    """No position: ``maybe`` or ``refused``."""

    request: Natural
    is_maybe: bool
    reason: str
    message: str = ""


class Entries(Said, frozen=True, tag=4):
    """Records from this position on; ``messages`` names the messages that carried them, with how many each carried."""

    request: Natural
    first: Natural
    records: tuple[bytes, ...]
    messages: tuple[tuple[Natural, str], ...] = ()

    def entries(self) -> list[LogEntry]:
        """The records with their positions and messages."""
        names = [name for count, name in self.messages for _ in range(min(count, len(self.records)))]
        if len(names) != len(self.records):
            raise RemoteProtocolError(f"{len(self.records)} records, and messages for {len(names)}")
        named = zip(self.records, names, strict=True)
        return [LogEntry(position, record, name) for position, (record, name) in enumerate(named, self.first)]

    @property
    def size(self) -> int:
        """What it costs of credit."""
        return sum(map(len, self.records)) or 1


def fitting(request: int, first: int, entries: Sequence[LogEntry]) -> Entries:
    """As much of them as one frame may hold; who asks goes on behind it."""
    records: list[bytes] = []
    messages: list[tuple[int, str]] = []
    size = 0
    for entry in entries:
        if records and size + len(entry.record) > READ_BYTES_MAX:
            break
        records.append(entry.record)
        size += len(entry.record)
        if messages and messages[-1][1] == entry.message:
            messages[-1] = (messages[-1][0] + 1, entry.message)
        else:
            messages.append((1, entry.message))
    return Entries(request, first, tuple(records), tuple(messages))


class RedMessage(Said, frozen=True, tag=7):
    """A message with its records, encoded as a server keeps it."""

    request: Natural
    message: bytes

    @property
    def size(self) -> int:
        """What it costs of credit."""
        return len(self.message)


class White(Said, frozen=True, tag=8):
    """Every server has everything up to here."""

    request: Natural
    position: Natural

    @property
    def size(self) -> int:
        """What it costs of credit."""
        return 1


class Told(Said, frozen=True, tag=5):
    """The answer to a question."""

    request: Natural
    answer: Any


class Failed(Said, frozen=True, tag=6):
    """There is no answer; ``kind`` is the name of the error."""

    request: Natural
    kind: str
    reason: str


Wanted = Follow | FollowRed | FollowWhite
Fed = Entries | RedMessage | White
"""What comes to those who follow."""
Lasting = ReadRange | Wanted | WaitFor | Question | Reconfigure
"""Requests that may take time."""
ClientFrame = Hello | AppendMany | Lasting | Taken | OfferSnapshot | Cancel
ServerFrame = Welcome | Ordered | Unordered | Fed | Told | Failed

_T = TypeVar("_T")
_ENCODER = msgspec.msgpack.Encoder()
CLIENT_FRAMES: msgspec.msgpack.Decoder[ClientFrame] = msgspec.msgpack.Decoder(ClientFrame)
SERVER_FRAMES: msgspec.msgpack.Decoder[ServerFrame] = msgspec.msgpack.Decoder(ServerFrame)


def framed(frame: Said) -> bytes:
    """With its head before it."""
    return control_frame(_ENCODER.encode(frame))


class Frames(Generic[_T]):
    """Cuts a stream into messages."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[_T], bytes_max: int | None = None) -> None:
        self.bytes_max = FRAME_BYTES_MAX if bytes_max is None else bytes_max  # of one message, from now on
        self._decoder = decoder
        self._reader = FrameReader(self._check)

    def feed(self, data: bytes | memoryview) -> Iterator[_T]:
        """What is complete, one after another; raises `RemoteProtocolError`."""
        view, at = memoryview(data), 0
        while at < len(view):
            arrived, at = self._reader.next(view, at)
            if arrived is not None:
                yield self._decoded(arrived.body)

    def _check(self, kind: FrameKind, size: int) -> None:
        if kind is not FrameKind.CONTROL:
            raise RemoteProtocolError("a bundle, where a message of the log's port is expected")
        if size - HEAD_BYTES > self.bytes_max:
            raise RemoteProtocolError(f"a frame of {size - HEAD_BYTES} bytes; at most {self.bytes_max}")

    def _decoded(self, body: memoryview) -> _T:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise RemoteProtocolError(f"not a frame: {error}") from error
