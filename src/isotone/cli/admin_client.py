"""The commands' side of a daemon's administration port: one request, one answer, errors as the commands tell them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import click

from isotone.cli.context import read_context
from isotone.core.addresses import join_address, split_address
from isotone.core.errors import InputError, MachineError

DEFAULT_PORT = 4810
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
ANSWER_BYTES_MAX = 64 * 1024 * 1024
ANSWER_WITHIN_S = 30.0
NOT_READY = 503

Command = TypeVar("Command", bound=Callable[..., Any])


class AdminClient:
    """One daemon's administration port."""

    def __init__(self, address: str, credential: str = "", *, within_s: float = ANSWER_WITHIN_S) -> None:
        self._place = split_address(address, default_port=DEFAULT_PORT)
        self.address: str = join_address(*self._place)
        self.credential = credential
        self._within_s = within_s

    def get(self, path: str, **query: str) -> Any:
        """What a question is answered."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """What an act is answered."""
        return self._ask("POST", path, json.dumps(body).encode())

    def is_ready(self) -> bool:
        """Whether it is there and ready."""
        try:
            return bool(self._ask("GET", "/ready", accept=(200,))["ready"])
        except MachineError:
            return False

    def name(self) -> str:
        """Which daemon it is; the credential is not sent."""
        try:
            return str(self._ask("GET", "/ready", accept=(200, NOT_READY), is_free=True)["daemon"]).partition("#")[0]
        except (KeyError, TypeError) as error:
            raise MachineError(f"{self.address} is not the administration port of a daemon") from error

    def _ask(
        self, method: str, path: str, body: bytes = b"", accept: tuple[int, ...] = (200, 202), *, is_free: bool = False
    ) -> Any:
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        if self.credential and not is_free:
            headers["Authorization"] = f"Bearer {self.credential}"
        status, text = self._exchange(method, path, body, headers)
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise MachineError(f"{self.address} is not the administration port of a daemon: {text[:60]!r}") from error
        if status in accept:
            return answer
        reason = answer.get("error") or answer.get("reason") or f"status {status}"
        if status == 401:
            raise InputError(f"{self.address} refuses: {reason}; --credential-file names a file with a credential")
        if status == 403:
            raise InputError(f"{self.address} refuses: {reason}")
        raise (InputError if 400 <= status < 500 else MachineError)(f"{self.address}: {reason}")

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._place, timeout=self._within_s)
        try:
            connection.request(method, path, body or None, dict(headers))
            response = connection.getresponse()
            return response.status, response.read(ANSWER_BYTES_MAX)
        except (http.client.BadStatusLine, http.client.UnknownProtocol, http.client.LineTooLong) as error:
            if isinstance(error, OSError):  # it closed the stream, and said nothing
                raise MachineError(f"{self.address} closed the connection without an answer") from error
            raise MachineError(
                f"no administration answers at {self.address}: what does is no HTTP, so this looks like a port for \
clients; give the administration port (admin_port, usually {DEFAULT_PORT})"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise MachineError(
                f"no daemon answers at {self.address}: {why}; is one running, and is this the address \
of its administration port?"
            ) from error
        finally:
            connection.close()


def admin_options(command: Command) -> Command:
    """The options of every command that asks a daemon; they become ``clients``."""
    for option in (
        click.option(
            "--credential-file",
            "credential_file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="ISOTONE_CREDENTIAL_FILE",
            help="A file with the credential of an administrator.",
        ),
        click.option(
            "--address",
            "addresses",
            multiple=True,
            metavar="HOST:PORT",
            envvar="ISOTONE_ADMIN",
            help="The administration port of a daemon; several times for several (default: those of `isotone up` "
            f"in this directory, else {DEFAULT_ADDRESS}).",
        ),
    ):
        command = option(command)
    return command


def clients_of(addresses: tuple[str, ...], credential_file: Path | None) -> list[AdminClient]:
    """One for each address; without any, for each daemon of the cluster that runs from this directory."""
    credential = read_credential(credential_file)
    return [AdminClient(address, credential) for address in addresses or _known_addresses()]


def _known_addresses() -> tuple[str, ...]:
    context = read_context()
    return tuple(each.admin for each in context.daemons) if context is not None else (DEFAULT_ADDRESS,)


def read_credential(path: Path | None) -> str:
    """The first line of the file; empty without one."""
    if path is None:
        return ""
    try:
        return (path.read_text(encoding="utf-8").splitlines() or [""])[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the credential in {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
