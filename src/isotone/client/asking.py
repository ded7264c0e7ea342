"""What a program may give: groups, bodies, services."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId
from isotone.core.services import Service


def as_groups(given: str | ClientId | Sequence[str | ClientId]) -> tuple[str, ...]:
    """One group or several, sorted and each once; a client stands for its private group."""
    if isinstance(given, str):
        return (given,)
    several = (given,) if isinstance(given, ClientId) else tuple(given)
    return tuple(sorted({each.private_group if isinstance(each, ClientId) else each for each in several}))


def as_bytes(body: bytes | bytearray | memoryview) -> bytes:
    """The body, as it is now."""
    if isinstance(body, bytes):
        return body
    if not isinstance(body, bytearray | memoryview):
        raise LocalProtocolError(f"a message is bytes, not {type(body).__name__}; encode it")
    return bytes(body)


def sending_service(service: Service | None, *, confirm: bool) -> Service:
    """AGREED unless something else is asked for; what is confirmed is SAFE."""
    if service is None:
        return Service.SAFE if confirm else Service.AGREED
    if confirm and service != Service.SAFE:
        raise LocalProtocolError(f"only SAFE messages can be confirmed, not {Service(service).name}")
    return Service(service)
