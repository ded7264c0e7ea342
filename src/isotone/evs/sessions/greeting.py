"""The first bytes on a stream: which version is spoken on it. They never change.

The client says the range of versions that it speaks, the daemon answers with the highest common one, or with 0 and its
own range. All that follows belongs to that version. See docs/protocols/session.md.
"""

from __future__ import annotations

from struct import Struct

from isotone.core.codec.wire import Buffer
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.versions import VersionRange, highest_common, version_range

CLIENT_MAGIC = b"ISOC"
SERVER_MAGIC = b"ISOD"
_GREETING = Struct("<4sBBH")  # magic, lowest and highest version of the client, zero
_ANSWER = Struct("<4sBBBB")  # magic, version or 0, lowest and highest version of the daemon, zero
GREETING_BYTES = _GREETING.size
assert _ANSWER.size == GREETING_BYTES


def pack_greeting(versions: VersionRange) -> bytes:
    """What a client writes first."""
    return _GREETING.pack(CLIENT_MAGIC, versions.low, versions.high, 0)


def is_greeting(data: Buffer) -> bool:
    """Whether a stream that begins so may be a client of ours: for listeners that serve several protocols."""
    head = bytes(data[: len(CLIENT_MAGIC)])
    return CLIENT_MAGIC.startswith(head)


def read_greeting(data: Buffer) -> VersionRange:
    """The client's range, from all of its greeting."""
    magic, low, high, zero = _GREETING.unpack(data)
    if magic != CLIENT_MAGIC or zero:
        raise RemoteProtocolError("a stream that does not begin as a client's does")
    return _range(low, high)


def pack_answer(mine: VersionRange, theirs: VersionRange) -> tuple[bytes, int | None]:
    """The daemon's answer, and the version that is spoken from here on, if there is one."""
    chosen = highest_common((mine, theirs))
    return _ANSWER.pack(SERVER_MAGIC, chosen or 0, mine.low, mine.high, 0), chosen


def read_answer(data: Buffer, mine: VersionRange) -> tuple[int | None, VersionRange]:
    """The version that the daemon chose, if any, and its range."""
    magic, chosen, low, high, zero = _ANSWER.unpack(data)
    if magic == b"HTTP":
        raise RemoteProtocolError("HTTP answers, as at a daemon's administration port; clients connect to another one")
    if magic != SERVER_MAGIC or zero:
        raise RemoteProtocolError("an answer that is no daemon's")
    theirs = _range(low, high)
    if chosen and (chosen not in mine or chosen not in theirs):
        raise RemoteProtocolError(f"the daemon chose version {chosen}; this client speaks {mine}")
    return chosen or None, theirs


def _range(low: int, high: int) -> VersionRange:
    try:
        return version_range(low, high)
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error)) from error
