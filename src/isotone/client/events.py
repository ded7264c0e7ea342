"""What a program hears: messages, views, signals, and what its session says about itself.

A bundle stays what it is: messages are made from it one by one, when the program takes them, and copy their bytes only
when they are asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from isotone.core import boundary as b4
from isotone.core import bundles
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId, GroupViewId, MessageId, Stamp
from isotone.core.services import Service
from isotone.core.views import Cause

Transitional = b4.Transitional
SelfLeave = b4.SelfLeave

CALL = 0x0001
"""Flag of a bundle: each message begins with the number of a call; answers go to the sender's private group."""
ANSWER = 0x0002
"""Flag of a bundle: each message begins with the number of the call that it answers."""
NUMBER_BYTES = 8
SELF_DISCARD = 0x0040
"""Flag of a bundle: its sender does not want to hear it, as in Spread."""


class Replies(Protocol):
    """Whoever can answer calls: a session."""

    async def _reply(self, to: Message, body: bytes | memoryview, service: Service) -> None: ...


class Bundle:
    """Messages that were ordered as one: one stamp, one sender, one buffer."""

    __slots__ = ("bundle", "session", "stamp")

    def __init__(self, bundle: bundles.Bundle, stamp: Stamp, session: Replies) -> None:
        self.bundle = bundle
        self.stamp = stamp
        self.session = session

    @property
    def sender(self) -> ClientId:
        """Who sent it."""
        return self.bundle.sender

    @property
    def service(self) -> Service:
        """The service that its sender chose."""
        return self.bundle.service

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it was sent to."""
        return self.bundle.groups

    @property
    def count(self) -> int:
        """Messages in it; at least one."""
        return len(self.bundle.lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many bytes of the payload each message has."""
        return self.bundle.lengths

    @property
    def types(self) -> tuple[int, ...]:
        """The type of each message: a number that its sender gave it."""
        return self.bundle.types

    @property
    def payload(self) -> memoryview:
        """All messages, one behind the other."""
        return memoryview(self.bundle.payload)

    def bodies(self) -> list[memoryview]:
        """Each message as it was sent, without copying; those of calls with their numbers."""
        return self.bundle.bodies()

    def messages(self) -> Iterator[Message]:
        """Each message."""
        start = 0
        for place, length in enumerate(self.bundle.lengths):
            yield Message(self, place, start)
            start += length

    def rest(self, place: int, start: int) -> Bundle:
        """The bundle without the messages before this one."""
        whole = self.bundle
        left = msgspec.structs.replace(
            whole,
            first_sequence=whole.first_sequence + place,
            lengths=whole.lengths[place:],
            types=whole.types[place:],
            payload=memoryview(whole.payload)[start:],
        )
        return Bundle(left, self.stamp, self.session)

    def __repr__(self) -> str:
        return f"<{self.count} messages of {self.sender} to {', '.join(self.groups)} at {self.stamp}>"


