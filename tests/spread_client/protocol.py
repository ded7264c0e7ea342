"""A client of Spread as a value, for tests: bytes out, bytes in; written from a description of the protocol alone.

It shares no code with ``isotone.daemon.spread``, so that a mistake in one is not hidden by the same in the other. It
does what Spread's libraries do: 3.1 to 5.x, either byte order, the checks that they make of what a daemon says.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = (1 << bit for bit in range(6))
SELF_DISCARD = 0x40
BY_JOIN, BY_LEAVE, BY_DISCONNECT, BY_NETWORK, REGULAR, TRANSITION = (0x100 << bit for bit in range(6))
JOIN, LEAVE, KILL, REJECT = 0x10000, 0x20000, 0x40000, 0x400000
MARK = 0x80000080
ORDERS = {"little": "<", "big": ">"}


class ProtocolViolation(AssertionError):
    """The daemon wrote what a library would not understand."""


@dataclass(frozen=True)
class View:
    """The body of a regular membership message."""

    id: tuple[int, int, int]
    sets: tuple[tuple[str, ...], ...]
    mine: tuple[str, ...]
    offset: int


@dataclass(frozen=True)
class Received:
    """One frame from the daemon."""

    type: int  # without the mark
    name: str  # of the sender, or of the group
    groups: tuple[str, ...]
    message_type: int
    is_mismatched: bool  # the sender's byte order is not ours
    data: bytes
    raw: bytes
    original: int = 0  # of a rejection

    @property
    def is_regular(self) -> bool:
        return bool(self.type & 0x3F) and not self.type & REJECT

    @property
    def is_membership(self) -> bool:
        return bool(self.type & 0x3F00) and not self.type & REJECT

    @property
    def is_self_leave(self) -> bool:
        return self.is_membership and bool(self.type & BY_LEAVE) and not self.type & (REGULAR | TRANSITION)

    @property
    def is_view(self) -> bool:
        return self.is_membership and bool(self.type & REGULAR)

    @property
    def is_transitional(self) -> bool:
        return self.is_membership and bool(self.type & TRANSITION)


@dataclass
class SpreadClient:
    """One connection. What it wants to write is returned; what it reads goes to `feed`."""

    user: str
    version: tuple[int, int, int] = (5, 0, 1)
    membership: bool = True
    order: str = "little"
    method: str = "NULL"
    password: tuple[str, str] = ("", "")
    priority: int = 0
    state: str = "new"  # list, accept, open, rejected
    rejection: int = 0
    offered: tuple[str, ...] = ()
    daemon_version: tuple[int, ...] = ()
    private_group: str = ""
    received: list[Received] = field(default_factory=list)
    held: bytes = b""

    # --- connecting ------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        major, minor, patch = self.version
        return major * 10000 + minor * 100 + patch

    def hello(self) -> bytes:
        """The connect message."""
        self.state = "list" if self.number >= 31600 else "accept"
        name = self.user.encode()
        numbers = self.version if self.version[:2] > (3, 14) else self.version[:2]
        return bytes((*numbers, self.priority << 4 | int(self.membership), len(name))) + name

    def choice(self) -> bytes:
        """The authentication choice, and what the method wants."""
        slots = self.method.encode().ljust(30, b"\0") + bytes(60)
        if self.method != "PWORD":
            return slots
        user, password = self.password
        return slots + user.encode().ljust(32, b"\0") + password.encode().ljust(8, b"\0")

    def feed(self, data: bytes) -> bytes:
        """Read what came; what to write in return."""
        self.held += data
        answer = b""
        if self.state == "list":
            answer = self._on_list()
        if self.state == "password":
            self._on_password()
        if self.state == "accept":
            self._on_accept()
        while self.state == "open" and self._on_frame():
            pass
        return answer

    def _on_list(self) -> bytes:
        if not self.held:
            return b""
        size = _signed(self.held[0])
        if size < 0:
            self._reject(size)
            return b""
        if size >= 90:
            raise ProtocolViolation(f"a list of {size} bytes")
        if len(self.held) < 1 + size:
            return b""
        self.offered = tuple(self.held[1 : 1 + size].decode("ascii").split())
        self.held = self.held[1 + size :]
        self.state = "password" if self.method == "PWORD" else "accept"
        return self.choice()

    def _on_password(self) -> None:
        if self.held:
            self.state, self.held = "accept", self.held[1:]

    def _on_accept(self) -> None:
        held = self.held
        if not held:
            return
        if held[0] != 1:
            self._reject(_signed(held[0]))
            return
        count = 3 if self.number >= 31500 else 2
        if len(held) < 2 + count or len(held) < 2 + count + held[1 + count]:
            return
        size = held[1 + count]
        self.daemon_version = tuple(held[1 : 1 + count])
        if size >= 32 or max(self.daemon_version) >= 0x80 or self.daemon_version[0] < 3:
            raise ProtocolViolation(f"accepted by {self.daemon_version} with {size} bytes of name")
        self.private_group = held[2 + count : 2 + count + size].decode("ascii")
        self.held = held[2 + count + size :]
        self.state = "open"

    def _reject(self, code: int) -> None:
        self.state, self.rejection, self.held = "rejected", code, self.held[1:]

    # --- asking ----------------------------------------------------------------------------------------------------

    def frame(
        self,
        kind: int,
        groups: tuple[str | bytes, ...] = (),
        data: bytes = b"",
        *,
        message_type: int = 0,
        private_group: str | None = None,
    ) -> bytes:
        """Any frame."""
        name = self.private_group if private_group is None else private_group
        slots = [each if isinstance(each, bytes) else each.encode("latin-1") for each in groups]
        mark = MARK if self.order == "little" else 0
        hint = (message_type & 0xFFFF) << 8 | mark
        head = struct.pack(
            f"{ORDERS[self.order]}I32siIi", kind | mark, name.encode("latin-1"), len(slots), hint, len(data)
        )
        return head + b"".join(each.ljust(32, b"\0") for each in slots) + data

    def join(self, group: str) -> bytes:
        return self.frame(JOIN, (group,))

    def leave(self, group: str) -> bytes:
        return self.frame(LEAVE, (group,))

    def multicast(self, kind: int, groups: str | tuple[str, ...], data: bytes, message_type: int = 0) -> bytes:
        targets = (groups,) if isinstance(groups, str) else groups
        return self.frame(kind, tuple(targets), data, message_type=message_type)

    def disconnect(self) -> bytes:
        return self.frame(KILL, (self.private_group,))

    # --- hearing ---------------------------------------------------------------------------------------------------

    def _on_frame(self) -> bool:
        held = self.held
        if len(held) < 48:
            return False
        order = "little" if struct.unpack_from("<I", held)[0] & MARK == MARK else "big"
        kind, name, count, data_size = struct.unpack_from(f"{ORDERS[order]}I32si4xi", held)
        if count < 0 or data_size < 0:
            raise ProtocolViolation(f"{count} groups and {data_size} bytes")
        rejected = 4 if kind & REJECT else 0
        size = 48 + rejected + 32 * count + data_size
        if len(held) < size:
            return False
        raw, self.held = held[:size], held[size:]
        original = struct.unpack_from(f"{ORDERS[order]}I", raw, 48)[0] & ~MARK if rejected else 0
        slots = raw[48 + rejected : size - data_size]
        groups = tuple(_text(slots[place : place + 32]) for place in range(0, len(slots), 32))
        message_type, mismatched = self._read_hint(raw[40:44])
        data = raw[size - data_size :]
        kind &= ~MARK
        self.received.append(Received(kind, _text(name), groups, message_type, mismatched, data, raw, original))
        return True

    def _read_hint(self, hint: bytes) -> tuple[int, bool]:
        """As a library does: swap if the mark is not one's own, and say so."""
        value = struct.unpack(f"{ORDERS[self.order]}I", hint)[0]
        mine = MARK if self.order == "little" else 0
        mismatched = value & MARK != mine
        if mismatched:
            value = struct.unpack(f"{ORDERS['big' if self.order == 'little' else 'little']}I", hint)[0]
        value = (value & ~MARK) >> 8 & 0xFFFF
        return value - 0x10000 if value >= 0x8000 else value, mismatched

    def view_of(self, received: Received) -> View:
        """The body of a regular membership message; every count and offset is checked."""
        order = "<" if struct.unpack_from("<I", received.raw)[0] & MARK == MARK else ">"
        data = received.data
        id = struct.unpack_from(f"{order}iii", data)
        if self.number < 40000:
            names, end = _names(data, 12, order)
            _check(end == len(data), "the body of an old client has one set")
            return View(id, (names,), names, 0)
        count, offset = struct.unpack_from(f"{order}II", data, 12)
        place, sets, at = 20, [], {}
        for _ in range(count):
            at[place - 20] = len(sets)
            names, place = _names(data, place, order)
            sets.append(names)
        _check(place == len(data), f"{len(data)} bytes for {count} sets")
        _check(offset in at, f"offset {offset} is at no set")
        return View(id, tuple(sets), sets[at[offset]], offset)


def group_id(data: bytes) -> tuple[int, int, int]:
    """Of a transitional body that a little-endian daemon wrote."""
    return struct.unpack("<iii", data)


def _names(data: bytes, place: int, order: str) -> tuple[tuple[str, ...], int]:
    count = struct.unpack_from(f"{order}I", data, place)[0]
    end = place + 4 + 32 * count
    _check(end <= len(data), f"{count} names in {len(data)} bytes")
    return tuple(_text(data[each : each + 32]) for each in range(place + 4, end, 32)), end


def _text(slot: bytes) -> str:
    _check(b"\0" in slot, "a name without its end")
    return slot.partition(b"\0")[0].decode("ascii")


def _signed(byte: int) -> int:
    return byte - 256 if byte >= 0x80 else byte


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise ProtocolViolation(problem)
