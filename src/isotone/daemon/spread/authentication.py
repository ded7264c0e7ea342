"""How Spread's clients prove who they are: the methods NULL, IP and PWORD of Spread's handshake.

Implements: Spread's client protocol, authentication.
Deviations: D-ip IPv6 and Unix peers pass by IP if the settings list them; D-password whether a password is right says a
callable, so that it need not be eight characters under an old cipher in a file; it still crosses the wire in the clear.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from isotone.core.addresses import host_of
from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.daemon.spread.constants import CHOICE_BYTES, METHOD_SLOT_BYTES, Code
from isotone.daemon.spread.settings import GatewaySettings

NULL, IP, PASSWORD = "NULL", "IP", "PWORD"
METHODS = (NULL, IP, PASSWORD)
UNIX = "unix"

CheckPassword = Callable[[str, str], bool]
"""From a user and a password to whether it is right."""


class Rejected(Exception):
    """The client is turned away with this byte."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Authentication:
    """The methods of one daemon."""

    def __init__(self, settings: GatewaySettings, check_password: CheckPassword | None = None) -> None:
        for method in (*settings.methods, *settings.required):
            if method not in METHODS:
                raise InputError(
                    f"no method {method!r} to authenticate Spread's clients; there are {', '.join(METHODS)}"
                )
            if method == PASSWORD and check_password is None:
                raise InputError("the method PWORD needs passwords to compare with")
        self._offered = settings.methods
        self._required = settings.required
        self._check_password = check_password
        self._networks = Networks(settings.networks)

    @property
    def offer(self) -> bytes:
        """The list of methods as it is written."""
        text = "".join(f"{method} " for method in self._offered).encode()
        return bytes((len(text),)) + text

    @property
    def is_open(self) -> bool:
        """Whether there is any way in."""
        return bool(self._offered)

    def chosen(self, choice: bytes) -> list[str]:
        """The methods to run for a client that chose so, in their order."""
        named = []
        for place in range(0, CHOICE_BYTES, METHOD_SLOT_BYTES):
            name = choice[place : place + METHOD_SLOT_BYTES].partition(b"\0")[0].decode("latin-1")
            if not name:
                break
            if name not in self._offered:
                raise Rejected(Code.AUTHENTICATION, f"the method {name!r} is not offered")
            named.append(name)
        if not named:
            raise Rejected(Code.AUTHENTICATION, "no method was chosen")
        rest = [method for method in self._required if method not in named]
        if PASSWORD in rest:  # a client that did not choose it sends none
            raise Rejected(Code.AUTHENTICATION, "a password is required")
        return named + rest

    def without_choice(self) -> list[str]:
        """The methods to run for a client that is too old to choose."""
        first = [method for method in (IP, NULL) if method in self._offered][:1]
        if not first:
            raise Rejected(Code.AUTHENTICATION, "no method is offered to clients this old")
        return first + [method for method in self._required if method not in first]

    def run(self, method: str, peer: Address) -> None:
        """A method that asks the client nothing."""
        if method == IP and not self._networks.have(peer):
            raise Rejected(Code.AUTHENTICATION, "the address is in none of the networks")
        if method == PASSWORD:
            raise Rejected(Code.AUTHENTICATION, "a password is required")

    def is_right(self, user: bytes, password: bytes) -> bool:
        """Whether this is the user's password."""
        assert self._check_password is not None, "the method is offered only with it"
        texts = [each.partition(b"\0")[0].decode("latin-1") for each in (user, password)]
        return self._check_password(*texts)


class Networks:
    """Addresses from which clients may come."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._has_unix = any(text.startswith(UNIX) for text in texts)
        self._networks = [_network(text) for text in texts if not text.startswith(UNIX)]

    def have(self, peer: Address) -> bool:
        """Whether this peer is in one of them."""
        if peer.startswith(UNIX):
            return self._has_unix
        host = host_of(peer).partition("%")[0]
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network("127.0.0.0/8" if text.startswith("local") else text, strict=False)
    except ValueError as error:
        raise InputError(f"{text!r} is no network, no address and not unix: {error}") from error
