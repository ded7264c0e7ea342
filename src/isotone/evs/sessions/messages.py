"""Control messages of a session, and their codecs. What each is for stands on docs/protocols/session.md.

Texts and tables are bounded by the frames that carry them.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.core.names import PRIVATE_GROUP_MAX

CREDENTIAL_BYTES_MAX = 4096
NAME_MAX = PRIVATE_GROUP_MAX  # of any name on the wire, before the rules for names are asked
REASON_MAX = 500
KEY_BYTES = 16

Text = Annotated[str, msgspec.Meta(max_length=NAME_MAX)]
IdText = Annotated[str, msgspec.Meta(max_length=4 * NAME_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_MAX)]
Key = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


class EndCode(Enum):
    """Why a session ended, for programs; the reason beside it is for people."""

    ASKED = "asked"
    REFUSED = "refused"
    FULL = "full"
    SHUTDOWN = "shutdown"
    SLOW = "slow"
    MISSED = "missed"
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    SILENT = "silent"
    PROTOCOL = "protocol"
    REPLACED = "replaced"
    SERVICE = "service"
    UNREACHABLE = "unreachable"
    VERSION = "version"


# --- from the client -----------------------------------------------------------------------------------------------


class Hello(ControlMessage, frozen=True, tag=0x60):
    """Open a session under this private name. ``attempt`` is the same whenever the same client tries again."""

    name: Text
    credential: Annotated[bytes, msgspec.Meta(max_length=CREDENTIAL_BYTES_MAX)]
    attempt: Key


class Visit(Hello, frozen=True, tag=0x68):
    """The same for a session that ends with its stream: it is never parked, and nobody can resume it."""


class Resume(ControlMessage, frozen=True, tag=0x61):
    """Go on with a session; ``heard`` counts what the client heard in it."""

    client: IdText
    key: Key
    heard: Natural


class JoinAsked(ControlMessage, frozen=True, tag=0x62):
    """Become a member. A request: counted, and paid for with credit."""

    group: Text


class LeaveAsked(ControlMessage, frozen=True, tag=0x63):
    """Cease to be a member. A request."""

    group: Text


class PartAsked(ControlMessage, frozen=True, tag=0x64):
    """Close the session. The last request."""


class Heard(ControlMessage, frozen=True, tag=0x65):
    """So many indications came since the session began; the daemon need not keep them."""

    count: Natural


class CreditWanted(ControlMessage, frozen=True, tag=0x66):
    """The next request costs this much, which is more than the window."""

    cost: Natural


class ClientBeat(ControlMessage, frozen=True, tag=0x67):
    """The client lives; answered by `Granted`."""


# --- from the daemon -----------------------------------------------------------------------------------------------


class Welcome(ControlMessage, frozen=True, tag=0x6A):
    """The session is open, under this id; what is needed to resume it; the terms."""

    client: IdText
    key: Key
    credit: Natural
    window: Natural
    message_bytes_max: Natural
    acknowledge_bytes: Natural
    heartbeat_us: Natural
    silence_us: Natural
    resume_within_us: Natural


class Resumed(ControlMessage, frozen=True, tag=0x6B):
    """The session goes on: so many requests were taken; what was not heard follows."""

    taken: Natural
    credit: Natural


class Granted(ControlMessage, frozen=True, tag=0x6C):
    """So many requests were taken, and so many bytes of requests may be sent, both since the session began."""

    taken: Natural
    credit: Natural


class Farewell(ControlMessage, frozen=True, tag=0x6D):
    """There is no session, or no longer. The last frame of a stream."""

    code: EndCode
    reason: Reason


class HeldTold(ControlMessage, frozen=True, tag=0x6E):
    """Sends of this client wait for these clients, which do not read; for nobody any more where there are none."""

    readers: tuple[IdText, ...]


class ViewTold(ControlMessage, frozen=True, tag=0x70):
    """A view. Clients stand once each in a table, as place of the daemon, name and session; sets are places in it."""

    group: Text
    id: IdText
    daemons: tuple[IdText, ...]
    clients: tuple[tuple[Natural, Text, Natural], ...]
    members: tuple[Natural, ...]
    transitional: tuple[Natural, ...]
    cause: Text
    subject: int
    together: tuple[tuple[Natural, ...], ...]


class TransitionalTold(ControlMessage, frozen=True, tag=0x71):
    """The transitional signal of a group."""

    group: Text
    view: IdText


class SelfLeaveTold(ControlMessage, frozen=True, tag=0x72):
    """One's own leave took effect."""

    group: Text


class RefusedTold(ControlMessage, frozen=True, tag=0x73):
    """A request was refused."""

    request: Text
    reason: Reason
    group: Text = ""


class DroppedTold(ControlMessage, frozen=True, tag=0x74):
    """Messages from ``first`` on, as the client counts them, were not sent, and take no place in the session."""

    first: Natural
    count: Natural
    reason: Reason


class SlowTold(ControlMessage, frozen=True, tag=0x75):
    """The client reads too slowly: so much waits for it, and there is a bound."""

    held: Natural
    bound: Natural


Told = ViewTold | TransitionalTold | SelfLeaveTold | RefusedTold | DroppedTold | SlowTold

CLIENT_CONTROL_BYTES_MAX = CREDENTIAL_BYTES_MAX + 1024
SERVER_CONTROL_BYTES_MAX = 16 * 1024 * 1024
"""The view of a large group is the largest control message."""

client_codec: ControlCodec[ControlMessage] = ControlCodec(
    *(Hello, Visit, Resume, JoinAsked, LeaveAsked, PartAsked, Heard, CreditWanted, ClientBeat),
    bytes_max=CLIENT_CONTROL_BYTES_MAX,
)
server_codec: ControlCodec[ControlMessage] = ControlCodec(
    *(Welcome, Resumed, Granted, Farewell, HeldTold),
    *(ViewTold, TransitionalTold, SelfLeaveTold, RefusedTold, DroppedTold, SlowTold),
    bytes_max=SERVER_CONTROL_BYTES_MAX,
)


def shortened(reason: str) -> str:
    """A reason that fits on the wire."""
    return reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 1] + "…"
