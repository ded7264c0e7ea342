"""Isotone: group communication and replication, with one order for everyone.

What a program needs stands here and is loaded when it is first asked for::

    async with isotone.connect("localhost:4803", name="alice") as me:
        chat = await me.join("chat")
        await chat.send(b"hello", service=isotone.AGREED)
        async for event in chat:
            ...
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from isotone import isis as isis
    from isotone import testing as testing
    from isotone.client import Bundle as Bundle
    from isotone.client import ClientError as ClientError
    from isotone.client import Group as Group
    from isotone.client import Message as Message
    from isotone.client import Receipt as Receipt
    from isotone.client import Reconnected as Reconnected
    from isotone.client import SelfLeave as SelfLeave
    from isotone.client import Session as Session
    from isotone.client import Settings as Settings
    from isotone.client import Slow as Slow
    from isotone.client import Transitional as Transitional
    from isotone.client import Unconfirmed as Unconfirmed
    from isotone.client import View as View
    from isotone.client import ViewChanging as ViewChanging
    from isotone.client import connect as connect
    from isotone.core.errors import IsotoneError as IsotoneError
    from isotone.core.ordered_log import Maybe as Maybe
    from isotone.core.services import Service as Service
    from isotone.daemon.embedded import node as node
    from isotone.host.replica_objects import connect_replica as connect_replica
    from isotone.host.replica_objects import replica as replica
    from isotone.replicated.class_state import command as command
    from isotone.replicated.database.procedures import Procedures as Procedures

    UNRELIABLE = Service.UNRELIABLE
    RELIABLE = Service.RELIABLE
    FIFO = Service.FIFO
    CAUSAL = Service.CAUSAL
    AGREED = Service.AGREED
    SAFE = Service.SAFE

_CLIENT = (
    *("connect", "Session", "Group", "Settings", "Message", "Bundle", "View", "Transitional", "SelfLeave", "Slow"),
    *("Receipt", "Reconnected", "ViewChanging", "ClientError", "Unconfirmed"),
)
_SERVICES = ("UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE")
_WHERE = dict.fromkeys(_CLIENT, "isotone.client") | {
    "IsotoneError": "isotone.core.errors",
    "Service": "isotone.core.services",
    "Maybe": "isotone.core.ordered_log",
    "node": "isotone.daemon.embedded",
    "Procedures": "isotone.replicated.database.procedures",
    "command": "isotone.replicated.class_state",
    "connect_replica": "isotone.host.replica_objects",
    "replica": "isotone.host.replica_objects",
}
_REPLICATED = ("Maybe", "Procedures", "command", "connect_replica", "replica")
_MODULES = ("client", "isis", "testing")

__all__ = ["__version__", *_CLIENT, *_SERVICES, *_MODULES, "IsotoneError", "Service", "node", *_REPLICATED]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    """What is asked for is imported then, once."""
    value: object
    if name in _SERVICES:
        value = __getattr__("Service")[name]  # type: ignore[index]
    elif name in _MODULES:
        value = import_module(f"isotone.{name}")
    elif name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
    else:
        raise AttributeError(f"module 'isotone' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
