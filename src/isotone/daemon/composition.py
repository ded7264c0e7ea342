"""What stands around the stack in one daemon: the hooks by which security and Spread's clients are put in."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from isotone.core.contract import Address, Automaton
from isotone.core.ids import ClientId, DaemonId
from isotone.daemon.node_settings import NodeSettings
from isotone.evs.sessions.admission import Admit, admit_all
from isotone.evs.sessions.handing import Permit, permit_all
from isotone.evs.stack import Stack, StackSettings


@dataclass(frozen=True)
class Composition:
    """What an automaton beside the stack is built from."""

    me: DaemonId
    identity: bytes
    address: Address
    stack: Stack
    next_id: Callable[[str], ClientId]
    name_in_use: Callable[[str], bool]
    random_bytes: Callable[[int], bytes] = os.urandom


Build = Callable[[Composition], Automaton]


@dataclass(frozen=True)
class Hooks:
    """What is no data: who may do what, and the automata beside the stack."""

    admit: Admit = admit_all
    permit: Permit = permit_all
    guard: Build | None = None
    spread: Build | None = None
    tls: ssl.SSLContext | None = None
    certified: Callable[[Address, dict[str, object]], object] | None = None
    """Hears the certificate of each client that shows one, before its session is judged."""
    gone: Callable[[Address], object] | None = None
    tls_refused: Callable[[str, str, Address], object] | None = None
    """Hears of each client that did not come through the handshake of TLS: the reason, what to say, and who."""
    refused: Callable[[], Mapping[str, int]] | None = None
    """How many clients and requests were refused, by reason."""


def prepared(settings: NodeSettings) -> StackSettings:
    """The stack as this shell runs it: without a multicast group the ring itself sends to each of its members."""
    stack = settings.stack
    if settings.multicast:
        return stack
    ring = msgspec.structs.replace(stack.membership.transport.ring, multicast=False)
    transport = msgspec.structs.replace(stack.membership.transport, ring=ring)
    return msgspec.structs.replace(stack, membership=msgspec.structs.replace(stack.membership, transport=transport))
