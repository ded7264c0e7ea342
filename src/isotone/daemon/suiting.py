"""Settings that depend on the machine: what its sockets can carry and hold."""

from __future__ import annotations

import socket

import msgspec

from isotone.daemon.sockets import has_large_buffer, is_loopback
from isotone.evs.links.ring import RingSettings
from isotone.evs.stack import StackSettings

SUITED = ("body_bytes", "personal_window", "global_window", "unsettled_max")


def suited(settings: StackSettings, sock: socket.socket) -> StackSettings:
    """The ring as its socket allows: large packets on one machine, large windows where the kernel has room for them.

    What somebody chose otherwise than by default stays.
    """
    transport = settings.membership.transport
    ring, usual = transport.ring, RingSettings()
    chosen = any(getattr(ring, name) != getattr(usual, name) for name in SUITED)
    if chosen or not has_large_buffer(sock):
        return settings
    ring = ring.on_one_machine() if is_loopback(sock) else ring.with_large_buffers()
    transport = msgspec.structs.replace(transport, ring=ring)
    membership = msgspec.structs.replace(settings.membership, transport=transport)
    return msgspec.structs.replace(settings, membership=membership)
