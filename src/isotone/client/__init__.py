"""The public client: `connect` to a daemon, `join` groups, `send`, hear. It speaks only the session protocol.

The blocking twin is `isotone.client.blocking`. See docs/protocols/session.md for what goes over the wire.

Implements: [Spread 3.2], the client library. Deviations: Ds1, Ds2 of docs/protocols/session.md.
"""

from isotone.client import blocking
from isotone.client.connecting import Connecting, connect
from isotone.client.errors import (
    ClientError,
    Closed,
    ConnectFailed,
    Disconnected,
    NoAnswer,
    NotAMember,
    NotSent,
    Overrun,
    Refused,
    Unconfirmed,
    UnknownFate,
)
from isotone.client.events import (
    Bundle,
    BundleEvent,
    GroupEvent,
    Interrupted,
    Message,
    Receipt,
    Reconnected,
    Resumed,
    SelfLeave,
    SentMessage,
    SessionEvent,
    Slow,
    Transitional,
    View,
    ViewChanging,
)
from isotone.client.group import Group
from isotone.client.session import Session
from isotone.client.settings import Settings

__all__ = [
    "Bundle",
    "BundleEvent",
    "ClientError",
    "Closed",
    "ConnectFailed",
    "Connecting",
    "Disconnected",
    "Group",
    "GroupEvent",
    "Interrupted",
    "Message",
    "NoAnswer",
    "NotAMember",
    "NotSent",
    "Overrun",
    "Receipt",
    "Reconnected",
    "Refused",
    "Resumed",
    "SelfLeave",
    "SentMessage",
    "Session",
    "SessionEvent",
    "Settings",
    "Slow",
    "Transitional",
    "Unconfirmed",
    "UnknownFate",
    "View",
    "ViewChanging",
    "blocking",
    "connect",
]
