"""What the commands say about an administration port that does not do what they want."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from isotone.cli.admin_client import AdminClient
from isotone.core.errors import InputError, IsotoneError, MachineError


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A port that answers one caller with this."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            stream, _ = server.accept()
            with stream:
                stream.recv(65_536)
                stream.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def refusal(answer: bytes) -> IsotoneError:
    with answering(answer) as address, pytest.raises(IsotoneError) as raised:
        AdminClient(address).get("/status")
    return raised.value


def http(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("rubbish", [b"\xfb\x00\x1b[2J\n", b"\x16\x03\x01" + bytes(70_000), b"SSH-2.0-x\r\n"])
def test_what_is_no_http_looks_like_a_port_for_clients(rubbish: bytes) -> None:
    error = refusal(rubbish)
    assert isinstance(error, MachineError)
    assert "no administration answers" in str(error) and "looks like a port for clients" in str(error)
    assert str(error).isascii() and str(error).isprintable()


def test_who_says_nothing_is_no_port_for_clients() -> None:
    assert str(refusal(b"")).endswith("closed the connection without an answer")


def test_only_who_showed_no_credential_is_told_how_to_show_one() -> None:
    unknown = refusal(http("401 Unauthorized", b'{"error": "who?"}'))
    assert isinstance(unknown, InputError) and "who?; --credential-file" in str(unknown)
    forbidden = refusal(http("403 Forbidden", b'{"error": "faults are not enabled"}'))
    assert isinstance(forbidden, InputError) and str(forbidden).endswith("refuses: faults are not enabled")
