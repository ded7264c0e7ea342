"""Words for the service manager."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from isotone.daemon.systemd import ServiceManager


def listening(path: Path | str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.settimeout(60)
    sock.bind(str(path))
    return sock


@pytest.mark.parametrize("is_abstract", [False, True])
def test_it_is_told_on_the_socket_that_it_names(tmp_path: Path, is_abstract: bool) -> None:
    path = f"isotone-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with listening(f"\0{path}" if is_abstract else path) as sock:
        manager = ServiceManager({"NOTIFY_SOCKET": f"@{path}" if is_abstract else path})
        manager.ready("d1#1")
        manager.reloading(5)
        manager.stopping("SIGTERM")
        said = [sock.recv(1024) for _ in range(3)]
    assert said == [b"READY=1\nSTATUS=d1#1", b"RELOADING=1\nMONOTONIC_USEC=5", b"STOPPING=1\nSTATUS=SIGTERM"]


def test_without_a_manager_nothing_is_said(tmp_path: Path) -> None:
    ServiceManager({}).ready("x")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready("x")


def test_the_watchdog_is_fed_while_all_is_well(tmp_path: Path) -> None:
    with listening(tmp_path / "notify") as sock:
        sock.setblocking(False)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000"}

        async def main() -> None:
            manager = ServiceManager(environment)
            manager.watch(lambda: True)
            loop = asyncio.get_running_loop()
            for _ in range(3):
                assert await asyncio.wait_for(loop.sock_recv(sock, 100), 60) == b"WATCHDOG=1"
            manager.end_watch()

        asyncio.run(main())


def test_a_watchdog_of_another_process_is_not_ours(tmp_path: Path) -> None:
    async def main() -> None:
        manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path), "WATCHDOG_USEC": "10", "WATCHDOG_PID": "1"})
        manager.watch(lambda: True)
        assert manager._task is None

    asyncio.run(main())
