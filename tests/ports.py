"""Ports for tests that name one before somebody listens there, or again while nobody does: nobody else gets it then.

Not those that the kernel gives to whoever asks for any, nor those of ``isotone up``; those of one pytest process are
not those of another, and none comes twice before all have been given.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice

FIRST, LAST = 10_000, 19_999
LOOPBACK = "127.0.0.1"


def _mine() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = (LAST - FIRST + 1) // workers
    begin, first = FIRST + worker * share, os.getpid() * 101 % share  # another run of pytest begins elsewhere
    return islice(cycle(range(begin, begin + share)), first, None)


_numbers = _mine()


def free_ports(count: int) -> list[int]:
    """Ports that are free for UDP and TCP alike."""
    found: list[int] = []
    while len(found) < count:
        number = next(_numbers)
        with (
            suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        ):
            stream.bind((LOOPBACK, number))
            datagrams.bind((LOOPBACK, number))
            found.append(number)
    return found


def free_port() -> int:
    """One of them."""
    (port,) = free_ports(1)
    return port
