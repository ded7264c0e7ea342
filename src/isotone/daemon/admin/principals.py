"""Who may administrate: a bearer credential stands for a principal, and every act goes to the audit log.

Without credentials the port is open. Then it takes only requests that a browser would not send on behalf of a foreign
page: no ``Origin``, and a ``Host`` that is an address of this machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from isotone.core.addresses import is_ip, is_loopback, split_address
from isotone.core.errors import InputError
from isotone.daemon.admin.http import Request
from isotone.evs.sessions.admission import Admitted, Denied

Judge = Callable[[bytes, str], Admitted | Denied]
"""From a bearer credential (empty without one) and the act to its principal."""

log = logging.getLogger("isotone.audit")


class Audit(Protocol):
    """Where administrative acts are written down."""

    def record(self, principal: str, act: str, outcome: str = "done", peer: str = "", **details: object) -> object:
        """One act, done or refused."""
        ...


class LoggedAudit:
    """The audit log as lines of the ordinary log, where the settings name no file."""

    def record(self, principal: str, act: str, outcome: str = "done", peer: str = "", **details: object) -> None:
        """One line."""
        fields = {"principal": principal, "act": act, "outcome": outcome, "peer": peer, **details}
        log.warning("administrative act", extra={"fields": fields})


def open_judge(credential: bytes, act: str) -> Admitted | Denied:
    """Everybody may do everything: for one machine and development alone."""
    del credential, act
    return Admitted("anybody")


def credential_of(request: Request) -> bytes:
    """What stands behind ``Authorization: Bearer``; empty without it."""
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    return credential.strip().encode() if scheme.lower() == "bearer" else b""


def why_foreign(request: Request) -> str:
    """Why a request may come from a page in a browser; empty when it does not."""
    if "origin" in request.headers:
        return "requests of web pages are refused"
    host = request.headers.get("host", "")
    with suppress(InputError):
        name, _ = split_address(host, default_port=0)
        if name == "localhost" or is_ip(name):
            return ""
    return f"{host!r} is not an address of this machine"


def check_open(host: str) -> None:
    """An open port must not be reachable from elsewhere."""
    if not is_loopback(host):
        raise InputError(
            f"the administration port is open and would listen on {host}: set credentials, or a loopback \
address"
        )
