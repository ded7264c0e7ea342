"""What the transport must know of a unit's body, read from its first bytes: for which groups it is, whom it joins.

What cannot be read is for everybody; whether it is malformed, who delivers it will say. Implements: [Spread 3.4.2].
"""

from __future__ import annotations

from isotone.core.codec.bundle import HEAD
from isotone.core.errors import RemoteProtocolError
from isotone.evs.groups.messages import JOIN_TAG, JoinMessage, decode_message
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.units import Unit, UnitKind

EVERYBODY = Peeked()
_NAMES_SIZE = 6  # where the head of a bundle has the bytes of its names


def peek(unit: Unit) -> Peeked:
    """Groups of a bundle, joins of a message among groups; fragments of large messages are for everybody."""
    if unit.kind is UnitKind.BUNDLE:
        return _peek_bundle(memoryview(unit.body))
    if unit.kind is UnitKind.GROUPS and len(unit.body) > 1 and unit.body[1] == JOIN_TAG:
        return _peek_join(unit.body)
    return EVERYBODY


def _peek_bundle(body: memoryview) -> Peeked:
    if len(body) < HEAD.size:
        return EVERYBODY
    end = HEAD.size + int.from_bytes(body[_NAMES_SIZE : _NAMES_SIZE + 2], "little")
    groups = str(body[HEAD.size : end], "latin-1").split(" ")[2:]  # behind the client and its daemon
    return Peeked(tuple(groups)) if groups else EVERYBODY


def _peek_join(body: bytes | memoryview) -> Peeked:
    try:
        message = decode_message(body)
    except RemoteProtocolError:
        return EVERYBODY
    return Peeked(None, (message.group,)) if isinstance(message, JoinMessage) else EVERYBODY
