"""Spread's own C library through ctypes: one mailbox, one process.

A mailbox sends and receives on one stream, so a sender must not fill it while nobody reads: it keeps a window of its
own messages, as Spread's documentation advises, and reads whenever something is there.
"""

from __future__ import annotations

import ctypes
import select
import time
from collections import deque
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int16, c_void_p
from typing import Any

from isotone.bench.lan.board import Slot
from isotone.bench.lan.jobs import Job, Outcome
from isotone.bench.lan.peer_client import PeerMember
from isotone.bench.lan.spread import SESSION_MESSAGES_MAX
from isotone.core.errors import MachineError

ACCEPT_SESSION = 1
GROUP = b"bench"
NAME_MAX = 32
GROUPS_MAX = 64
MESSAGE_MAX = 160 * 1024
SERVICES = {"fifo": 0x04, "agreed": 0x10, "safe": 0x20}
REGULAR, MEMBERSHIP, REGULAR_MEMBERSHIP = 0x3F, 0x3F00, 0x1000
WINDOW_MESSAGES, WINDOW_BYTES = SESSION_MESSAGES_MAX // 5, 4 * 1024 * 1024
"""Of a sender: those of three stay below the messages for one client at which a daemon of Spread ends its session."""
CONNECT_WITHIN_S = 30.0


class Mailbox:
    """One member of the group at one daemon."""

    def __init__(self, library: str, address: str, index: int, service: str) -> None:
        self._spread = _library(library)
        self.members = 0
        self.arrived: list[tuple[int, bytes]] = []
        self._index, self._service = index, SERVICES[service]
        self._box = c_int()
        self._flying: deque[int] = deque()
        self._flying_bytes = 0
        self._body = ctypes.create_string_buffer(MESSAGE_MAX)
        self._groups = ((c_char * NAME_MAX) * GROUPS_MAX)()
        self._sender = ctypes.create_string_buffer(NAME_MAX)
        self._connect(address)
        self._poll = select.poll()
        self._poll.register(self._box.value, select.POLLIN)
        self._check("SP_join", self._spread.SP_join(self._box, GROUP))

    def send(self, data: bytes) -> bool:
        """Unless the window is full."""
        if len(self._flying) >= WINDOW_MESSAGES or self._flying_bytes >= WINDOW_BYTES:
            return False
        self._check(
            "SP_multicast", self._spread.SP_multicast(self._box, self._service, GROUP, c_int16(0), len(data), data)
        )
        self._flying.append(len(data))
        self._flying_bytes += len(data)
        return True

    def watch(self, descriptor: int) -> None:
        """Waiting ends when something is there too."""
        self._poll.register(descriptor, select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Not any more."""
        self._poll.unregister(descriptor)

    def take(self, within_s: float) -> None:
        """All that is there."""
        if within_s and not self._poll.poll(within_s * 1000):
            return
        while self._check("SP_poll", self._spread.SP_poll(self._box)) > 0:
            self._receive()

    def close(self) -> None:
        """Leave."""
        self._spread.SP_disconnect(self._box)

    def _receive(self) -> None:
        service, count, kind, swapped = c_int(0), c_int(), c_int16(), c_int()
        length = self._check(
            "SP_receive",
            self._spread.SP_receive(
                self._box,
                byref(service),
                self._sender,
                GROUPS_MAX,
                byref(count),
                self._groups,
                byref(kind),
                byref(swapped),
                MESSAGE_MAX,
                self._body,
            ),
        )
        if service.value & REGULAR:
            sender = int(self._sender.value.split(b"#")[1][1:])  # "#w0#daemon"
            self.arrived.append((sender, ctypes.string_at(self._body, length)))
            if sender == self._index and self._flying:
                self._flying_bytes -= self._flying.popleft()
        elif service.value & REGULAR_MEMBERSHIP:
            self.members = count.value

    # --- beginning -------------------------------------------------------------------------------------------------

    def _connect(self, address: str) -> None:
        """The daemon may not listen yet."""
        deadline = time.monotonic() + CONNECT_WITHIN_S
        private = ctypes.create_string_buffer(NAME_MAX)
        name = f"w{self._index}".encode()
        while True:
            code = self._spread.SP_connect(address.encode(), name, 0, 1, byref(self._box), private)
            if code == ACCEPT_SESSION:
                return
            if time.monotonic() > deadline:
                raise MachineError(f"SP_connect to {address} failed with {code}")
            time.sleep(0.1)

    def _check(self, call: str, code: int) -> int:
        if code < 0:
            raise MachineError(f"{call} failed with {code}")
        return code


def _library(path: str) -> Any:
    library = ctypes.CDLL(path)
    library.SP_connect.argtypes = [c_char_p, c_char_p, c_int, c_int, POINTER(c_int), c_char_p]
    library.SP_join.argtypes = [c_int, c_char_p]
    library.SP_multicast.argtypes = [c_int, c_int, c_char_p, c_int16, c_int, c_char_p]
    library.SP_poll.argtypes = [c_int]
    library.SP_disconnect.argtypes = [c_int]
    library.SP_receive.argtypes = [
        c_int,
        POINTER(c_int),
        c_char_p,
        c_int,
        POINTER(c_int),
        c_void_p,
        POINTER(c_int16),
        POINTER(c_int),
        c_int,
        c_char_p,
    ]
    return library


def run_spread(job: Job, slot: Slot) -> Outcome:
    """A member at its daemon."""
    return PeerMember(job, slot, Mailbox(job.library, job.address, job.index, job.cell.service)).work()
