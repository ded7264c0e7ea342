"""The sockets that a daemon is reached at: one port for UDP and TCP, its multicast group, and listeners for clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from isotone.core.addresses import is_any, parse_address, split_address
from isotone.core.contract import Address
from isotone.core.errors import InputError, MachineError
from isotone.daemon.node_settings import Listener, NodeSettings
from isotone.daemon.sockets import AddressInUse, bind_datagrams, join_group
from isotone.daemon.streams import bind_tcp, bind_unix

PORT_TRIES = 32
MAIN, CLIENTS, SPREAD_CLIENTS, TLS_CLIENTS = "main", "clients", "spread", "tls"
OPEN_TO_ALL = 0o666
"""Programs of all users of the machine find Spread's socket, as they did Spread's own."""


@dataclass
class Places:
    """All of them, bound and not watched yet."""

    datagrams: socket.socket
    main: socket.socket
    address: Address
    group: socket.socket | None = None
    """Hears the multicast group, if there is one."""
    doors: list[tuple[socket.socket, Address, str]] = field(default_factory=list)

    def close(self) -> None:
        """Give them back."""
        for sock in (self.datagrams, self.main, self.group, *(door[0] for door in self.doors)):
            if sock is not None:
                sock.close()


def bind_places(settings: NodeSettings) -> Places:
    """Bind everything, or nothing. What does not work is told with the settings that say so."""
    with settings_named("daemon.port, daemon.listen and daemon.address"):
        main, datagrams, address = _bind_pair(settings)
    places = Places(datagrams, main, address)
    try:
        if settings.multicast:
            with settings_named("site.multicast and daemon.interface"):
                places.group = join_group(datagrams, settings.multicast, settings.interface or settings.host)
        for listener in settings.listeners:
            with settings_named(listener.setting):
                sock, where = bind_listener(listener)
            places.doors.append((sock, where, _door(listener)))
    except Exception:
        places.close()
        raise
    return places


@contextmanager
def settings_named(setting: str) -> Iterator[None]:
    """What goes wrong inside is told with where the settings say so."""
    try:
        yield
    except (InputError, MachineError) as error:
        if not setting:
            raise
        raise type(error)(f"{error}; see {setting} in the settings") from error


def bind_listener(listener: Listener) -> tuple[socket.socket, Address]:
    """A listener for clients."""
    place = parse_address(listener.address, port_min=0)
    if place.path:
        return bind_unix(Path(place.path), OPEN_TO_ALL if listener.spread else None)
    return bind_tcp(place.host, place.port)


def _door(listener: Listener) -> str:
    if listener.spread:
        return SPREAD_CLIENTS
    return TLS_CLIENTS if listener.tls else CLIENTS


def _bind_pair(settings: NodeSettings) -> tuple[socket.socket, socket.socket, Address]:
    """The same number for TCP and UDP; one that the kernel chose for TCP may be in use for UDP."""
    tries = 1 if settings.port else PORT_TRIES
    for left in range(tries, 0, -1):
        main, address = bind_tcp(settings.host, settings.port)
        port = main.getsockname()[1]
        try:
            datagrams = bind_datagrams(
                settings.host,
                port,
                receive_bytes=settings.receive_buffer_bytes,
                send_bytes=settings.send_buffer_bytes,
                shares_port=_shares_port(settings, port),
            )
        except MachineError as error:
            main.close()
            if left == 1 or not isinstance(error, AddressInUse):
                raise
            continue
        return main, datagrams, address
    raise AssertionError("unreachable")


def _shares_port(settings: NodeSettings, port: int) -> bool:
    """Whether the daemon listens at all addresses, the one of the multicast group among them."""
    return bool(settings.multicast) and is_any(settings.host) and split_address(settings.multicast)[1] == port
