"""Segmentation and receive offload of UDP: many packets of one size in one system call, where the kernel has them.

Implements: DESIGN 3, "Kernel offload". Without it every packet is a call of its own, and nothing else changes.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

UDP_SEGMENT = 103
UDP_GRO = 104
SEGMENTS_MAX = 64
TRAIN_BYTES_MAX = 65_000
PARTS_MAX = 1_000  # of one vector; the kernel takes 1,024
_SEGMENT = struct.Struct("H")
_SIZE = struct.Struct("i")
RECEIVE_CONTROL_BYTES = socket.CMSG_SPACE(_SIZE.size)

Parts = Sequence[bytes | memoryview]
Control = list[tuple[int, int, bytes]]


def can_segment(sock: socket.socket) -> bool:
    """Whether the kernel cuts what we send; changes nothing."""
    try:
        sock.setsockopt(socket.SOL_UDP, UDP_SEGMENT, 0)
    except (OSError, AttributeError):
        return False
    return True


def join_received(sock: socket.socket) -> bool:
    """Have the kernel join what arrives together; says whether it does."""
    try:
        sock.setsockopt(socket.SOL_UDP, UDP_GRO, 1)
    except (OSError, AttributeError):
        return False
    return True


def segment_control(size: int) -> Control:
    """What tells the kernel to cut into packets of this size."""
    return [(socket.SOL_UDP, UDP_SEGMENT, _SEGMENT.pack(size))]


def segment_size(control: Control, received: int) -> int:
    """The size of the packets in a received buffer; one packet alone has its own."""
    for level, kind, data in control:
        if level == socket.SOL_UDP and kind == UDP_GRO and len(data) >= _SIZE.size:
            return int(_SIZE.unpack_from(data)[0]) or received
    return received


def trains(datagrams: Sequence[Parts]) -> Iterator[tuple[list[bytes | memoryview], int, int]]:
    """Datagrams that may go together: their parts, the size of each, and how many; only the last may be shorter."""
    parts: list[bytes | memoryview] = []
    size = count = total = 0
    for datagram in datagrams:
        length = sum(map(len, datagram))
        whole = count and length <= size and count < SEGMENTS_MAX and total + length <= TRAIN_BYTES_MAX
        if whole and length and len(parts) + len(datagram) <= PARTS_MAX:
            parts += datagram
            count, total = count + 1, total + length
            if length == size:
                continue
            yield parts, size, count
            parts, count = [], 0
            continue
        if count:
            yield parts, size, count
        parts = list(datagram) if len(datagram) <= PARTS_MAX else [b"".join(datagram)]
        size = total = length
        count = 1
    if count:
        yield parts, size, count
