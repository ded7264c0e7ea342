"""The same client over a socket, for tests with real daemons: every wait has an end."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from tests.spread_client.protocol import Received, SpreadClient


class SocketClient:
    """A connection to ``host:port`` or ``unix:/path``; use as a context manager."""

    def __init__(self, address: str, client: SpreadClient, within_s: float = 10.0) -> None:
        self.client = client
        self.is_ended = False
        self._within_s = within_s
        self._seen = 0
        if address.startswith("unix:"):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.connect(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            self._socket = socket.create_connection((host.strip("[]"), int(port)), within_s)

    def __enter__(self) -> SocketClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def connect(self) -> SocketClient:
        """The handshake, until it is accepted or rejected."""
        self.write(self.client.hello())
        self.until(lambda: self.client.state in {"open", "rejected"})
        return self

    def write(self, data: bytes) -> None:
        """All of it."""
        self._socket.sendall(data)

    def next(self) -> Received:
        """The next frame."""
        self.until(lambda: len(self.client.received) > self._seen)
        self._seen += 1
        return self.client.received[self._seen - 1]

    def next_that(self, wanted: Callable[[Received], bool]) -> Received:
        """The next frame of which this holds; others are passed over."""
        while True:
            received = self.next()
            if wanted(received):
                return received

    def until(self, reached: Callable[[], bool]) -> None:
        """Read until this holds."""
        deadline = time.monotonic() + self._within_s
        while not reached():
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                self.is_ended = True
                raise AssertionError(f"{self.client.user}: the daemon ended the connection")
            answer = self.client.feed(data)
            if answer:
                self.write(answer)

    def until_ended(self) -> None:
        """Read to the end of the stream."""
        try:
            self.until(lambda: False)
        except AssertionError:
            if not self.is_ended:
                raise
