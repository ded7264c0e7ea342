"""The sockets that a daemon is reached at: one port for UDP and TCP, and more listeners for clients."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from isotone.core.addresses import parse_address
from isotone.core.contract import Address
from isotone.core.errors import MachineError
from isotone.daemon.node_settings import Listener, NodeSettings
from isotone.daemon.sockets import bind_datagrams
from isotone.daemon.streams import bind_tcp, bind_unix

PORT_TRIES = 32
MAIN, CLIENTS, SPREAD_CLIENTS, TLS_CLIENTS = "main", "clients", "spread", "tls"


@dataclass
class Places:
    """All of them, bound and not watched yet."""

    datagrams: socket.socket
    main: socket.socket
    address: Address
    doors: list[tuple[socket.socket, Address, str]] = field(default_factory=list)

    def close(self) -> None:
        """Give them back."""
        for sock in (self.datagrams, self.main, *(door[0] for door in self.doors)):
            sock.close()


def bind_places(settings: NodeSettings) -> Places:
    """Bind everything, or nothing."""
    main, datagrams, address = _bind_pair(settings)
    places = Places(datagrams, main, address)
    try:
        for listener in settings.listeners:
            sock, where = bind_listener(listener.address)
            places.doors.append((sock, where, _door(listener)))
    except Exception:
        places.close()
        raise
    return places


def bind_listener(address: Address) -> tuple[socket.socket, Address]:
    """A listener for clients."""
    place = parse_address(address, port_min=0)
    return bind_unix(Path(place.path)) if place.path else bind_tcp(place.host, place.port)


def _door(listener: Listener) -> str:
    if listener.spread:
        return SPREAD_CLIENTS
    return TLS_CLIENTS if listener.tls else CLIENTS


def _bind_pair(settings: NodeSettings) -> tuple[socket.socket, socket.socket, Address]:
    """The same number for TCP and UDP; one that the kernel chose for TCP may be in use for UDP."""
    tries = 1 if settings.port else PORT_TRIES
    for left in range(tries, 0, -1):
        main, address = bind_tcp(settings.host, settings.port)
        try:
            datagrams = bind_datagrams(
                settings.host,
                main.getsockname()[1],
                receive_bytes=settings.receive_buffer_bytes,
                send_bytes=settings.send_buffer_bytes,
            )
        except MachineError:
            main.close()
            if left == 1:
                raise
            continue
        return main, datagrams, address
    raise AssertionError("unreachable")
