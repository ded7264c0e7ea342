"""One stream of a client's session: opening, greeting, entering, open; bytes in, messages out."""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core import boundary as b4
from isotone.core.codec.control import ControlMessage
from isotone.core.codec.frame import FrameKind
from isotone.core.errors import RemoteProtocolError
from isotone.core.versions import VersionRange
from isotone.evs.sessions.frames import HEAD_BYTES, FrameReader
from isotone.evs.sessions.greeting import GREETING_BYTES, read_answer
from isotone.evs.sessions.indications import decode_message
from isotone.evs.sessions.messages import SERVER_CONTROL_BYTES_MAX, server_codec
from isotone.evs.sessions.settings import ClientSettings


class Stage(Enum):
    """How far a stream has come."""

    OPENING = "the stream does not open"
    GREETING = "the daemon does not answer the greeting"
    ENTERING = "the daemon does not open the session"
    OPEN = "open"


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The daemon chose this version, or none of ours; its own are these."""

    version: int | None
    theirs: VersionRange


class Hearing:
    """How many indications came since the session began, on all its streams, and whether to say so."""

    __slots__ = ("_bytes", "_told", "bytes_max", "count")

    def __init__(self) -> None:
        self.bytes_max = 0  # what need not be acknowledged at once, as the daemon says
        self.count = 0
        self._told = 0
        self._bytes = 0  # of those that were not acknowledged

    def hear(self, size: int) -> None:
        """One more."""
        self.count += 1
        self._bytes += size

    def is_due(self, writing: bool) -> bool:
        """Whether to acknowledge now: along with other things, or because there is much."""
        return self.count > self._told and (writing or self._bytes >= self.bytes_max)

    def told(self) -> int:
        """The daemon hears of all of them."""
        self._told, self._bytes = self.count, 0
        return self.count


class ClientStream:
    """The present stream of a session."""

    __slots__ = ("_greeting", "_reader", "_settings", "busy", "heard_at", "number", "stage", "until", "wrote")

    def __init__(self, number: int, settings: ClientSettings, until: int) -> None:
        self.number = number
        self.stage = Stage.OPENING
        self.until = until  # when it is given up, if it is not open by then
        self.busy = False  # a write is under way
        self.wrote = False  # since the last heartbeat
        self.heard_at = 0
        self._settings = settings
        self._greeting = bytearray()
        self._reader = FrameReader(self._check)

    def read(self, data: memoryview, place: int) -> tuple[Answered | ControlMessage | b4.Message | None, int, int]:
        """What comes next in the data, the place behind it, and its size; nothing when it is cut."""
        if self.stage is Stage.GREETING:
            more = GREETING_BYTES - len(self._greeting)
            self._greeting += data[place : place + more]
            behind = min(place + more, len(data))
            if len(self._greeting) < GREETING_BYTES:
                return None, behind, 0
            return Answered(*read_answer(self._greeting, self._settings.versions)), behind, GREETING_BYTES
        frame, behind = self._reader.next(data, place)
        if frame is None:
            return None, behind, 0
        if frame.kind is FrameKind.BUNDLE:
            if frame.flags:
                raise RemoteProtocolError("a message with a deadline")
            return decode_message(frame.body, self._settings.message_bytes_max), behind, frame.size
        return server_codec.decode(frame.body), behind, frame.size

    def _check(self, kind: FrameKind, size: int) -> None:
        bound = self._settings.frame_bytes_max if kind is FrameKind.BUNDLE else SERVER_CONTROL_BYTES_MAX
        if size > HEAD_BYTES + bound or self.stage not in (Stage.ENTERING, Stage.OPEN):
            raise RemoteProtocolError(f"a frame of {size} bytes; at most {bound}")
