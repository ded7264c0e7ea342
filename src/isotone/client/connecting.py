"""`connect`: from what a user writes to an open session."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from isotone.client.link import Endpoint
from isotone.client.session import Session
from isotone.client.settings import Settings
from isotone.core.addresses import full_addresses
from isotone.core.choice import Choice
from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.names import check_client_name
from isotone.evs.sessions.messages import CREDENTIAL_BYTES_MAX

SEED_BYTES = 32

Tls = bool | ssl.SSLContext | str | Path | None
Credential = bytes | str


class Connecting:
    """A session in the making: await it, or enter it with ``async with``, which closes it at the end."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: Session | None = None

    def __await__(self) -> Generator[None, None, Session]:
        return self._open().__await__()

    async def _open(self) -> Session:
        loop = asyncio.get_running_loop()
        seed: bytes = getattr(loop, "random_bytes", os.urandom)(SEED_BYTES)
        choice = Choice(seed.hex())
        name = self._endpoint.name or f"c{choice.derive('name').word() >> 28:09x}"
        session = Session(msgspec.structs.replace(self._endpoint, name=name), loop, choice)
        await session._open()
        return session

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    credential: Credential = b"",
    tls: Tls = None,
    settings: Settings | None = None,
) -> Connecting:
    """Open a session with a daemon, or with the first of several that is there.

    ``async with isotone.connect("localhost:4803", name="alice") as me:``, or ``me = await isotone.connect(…)`` and
    ``await me.close()``. Addresses are ``host:port``, ``host``, ``[::1]:4803`` or ``unix:/path``. ``tls`` is True for
    the certificates that the machine trusts, the path of those to trust, or an `ssl.SSLContext`.
    """
    if name is not None:
        check_client_name(name)
    secret = credential.encode() if isinstance(credential, str) else bytes(credential)
    if len(secret) > CREDENTIAL_BYTES_MAX:
        raise LocalProtocolError(f"a credential has at most {CREDENTIAL_BYTES_MAX} bytes")
    return Connecting(
        Endpoint(name or "", full_addresses(address), secret, tls_context(tls), settings if settings else Settings())
    )


def tls_context(tls: Tls) -> ssl.SSLContext | None:
    """What was asked for, as a context."""
    if tls is None or tls is False:
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    if tls is True:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(tls))
    except OSError as error:
        raise InputError(f"the certificates in {tls} cannot be used: {error}") from error
