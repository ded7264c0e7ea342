"""TLS between clients and daemons: what is accepted is what is current, and both ends check what they are shown."""

from __future__ import annotations

import ssl
from pathlib import Path

from isotone.core.errors import InputError

File = Path | str


def server_context(certificate: File, key: File, client_authority: File | None = None) -> ssl.SSLContext:
    """For the listener of a daemon. With an authority, who shows a certificate must show one that it signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate, key)
    if client_authority is not None:
        _trust(context, client_authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def renew(context: ssl.SSLContext, certificate: File, key: File) -> None:
    """Show what is in these files now, from the next handshake on; raises `InputError`, and changes nothing then."""
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    _load(context, certificate, key)


def client_context(
    authority: File | None = None, certificate: File | None = None, key: File | None = None
) -> ssl.SSLContext:
    """For a client: the authority that signed the daemon's certificate, the system's if none is given."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _trust(context, authority)
    if certificate is not None:
        _load(context, certificate, key if key is not None else certificate)
    return context


def _load(context: ssl.SSLContext, certificate: File, key: File) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"the certificate {certificate} with the key {key} cannot be used: {error}") from None


def _trust(context: ssl.SSLContext, authority: File) -> None:
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"the authority {authority} cannot be used: {error}") from None
