"""Streams whose other machine may vanish without a farewell: the kernel asks, and gives up."""

from __future__ import annotations

import socket

IDLE_S = 10
AGAIN_S = 5
PROBES = 3
UNANSWERED_MS = 25_000
"""So long may what was written, or asked, stay without an answer of the other kernel."""


def notice_loss(sock: socket.socket) -> None:
    """Of the other machine, within about half a minute, also while nothing is said."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", IDLE_S),
        ("TCP_KEEPINTVL", AGAIN_S),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", UNANSWERED_MS),
    ):
        if hasattr(socket, name):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
