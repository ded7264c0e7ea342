"""Where something listens, as a text: ``host:port``, ``[::1]:4803`` or ``unix:/path``. The only parser of addresses.

An IPv6 address with a port stands in brackets; without them nobody could tell where the port begins. Port 0 means "any
that is free" and is legal only for those who listen (``port_min=0``).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import msgspec

from isotone.core.contract import Address
from isotone.core.errors import InputError, LocalProtocolError

DEFAULT_PORT = 4803
PORT_MAX = 65_535
UNIX = "unix:"


class Place(msgspec.Struct, frozen=True):
    """A Unix socket, if there is a path, else host and port."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return UNIX + self.path if self.path else join_address(self.host, self.port)


def parse_address(text: str, *, default_port: int | None = None, port_min: int = 1) -> Place:
    """What the text says; raises `InputError` with what is wrong with it."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if not path or "\0" in path:
            raise _wrong(text, "a path stands behind unix:")
        return Place(path=path)
    return Place(*split_address(text, default_port=default_port, port_min=port_min))


def split_address(text: str, *, default_port: int | None = None, port_min: int = 1) -> tuple[str, int]:
    """Host and port; raises `InputError`, also for a Unix socket."""
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or not is_ip(host) or rest[:1] not in ("", ":"):
            raise _wrong(text, "an IPv6 address is written [::1]:4803")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
        if ":" in port:
            raise _wrong(text, "an IPv6 address is written [::1]:4803")
    if not host or any(sign.isspace() or sign in "/[]@\0" for sign in host):
        raise _wrong(text, "it names no host")
    if not colon and default_port is not None:
        return host, default_port
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and port_min <= int(port) <= PORT_MAX):
        raise _wrong(text, f"write host:port, with a port of {port_min} to {PORT_MAX}")
    return host, int(port)


def join_address(host: str, port: int) -> Address:
    """As one text; an IPv6 address gets its brackets."""
    return Address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def full_addresses(given: str | Sequence[str]) -> tuple[Address, ...]:
    """One address of a daemon or several, as a program gives them, each with its port."""
    texts = [given] if isinstance(given, str) else list(given)
    if not texts:
        raise LocalProtocolError("at least one address of a daemon is needed")
    try:
        return tuple(Address(str(parse_address(text, default_port=DEFAULT_PORT))) for text in texts)
    except InputError as error:
        raise LocalProtocolError(str(error)) from None


def host_of(address: Address | str) -> str:
    """Where somebody comes from, without the port, which is another one each time; what is no address is itself."""
    try:
        return split_address(address, port_min=0)[0]
    except InputError:
        return str(address)


def is_loopback(host: str) -> bool:
    """Whether only this machine can come from or to it. Of names, only ``localhost``: others may lead anywhere."""
    return host == "localhost" or (is_ip(host) and ip_address(host).is_loopback)


def is_any(host: str) -> bool:
    """Whether it stands for all addresses of a machine: fine to listen at, useless to tell others."""
    return is_ip(host) and ip_address(host).is_unspecified


def is_ip(host: str) -> bool:
    """Whether it is an address and needs no look-up."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"{text!r} is no address: {why}")
