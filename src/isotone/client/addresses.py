"""Where daemons are, as a user writes it: ``host:port``, ``host``, ``[::1]:4803`` or ``unix:/path``."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.core.contract import Address
from isotone.core.errors import LocalProtocolError

DEFAULT_PORT = 4803
PORT_MAX = 65535
UNIX_MARK = "unix:"


class Place(msgspec.Struct, frozen=True):
    """A Unix socket, if there is a path, else host and port."""

    host: str = ""
    port: int = 0
    path: str = ""


def parse_address(text: str) -> Place:
    """What the text says, or what is wrong with it."""
    if text.startswith(UNIX_MARK):
        path = text.removeprefix(UNIX_MARK)
        if not path:
            raise _wrong(text, "a path stands behind unix:")
        return Place(path=path)
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise _wrong(text, "an IPv6 address is written [::1]:4803")
        return Place(_host(host, text), _port(rest[1:], text) if rest else DEFAULT_PORT)
    if text.count(":") > 1:
        raise _wrong(text, "an IPv6 address is written [::1]:4803")
    host, colon, port = text.partition(":")
    return Place(_host(host, text), _port(port, text) if colon else DEFAULT_PORT)


def normalised(given: str | Sequence[str]) -> tuple[Address, ...]:
    """One address or several, each checked, in full."""
    texts = [given] if isinstance(given, str) else list(given)
    if not texts:
        raise LocalProtocolError("at least one address of a daemon is needed")
    return tuple(Address(_text(parse_address(text))) for text in texts)


def _text(place: Place) -> str:
    if place.path:
        return UNIX_MARK + place.path
    return f"[{place.host}]:{place.port}" if ":" in place.host else f"{place.host}:{place.port}"


def _host(host: str, text: str) -> str:
    if not host or any(sign.isspace() for sign in host):
        raise _wrong(text, "there is no host")
    return host


def _port(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits) <= PORT_MAX:
        raise _wrong(text, f"a port is a number from 1 to {PORT_MAX}")
    return int(digits)


def _wrong(text: str, why: str) -> LocalProtocolError:
    return LocalProtocolError(f"{text!r} is no address: {why}")
