"""What another server said, decoded and checked by itself: only sense leaves here, and nonsense names its sender.

Types and lengths are the codec's affair. What is checked here is what every handler rests on and no type says: that a
configuration has servers and a rule that can be read, that lines stand in their order, that ranges are ranges. Whether
what is said is true is another matter, and not checked: servers are believed.

Implements: [COReL 5.5], [COReL 5.6]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.corel.configuration import Configuration, decode_rule
from isotone.corel.message import Message
from isotone.corel.versions import unmarked
from isotone.corel.wire import Fetched, FetchedHead, Priority, Regular, Retransmitted, State

OPEN_MAX = 1 << 26
"""So many messages that are not green may a state name."""


def decoded(codec: ControlCodec[ControlMessage], server: str, body: bytes) -> ControlMessage:
    """What this server said; raises `RemoteProtocolError` with its name."""
    try:
        message = codec.decode(unmarked(body))
        for configuration in _configurations(message):
            _check_configuration(configuration)
        if isinstance(message, State):
            _check_state(message)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{server} says nonsense: {error}") from error
    return message


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """How everything begins that is said to the group; whatever follows is passed over."""

    tag: int
    view: str


_HEADS: msgspec.msgpack.Decoder[_Head] = msgspec.msgpack.Decoder(_Head)


def named_view(body: bytes) -> str:
    """The view that it was said in, also of what makes no sense; empty if not even that can be read."""
    try:
        return _HEADS.decode(unmarked(body)).view
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return ""


def _configurations(message: ControlMessage) -> Iterator[Configuration]:
    match message:
        case Regular(message=each):
            yield from _changes((each,))
        case Priority(messages=messages) | Retransmitted(messages=messages):
            yield from _changes(messages)
        case Fetched(messages=messages, forced=forced):
            yield from _changes(messages)
            yield from () if forced is None else (forced,)
        case FetchedHead(head=head, forced=forced):
            yield head.configuration
            yield from () if forced is None else (forced,)
        case State(configuration=configuration) if configuration is not None:
            yield configuration


def _changes(messages: tuple[Message, ...]) -> Iterator[Configuration]:
    return (message.change for message in messages if message.change is not None)


def _check_configuration(configuration: Configuration) -> None:
    servers = configuration.servers
    if not servers or tuple(sorted(set(servers))) != servers:
        raise RemoteProtocolError(f"the servers of configuration {configuration.number} are no sorted set")
    try:
        decode_rule(configuration.rule)
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error)) from error


def _check_state(state: State) -> None:
    if not state.forgotten <= state.green <= state.yellow:
        raise RemoteProtocolError(f"forgotten {state.forgotten}, green {state.green}, yellow {state.yellow}")
    if len({each.origin for each in state.ranges}) < len(state.ranges):
        raise RemoteProtocolError("two ranges of one origin")
    if any(not 1 <= each.first <= each.last for each in state.ranges):
        raise RemoteProtocolError("a range that is none")
    if sum(each.last - each.first + 1 for each in state.ranges) > OPEN_MAX:
        raise RemoteProtocolError(f"more than {OPEN_MAX} messages that are not green")
