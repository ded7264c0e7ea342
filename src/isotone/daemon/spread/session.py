"""One session of a Spread client: what it asked and was not handed on yet, and what it was told and did not read yet.

These clients acknowledge nothing and know no credit. What they ask is read while the inbox has room; what they are told
is held until the system below took it. Consecutive messages to the same groups that wait together become one bundle.

Implements: Spread's client protocol, one connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

from isotone.core.bundles import BUNDLE_BYTES_MAX, MESSAGES_MAX, Bundle
from isotone.core.contract import Address
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId
from isotone.core.names import check_group_name
from isotone.daemon.spread.constants import (
    FRAME_OVERHEAD,
    KILL,
    NAME_MAX,
    PARCEL_OVERHEAD,
    VERSION_WITH_PATCH,
    VERSION_WITH_SETS,
)
from isotone.daemon.spread.frames import Frame, FrameReader, reject_frame, slot_names
from isotone.evs.sessions.backlog import Memory


class State(Enum):
    """The life of a session."""

    CONNECTING = "the group service was asked"
    OPEN = "frames pass in both directions"
    ENDING = "the client is gone; what it asked before is still handed on"


class Asked:
    """A request in the inbox; messages that may share a bundle are one."""

    __slots__ = ("cost", "data_bytes", "frames", "groups")

    def __init__(self, frame: Frame, groups: tuple[str, ...]) -> None:
        self.frames = [frame]
        self.cost = frame.head.size
        self.data_bytes = frame.head.data_bytes
        self.groups = groups  # of messages

    @property
    def held_bytes(self) -> int:
        """That it takes in the inbox."""
        return self.cost + FRAME_OVERHEAD * len(self.frames)

    def has_room_for(self, frame: Frame) -> bool:
        """Whether the frame is a message that belongs to the same bundle."""
        mine, head = self.frames[0], frame.head
        return (
            (head is mine.head or head.is_like(mine.head))
            and head.is_data
            and frame.slots == mine.slots
            and self.data_bytes + head.data_bytes <= BUNDLE_BYTES_MAX
            and len(self.frames) < MESSAGES_MAX
        )

    def add(self, frame: Frame) -> None:
        """One more message."""
        self.frames.append(frame)
        self.cost += frame.head.size
        self.data_bytes += frame.head.data_bytes

    def bundle(self, sender: ClientId, first_sequence: int) -> Bundle:
        """The messages as they travel."""
        frames, head = self.frames, self.frames[0].head
        return Bundle(
            sender=sender,
            first_sequence=first_sequence,
            service=head.service,
            groups=self.groups,
            lengths=tuple([frame.head.data_bytes for frame in frames]),
            types=tuple([frame.head.message_type for frame in frames]),
            payload=frames[0].data if len(frames) == 1 else b"".join([frame.data for frame in frames]),
            flags=head.flags,
        )

    def rejections(self, originator: str) -> list[bytes]:
        """Frames that say that it was not permitted."""
        return [reject_frame(frame.head, frame.slots, frame.data, originator) for frame in self.frames]


def _addressed(slots: bytes, full_name: Callable[[str], str]) -> tuple[str, ...]:
    """The groups that may have members, in their order, each once."""
    found: dict[str, None] = {}
    for name in slot_names(slots):
        if len(name) > NAME_MAX:
            continue
        try:
            found[check_group_name(full_name(name))] = None
        except LocalProtocolError:
            continue
    return tuple(found)


class Parcel:
    """Frames for any number of clients."""

    __slots__ = ("data", "holders", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data) + PARCEL_OVERHEAD
        self.holders = 0


class Outbox:
    """What a client was told, until the system below took it."""

    __slots__ = ("_memory", "_waiting", "_written", "held_bytes")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._waiting: deque[Parcel] = deque()
        self._written: list[Parcel] = []
        self.held_bytes = 0

    @property
    def is_single(self) -> bool:
        """Whether there is but one parcel, of whatever size."""
        return len(self._waiting) + len(self._written) == 1

    def push(self, parcel: Parcel) -> None:
        """One more for this client."""
        if not parcel.holders:
            self._memory.held_bytes += parcel.size
        parcel.holders += 1
        self.held_bytes += parcel.size
        self._waiting.append(parcel)

    def write(self, bytes_max: int) -> list[bytes | memoryview]:
        """The next write: parcels until it reaches this size."""
        out, size = list[bytes | memoryview](), 0
        while self._waiting and size < bytes_max:
            parcel = self._waiting.popleft()
            self._written.append(parcel)
            out.append(parcel.data)
            size += len(parcel.data)
        return out

    def taken(self) -> None:
        """The system below took what was written."""
        for parcel in self._written:
            self._release(parcel)
        self._written.clear()

    def clear(self) -> None:
        """The client is told nothing any more."""
        self.taken()
        for parcel in self._waiting:
            self._release(parcel)
        self._waiting.clear()

    def _release(self, parcel: Parcel) -> None:
        parcel.holders -= 1
        self.held_bytes -= parcel.size
        if not parcel.holders:
            self._memory.held_bytes -= parcel.size


class SpreadSession:
    """One session."""

    def __init__(
        self,
        client: ClientId,
        stream: int,
        peer: Address,
        *,
        version: int,
        wants_membership: bool,
        memory: Memory,
        full_name: Callable[[str], str],
    ) -> None:
        self.client = client
        self.stream: int | None = stream
        self.peer = peer
        self.version = version
        self.wants_membership = wants_membership
        self.principal = f"spread/{client.name}"
        self.state = State.CONNECTING
        self.early = b""  # what came before the session was open
        self.inbox: deque[Asked] = deque()
        self.inbox_bytes = 0
        self.is_paused = False  # the stream is not read
        self.sequence = 0  # of the last message that was handed on
        self.wanted: dict[str, Asked | None] = {}  # groups that it is in, or asked to be in: then with what it asked
        self.leaving: set[str] = set()  # groups that it asked to leave and did not leave yet; only looked up
        self.groups: dict[str, None] = {}  # groups of which it was told a view
        self.outbox = Outbox(memory)
        self.busy = False  # a write is under way
        self.warned = False
        self.blocks = False  # senders to its groups are held
        self._reader = FrameReader(client.private_group)
        self._full_name = full_name
        self._last_slots = b""  # of the last message: the next is often to the same groups
        self._last_groups: tuple[str, ...] = ()

    @property
    def with_sets(self) -> bool:
        """Whether the client's library knows more than one set in a view."""
        return self.version >= VERSION_WITH_SETS

    def refused_join(self, group: str) -> Asked | None:
        """A join was refused. It is as if it had not been asked."""
        asked = self.wanted.get(group)
        if asked is not None:
            del self.wanted[group]
        return asked

    def acceptance(self, version: tuple[int, int, int]) -> bytes:
        """The last answer of the handshake."""
        announced = version if self.version >= VERSION_WITH_PATCH else version[:2]
        name = self.client.private_group.encode("ascii")
        return bytes((1, *announced, len(name))) + name

    def read(self, data: bytes | memoryview) -> tuple[int, bool]:
        """Take frames into the inbox; how many, and whether the last one says farewell. Raises at a wrong one."""
        count = 0
        for frame in self._reader.read(data):
            count += 1
            if frame.head.type & KILL:
                return count, True
            self._take(frame)
        return count, False

    def _take(self, frame: Frame) -> None:
        self.inbox_bytes += frame.head.size + FRAME_OVERHEAD
        last = self.inbox[-1] if self.inbox else None
        if last is not None and last.has_room_for(frame):
            last.add(frame)
        else:
            self.inbox.append(Asked(frame, self._groups_of(frame)))

    def _groups_of(self, frame: Frame) -> tuple[str, ...]:
        if not frame.head.is_data:
            return ()
        if frame.slots != self._last_slots:
            self._last_slots, self._last_groups = frame.slots, _addressed(frame.slots, self._full_name)
        return self._last_groups
