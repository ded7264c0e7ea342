"""What toolkits say to each other, in broadcasts of a group and in private letters.

Implements: [ISIS 3.7], [ISIS 5]. Deviations: none.
"""

from __future__ import annotations

from typing import Any

import msgspec

from isotone.core.errors import RemoteProtocolError

PART_BYTES_MAX = 16 * 1024
"""Of a state or of changes in one message; a broadcast has at most twice as much."""
Weight = tuple[int, int, int]


class Said(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=True):
    """Any message."""


# --- the member ----------------------------------------------------------------------------------------------------


class Bring(Said, frozen=True):
    """Nobody has the state any more: the sender brings a state of this weight, as of this view."""

    view: int
    weight: Weight


class Complete(Said, frozen=True):
    """This process has the state."""

    process: str


class PropertySet(Said, frozen=True):
    """A global property of the group."""

    key: str
    value: bytes


class CheckpointMark(Said, frozen=True):
    """Everybody saves the state of this instant."""


class Offer(Said, frozen=True):
    """The sender has the state as of this view, with this digest, in so many parts."""

    view: int
    digest: int
    parts: int


class Want(Said, frozen=True):
    """Send the parts from this one on; all of them are there if none is left."""

    view: int
    digest: int
    part: int


class Part(Said, frozen=True):
    """A part of the state."""

    view: int
    digest: int
    part: int
    data: bytes


# --- requests ------------------------------------------------------------------------------------------------------


class Request(Said, frozen=True):
    """An action asked of the group. The caller has all answers up to the number ``settled``."""

    id: str
    caller: str
    number: int
    settled: int
    body: bytes


class Staged(Said, frozen=True):
    """Changes of an action that is not done yet."""

    id: str
    place: int
    data: bytes


class Done(Said, frozen=True):
    """An action is done: its result, and its changes behind those that were staged.

    ``nested``: the actions that it asked of other groups, which may forget them now.
    """

    id: str
    result: bytes
    failed: bool
    staged: int
    data: bytes
    nested: dict[str, list[str]]  # by group


class Settle(Said, frozen=True):
    """Nobody asks for these nested actions any more."""

    ids: tuple[str, ...]


class Reply(Said, frozen=True):
    """The answer to a request."""

    id: str
    result: bytes
    failed: bool


# --- locks, data, boards --------------------------------------------------------------------------------------------


class WriteAsked(Said, frozen=True):
    """The owner wants the write lock; the sender is its steward."""

    item: str
    owner: str


class ReadTaken(Said, frozen=True):
    """The owner has a read lock at the sender, its steward."""

    item: str
    owner: str


class Freed(Said, frozen=True):
    """The owner has the lock no more, or does not want it any more."""

    item: str
    owner: str


class Granted(Said, frozen=True):
    """The sender has no reader of the item, and admits none before this writer, which is the ``turn``-th that asked."""

    item: str
    owner: str
    turn: int


class ItemPut(Said, frozen=True):
    """A new value of a replicated item."""

    item: str
    value: bytes


class Post(Said, frozen=True):
    """Something is posted on a board."""

    board: str
    level: str
    id: str
    value: bytes


class Removal(Said, frozen=True):
    """A post is taken from its board."""

    board: str
    level: str
    id: str


# --- the switchboard and programs -------------------------------------------------------------------------------------


class NameBound(Said, frozen=True):
    """A name stands for this group, unless it stands for another; for none: it is free again."""

    name: str
    target: str


class CopiesWanted(Said, frozen=True):
    """So many copies of a program are to run."""

    program: str
    copies: int


class CopyEnded(Said, frozen=True):
    """The sender's copy of a program ended by itself."""

    program: str


class CopyMoved(Said, frozen=True):
    """A copy is to run at the target; once it does (``ready``), no more at the source."""

    program: str
    source: str
    target: str
    ready: bool = False


Body = (
    Bring | Complete | PropertySet | CheckpointMark | Offer | Want | Part
    | Request | Staged | Done | Settle | Reply
    | WriteAsked | ReadTaken | Freed | Granted | ItemPut | Post | Removal
    | NameBound | CopiesWanted | CopyEnded | CopyMoved
)  # fmt: skip


class Letter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A private message; ``group``: whose business it is, empty if it is an answer to a caller."""

    group: str
    body: Body


_ENCODER = msgspec.msgpack.Encoder()
_BODY: msgspec.msgpack.Decoder[Body] = msgspec.msgpack.Decoder(Body)
_LETTER = msgspec.msgpack.Decoder(Letter)


def encode(value: Any) -> bytes:
    """As bytes."""
    return _ENCODER.encode(value)


def decode_body(data: bytes) -> Body:
    """Of a broadcast."""
    try:
        return _BODY.decode(data)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"a broadcast is no message of the toolkit: {error}") from error


def decode_letter(data: bytes) -> Letter:
    """Of a private message."""
    try:
        return _LETTER.decode(data)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"a private message is none of the toolkit: {error}") from error


def cut(data: bytes) -> tuple[bytes, ...]:
    """In parts; an empty one has one part."""
    return tuple(data[at : at + PART_BYTES_MAX] for at in range(0, max(1, len(data)), PART_BYTES_MAX))
