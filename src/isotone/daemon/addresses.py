"""Addresses as texts and as the kernel wants them: ``host:port``, ``[v6]:port``, ``unix:/path``.

A name that is no number is looked up off the loop; until the answer is there nothing can be sent to it, as to a host
that is not up yet.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

from isotone.core.contract import Address
from isotone.core.errors import InputError

UNIX = "unix:"
BOOK_MAX = 16_384
LOOKUP_SECONDS = 30.0

SocketAddress = tuple[Any, ...]


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; the host of IPv6 stands in brackets."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise InputError(f"{address!r} is not an address: write host:port, [v6]:port or unix:/path")
    return host, int(port)


def join_address(host: str, port: int) -> Address:
    """The text of a host and a port."""
    return Address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def family_of(host: str) -> socket.AddressFamily:
    """Of a number; names are taken for IPv4 until they are looked up."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def is_number(host: str) -> bool:
    """Whether the host needs no lookup."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class AddressBook:
    """Texts to socket addresses of one family and back, each made once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, family: socket.AddressFamily) -> None:
        self.family = family
        self._loop = loop
        self._there: dict[Address, SocketAddress] = {}
        self._texts: dict[SocketAddress, Address] = {}
        self._asked: dict[Address, float] = {}  # names that are being looked up, or were in vain: when

    def text(self, where: SocketAddress) -> Address:
        """The text of where a packet came from."""
        found = self._texts.get(where)
        if found is None:
            if len(self._texts) >= BOOK_MAX:
                self._texts.clear()
            found = self._texts[where] = join_address(where[0].partition("%")[0], where[1])
        return found

    def where(self, address: Address) -> SocketAddress | None:
        """What the kernel takes; None while a name is not known, and for what is no address here."""
        found = self._there.get(address)
        if found is not None:
            return found
        try:
            host, port = split_address(address)
        except InputError:
            return None
        if not is_number(host):
            self._look_up(address, host, port)
            return None
        if family_of(host) is not self.family:
            return None
        return self._keep(address, (host, port) if self.family is socket.AF_INET else (host, port, 0, 0))

    def _keep(self, address: Address, where: SocketAddress) -> SocketAddress:
        if len(self._there) >= BOOK_MAX:
            self._there.clear()
        self._there[address] = where
        return where

    def _look_up(self, address: Address, host: str, port: int) -> None:
        now = self._loop.time()
        if now - self._asked.get(address, -LOOKUP_SECONDS) < LOOKUP_SECONDS:
            return
        self._asked = {each: at for each, at in self._asked.items() if now - at < LOOKUP_SECONDS}
        self._asked[address] = now
        self._loop.create_task(self._answer(address, host, port))

    async def _answer(self, address: Address, host: str, port: int) -> None:
        try:
            found = await self._loop.getaddrinfo(host, port, family=self.family, type=socket.SOCK_DGRAM)
        except OSError:
            return
        if found:
            self._keep(address, found[0][4])


Resolve = Callable[[Address], SocketAddress | None]
