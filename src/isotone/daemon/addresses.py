"""Addresses as the kernel wants them.

A name that is no number is looked up off the loop; until the answer is there nothing can be sent to it, as to a host
that is not up yet.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from isotone.core.addresses import is_ip, join_address, split_address
from isotone.core.contract import Address
from isotone.core.errors import InputError

BOOK_MAX = 16_384
LOOKUP_SECONDS = 30.0

SocketAddress = tuple[Any, ...]


def family_of(host: str) -> socket.AddressFamily:
    """Of a number; names are taken for IPv4 until they are looked up."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


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
        if not is_ip(host):
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