class Message:
    """One message, as it was delivered."""

    __slots__ = ("_place", "_source", "_start")

    def __init__(self, source: Bundle, place: int, start: int) -> None:
        self._source = source
        self._place = place
        self._start = start

    @property
    def _whole(self) -> memoryview:
        return memoryview(self._source.bundle.payload)[self._start : self._start + self.length]

    @property
    def length(self) -> int:
        """How many bytes it had on its way."""
        return self._source.bundle.lengths[self._place]

    @property
    def data(self) -> memoryview:
        """The body as a view of the buffer in which it came, without a copy."""
        return self._whole[NUMBER_BYTES:] if self.call_number is not None else self._whole

    @property
    def body(self) -> bytes:
        """The body."""
        bundle, start = self._source.bundle, self._start
        if bundle.flags & (CALL | ANSWER):
            return bytes(self.data)
        return bytes(bundle.payload[start : start + bundle.lengths[self._place]])

    @property
    def sender(self) -> ClientId:
        """Who sent it; its daemon vouches for that."""
        return self._source.bundle.sender

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups that it was sent to."""
        return self._source.bundle.groups

    @property
    def service(self) -> Service:
        """The service that its sender chose."""
        return self._source.bundle.service

    @property
    def type(self) -> int:
        """The number that its sender gave it."""
        return self._source.bundle.types[self._place]

    @property
    def stamp(self) -> Stamp:
        """Its place in the order; messages of one bundle share it, and stand there by sequence."""
        return self._source.stamp

    @property
    def sequence(self) -> int:
        """Its number in the session of its sender."""
        return self._source.bundle.first_sequence + self._place

    @property
    def id(self) -> MessageId:
        """Which message this is, for all time."""
        return MessageId(self.sender, self.sequence)

    @property
    def call_number(self) -> int | None:
        """The number of the call that it is, or that it answers."""
        if not self._source.bundle.flags & (CALL | ANSWER) or self.length < NUMBER_BYTES:
            return None
        return int.from_bytes(self._whole[:NUMBER_BYTES], "little")

    @property
    def is_call(self) -> bool:
        """Whether its sender waits for an answer."""
        return bool(self._source.bundle.flags & CALL) and self.call_number is not None

    async def reply(self, body: bytes | memoryview, *, service: Service = Service.FIFO) -> None:
        """Answer a call; returns when our daemon has taken the answer."""
        self._check_call()
        await self._source.session._reply(self, body, service)

    def _check_call(self) -> None:
        if not self.is_call:
            raise LocalProtocolError("nobody waits for an answer to this message: it is no call")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.id, self.stamp) == (other.id, other.stamp)

    def __hash__(self) -> int:
        return hash((self.id, self.stamp))

    def __repr__(self) -> str:
        return f"<message {self.sequence} of {self.sender} to {', '.join(self.groups)}: {len(self.data)} bytes>"


class View(msgspec.Struct, frozen=True):
    """Who is in the group from here on. ``transitional`` came here together with us, from the same view."""

    group: str
    id: GroupViewId
    members: tuple[ClientId, ...]
    transitional: tuple[ClientId, ...]
    cause: Cause
    subject: ClientId | None = None
    together: tuple[tuple[ClientId, ...], ...] = ()

    def __str__(self) -> str:
        return f"view {self.id} of {self.group} ({self.cause.value}): {', '.join(map(str, self.members))}"


class Slow(msgspec.Struct, frozen=True):
    """The daemon warns: so many bytes wait for this client to read them, and at the bound something happens."""

    held_bytes: int
    bound_bytes: int


class ViewChanging(msgspec.Struct, frozen=True):
    """Another view of a view-synchronous group is about to come.

    What is sent before the next event is asked for goes in the present view, what is sent then in the next one.
    """

    group: str


class Interrupted(msgspec.Struct, frozen=True):
    """The stream to the daemon is gone; it is looked for. Nothing is lost yet."""

    reason: str


class Resumed(msgspec.Struct, frozen=True):
    """The session goes on, and nothing was lost or doubled."""


class Receipt(msgspec.Struct, frozen=True):
    """What a send returns: the name of the message, and its place in the order once that is confirmed."""

    id: MessageId
    """Which message it is, for all time: `Message.id` of those who hear it. Of several messages that of the last."""
    stamp: Stamp | None = None
    """Its place in the total order, when it was sent with ``confirm=True``; else None."""


class SentMessage(msgspec.Struct, frozen=True):
    """A message of ours of which we do not know whether anybody hears it. ``taken``: our daemon had it."""

    groups: tuple[str, ...]
    service: Service
    type: int
    body: bytes
    taken: bool


class Reconnected(msgspec.Struct, frozen=True):
    """The session ended and there is a new one: what happened in between was missed.

    ``unknown`` are messages that we sent to the group and did not hear. For a group its new view follows, or, where
    ``new_view`` is None, the end: the join was refused. Without a group, in `Session.events()`, it is about what was
    sent to groups that we are not in, also to those whose `leave` met the end of the session. ``code`` says why it
    ended: "slow" (too much waited for us to read it), "unreachable", "shutdown" …, and ``reason`` says it in words.
    """

    group: str
    old_view: View | None
    new_view: View | None
    unknown: tuple[SentMessage, ...]
    code: str = ""
    reason: str = ""


GroupEvent = Message | View | ViewChanging | Transitional | SelfLeave | Slow | Reconnected
BundleEvent = Bundle | View | ViewChanging | Transitional | SelfLeave | Slow | Reconnected
SessionEvent = Message | Slow | Interrupted | Resumed | Reconnected
