"""Whom a packet claims to be of: messages of the membership and greetings of streams name their sender.

The Guard compares the claim with the key under which the packet came, so that no daemon speaks in another's name.
Packets of rings and hop links carry places and numbers instead of names; for these the key proves only that a member
sent them.
"""

from __future__ import annotations

import msgspec

from isotone.core.ids import DaemonId
from isotone.evs.membership.messages import ENVELOPE, MARK

_array = msgspec.msgpack.Decoder(list[msgspec.Raw])
_name = msgspec.msgpack.Decoder(str)
_number = msgspec.msgpack.Decoder(int)


def claimed_daemon(packet: bytes | memoryview) -> DaemonId | None:
    """The sender that a message of the membership names; none of other packets, nor of malformed ones."""
    if not packet or packet[0] != MARK:
        return None
    try:
        card = _array.decode(_array.decode(packet[ENVELOPE.size :])[1])
        return DaemonId(_name.decode(card[0]), _number.decode(card[1]))
    except (msgspec.MsgspecError, IndexError):
        return None
