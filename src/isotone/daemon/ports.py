"""Ports for daemons that will be started: free now, and nobody gets one of them by chance before they are."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from pathlib import Path

LOOPBACK = "127.0.0.1"
FIRST = 20_000
KERNELS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""What the kernel gives to whoever asks for any port, and to every call that goes out."""
TRIES_MAX = 1_000
ANY = 0


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free for UDP and TCP alike, all different; below those that the kernel gives away."""
    with ExitStack() as held:
        numbers: list[int] = []
        for wanted in _wanted():
            if len(numbers) == count:
                break
            stream = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            datagrams = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with suppress(OSError):
                stream.bind((LOOPBACK, wanted))
                datagrams.bind((LOOPBACK, stream.getsockname()[1]))
                numbers.append(stream.getsockname()[1])
        return numbers


def _wanted() -> Iterator[int]:
    """In no order, so that two who look at the same time seldom find the same; then whatever the kernel gives."""
    own = range(FIRST, _kernels_first())
    return chain(random.sample(own, min(len(own), TRIES_MAX)), repeat(ANY))


def _kernels_first() -> int:
    with suppress(OSError, ValueError):
        return int(KERNELS.read_text(encoding="ascii").split()[0])
    return FIRST
