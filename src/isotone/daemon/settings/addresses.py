"""Hosts and ports as texts: ``host:port``, ``[::1]:4803`` and ``unix:/path``."""

from __future__ import annotations

from ipaddress import ip_address

from isotone.core.contract import Address
from isotone.core.errors import InputError

PORT_MAX = 65_535


def join_address(host: str, port: int) -> Address:
    """As one text; an IPv6 address gets its brackets."""
    return Address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def split_address(text: str, *, default_port: int | None = None) -> tuple[str, int]:
    """Host and port of a text, or what is wrong with it."""
    host, port = _parted(text)
    if not host or any(sign in host for sign in " /[]@"):
        raise InputError(f'"{text}" names no host')
    if not port and default_port is not None:
        return host, default_port
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= PORT_MAX):
        raise InputError(f'"{text}" has no port of 1 to {PORT_MAX}')
    return host, int(port)


def _parted(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") > 1:  # an IPv6 address alone
        return text, ""
    host, _, port = text.partition(":")
    return host, port


def is_loopback(host: str) -> bool:
    """Whether only this machine can come from or to it."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_any(host: str) -> bool:
    """Whether it stands for all addresses of a machine: fine to listen at, useless to tell others."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_ip(host: str) -> bool:
    """Whether it is an address and needs no resolving."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
