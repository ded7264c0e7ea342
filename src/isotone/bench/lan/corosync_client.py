"""Corosync's closed process groups through ctypes. CPG orders messages as AGREED does and has no other service."""

from __future__ import annotations

import ctypes
import select
import time
from ctypes import POINTER, byref, c_char, c_int, c_size_t, c_uint32, c_uint64, c_void_p, string_at
from typing import Any

from isotone.bench.lan.board import Slot
from isotone.bench.lan.jobs import Job, Outcome
from isotone.bench.lan.peer_client import PeerMember
from isotone.core.errors import MachineError

OK, TRY_AGAIN = 1, 6
AGREED = 2
DISPATCH_ALL = 2
GROUP = b"bench"
NAME_MAX = 128
CONNECT_WITHIN_S = 30.0


class Name(ctypes.Structure):
    """The name of a group."""

    _fields_ = [("length", c_uint32), ("value", c_char * NAME_MAX)]


class Address(ctypes.Structure):
    """A member."""

    _fields_ = [("nodeid", c_uint32), ("pid", c_uint32), ("reason", c_uint32)]


class Vector(ctypes.Structure):
    """One part of a message."""

    _fields_ = [("base", ctypes.c_char_p), ("length", c_size_t)]


Deliver = ctypes.CFUNCTYPE(None, c_uint64, c_void_p, c_uint32, c_uint32, c_void_p, c_size_t)
"""Handle, group, node, process, data, length. The group is a bare address: nobody looks at it, and an object made of it
would cost something for every message."""
Change = ctypes.CFUNCTYPE(
    None,
    c_uint64,
    POINTER(Name),
    POINTER(Address),
    c_size_t,
    POINTER(Address),
    c_size_t,
    POINTER(Address),
    c_size_t,
)


class Callbacks(ctypes.Structure):
    """What the library calls."""

    _fields_ = [("deliver", Deliver), ("change", Change)]


class Cpg:
    """One member of the group at the daemon of this namespace."""

    def __init__(self, library: str) -> None:
        self._cpg = _library(library)
        self.members = 0
        self.arrived: list[tuple[int, bytes]] = []
        self._handle = c_uint64()
        self._callbacks = Callbacks(Deliver(self._on_message), Change(self._on_change))  # the library keeps pointers
        self._connect()
        descriptor = c_int()
        self._check("cpg_fd_get", self._cpg.cpg_fd_get(self._handle, byref(descriptor)))
        self._poll = select.poll()
        self._poll.register(descriptor.value, select.POLLIN)
        self._vector = Vector()
        self._join()

    def send(self, data: bytes) -> bool:
        """Unless the daemon's queue is full."""
        vector = self._vector
        vector.base, vector.length = data, len(data)
        code = self._cpg.cpg_mcast_joined(self._handle, AGREED, byref(vector), 1)
        if code == TRY_AGAIN:
            return False
        self._check("cpg_mcast_joined", code)
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
        code = self._cpg.cpg_dispatch(self._handle, DISPATCH_ALL)
        if code not in (OK, TRY_AGAIN):
            self._check("cpg_dispatch", code)

    def close(self) -> None:
        """Leave."""
        self._cpg.cpg_finalize(self._handle)

    # --- what the library calls ------------------------------------------------------------------------------------

    def _on_message(self, *told: int) -> None:
        """Handle, group, node, process, data, length."""
        self.arrived.append((told[2] - 1, string_at(told[4], told[5])))

    def _on_change(self, *told: Any) -> None:
        """Handle, group, members and how many; then those that left and those that joined."""
        self.members = told[3]

    # --- beginning -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """The daemon may not listen yet."""
        deadline = time.monotonic() + CONNECT_WITHIN_S
        while (code := self._cpg.cpg_initialize(byref(self._handle), byref(self._callbacks))) != OK:
            if time.monotonic() > deadline:
                self._check("cpg_initialize", code)
            time.sleep(0.05)

    def _join(self) -> None:
        name = Name(len(GROUP), GROUP)
        deadline = time.monotonic() + CONNECT_WITHIN_S
        while (code := self._cpg.cpg_join(self._handle, byref(name))) != OK:
            if code != TRY_AGAIN or time.monotonic() > deadline:
                self._check("cpg_join", code)
            time.sleep(0.05)

    def _check(self, call: str, code: int) -> None:
        if code != OK:
            raise MachineError(f"{call} failed with {code}")


def _library(path: str) -> Any:
    library = ctypes.CDLL(path)
    library.cpg_dispatch.argtypes = [c_uint64, c_int]
    library.cpg_mcast_joined.argtypes = [c_uint64, c_int, c_void_p, c_uint32]
    for name in ("cpg_join", "cpg_fd_get"):
        getattr(library, name).argtypes = [c_uint64, c_void_p]
    library.cpg_finalize.argtypes = [c_uint64]
    return library


def run_corosync(job: Job, slot: Slot) -> Outcome:
    """A member at the daemon of its namespace."""
    return PeerMember(job, slot, Cpg(job.library)).work()
