"""Words for the service manager: one datagram each to the socket that it names in the environment.

Without ``NOTIFY_SOCKET`` nothing is said. Errors are ignored: a daemon that cannot talk to its manager still serves.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping


class ServiceManager:
    """``environment`` is read once."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_us = _watchdog_us(environment)
        self._task: asyncio.Task[None] | None = None

    def tell(self, *lines: str) -> None:
        """Say these."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.connect(self._address)
                sock.send("\n".join(lines).encode())
        except OSError:
            return

    def ready(self, status: str) -> None:
        """The daemon serves."""
        self.tell("READY=1", f"STATUS={status}")

    def reloading(self, at_us: int) -> None:
        """The settings are being read; `ready` ends it."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={at_us}")

    def stopping(self, status: str) -> None:
        """The daemon stops."""
        self.tell("STOPPING=1", f"STATUS={status}")

    def watch(self, is_well: Callable[[], bool]) -> None:
        """Say from now on that the loop goes round, as often as the manager wants."""
        if self._address and self._watchdog_us and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_saying(is_well))

    def end_watch(self) -> None:
        """No more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _keep_saying(self, is_well: Callable[[], bool]) -> None:
        while True:
            if is_well():
                self.tell("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_us / 2e6)


def _watchdog_us(environment: Mapping[str, str]) -> int:
    """The interval, if it is meant for this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) if text.isascii() and text.isdigit() else 0
