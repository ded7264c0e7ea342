"""What replicated objects stand on: a copy of the state, a way to order commands, and a way to wait.

The same objects run over asyncio (`isotone.replicated.state`) and in the simulator, in virtual time: they await nothing
but what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.replicated.class_state import ClassState
from isotone.replicated.machine import Machine
from isotone.replicated.provisional import apply_red, check_commutes, red_calls
from isotone.replicated.recording import HistoryRecorder
from isotone.replicated.small_states import CounterState

NAME_BYTES_MAX = 255
KEY_BYTES_MAX = 1_024
VALUE_BYTES_MAX = 1024 * 1024
Struct = TypeVar("Struct")
Seen = TypeVar("Seen")
Red = TypeVar("Red", CounterState, ClassState)


class Reply(msgspec.Struct, frozen=True):
    """The result of a command, the session that it was a request of, and the position at which it was answered."""

    value: Any
    session: int
    position: int


class Caller(Protocol):
    """One client of the replicated state."""

    machine: Machine
    history: HistoryRecorder | None  # None where nobody wants a record

    async def call(
        self, kind: str, name: str, method: str, arguments: tuple[Any, ...], *, within_s: float | None = None
    ) -> Reply:
        """Order a command and wait for its answer. What waits for a grant is abandoned when its time is over."""
        ...

    async def go_behind(
        self, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None
    ) -> None:
        """Until the copy may be read: behind all that was ordered before, or this position, or at once."""
        ...

    async def red_records(self) -> list[bytes]:
        """What this server has and no order has yet, once the copy has all that is green here."""
        ...

    async def applied_beyond(self, position: int) -> None:
        """Until the copy has more than this."""
        ...

    def is_trusted(self, session: int) -> bool:
        """Whether what this session holds is certainly still its own."""
        ...

    def trust_left_s(self, session: int) -> float:
        """So long nobody else can have what this session holds, by this clock, if it is not renewed any more."""
        ...

    async def until_lost(self, session: int, *, ahead_s: float = 0.0) -> str:
        """Until it is not, or not for longer than this, and why."""
        ...


class Encoding:
    """How values become bytes: chosen once for each object."""

    def __init__(self, of: type[Any] | None = None) -> None:
        self._of = of
        self._decoder = None if of is bytes else msgspec.msgpack.Decoder(Any if of is None else of)

    def encode(self, value: Any) -> bytes:
        """`LocalProtocolError` for what has no such form, or is too large."""
        if self._of is bytes:
            if not isinstance(value, bytes | bytearray | memoryview):
                raise LocalProtocolError(f"this object holds bytes, not {type(value).__name__}")
            encoded = bytes(value)
        else:
            try:
                encoded = msgspec.msgpack.encode(value)
                if self._of is not None:
                    self.decode(encoded)
            except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
                raise LocalProtocolError(f"this value cannot be encoded: {error}") from error
        if len(encoded) > VALUE_BYTES_MAX:
            raise LocalProtocolError(f"a value of {len(encoded)} bytes; at most {VALUE_BYTES_MAX} are allowed")
        return encoded

    def decode(self, encoded: bytes) -> Any:
        """What was encoded."""
        return encoded if self._decoder is None else self._decoder.decode(encoded)


def checked_name(name: str) -> str:
    """Of an object."""
    if not name or len(name.encode()) > NAME_BYTES_MAX:
        raise LocalProtocolError(f"the name of an object has 1 to {NAME_BYTES_MAX} bytes, not {name!r:.80}")
    return name


def checked_key(key: str) -> str:
    """Of a dict."""
    if type(key) is not str:
        raise LocalProtocolError(f"a key is a str, not {type(key).__name__}")
    if len(key.encode()) > KEY_BYTES_MAX:
        raise LocalProtocolError(f"a key of {len(key.encode())} bytes; at most {KEY_BYTES_MAX} are allowed")
    return key


class ReplicatedObject:
    """What all of them have: a name and a caller. ``within_s`` of a call is how long it may take."""

    kind = ""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller, self.name = caller, checked_name(name)

    async def _call(self, method: str, *arguments: Any, within_s: float | None = None) -> Reply:
        called = self._caller.call(self.kind, self.name, method, arguments, within_s=within_s)
        history = self._caller.history
        if history is None:
            return await called
        return await history.of_call(self.kind, self.name, method, arguments, called)

    async def _read(
        self,
        method: str,
        key: str,
        see: Callable[[], Seen],
        *,
        stale_ok: bool = False,
        at_least: int | None = None,
        within_s: float | None = None,
    ) -> Seen:
        """What is seen when the copy may be read."""
        history = self._caller.history
        is_linearizable = not stale_ok and at_least is None
        read = history.read_begins(self.kind, self.name, method, key) if history and is_linearizable else None
        await self._caller.go_behind(stale_ok=stale_ok, at_least=at_least, within_s=within_s)
        seen = see()
        if history is not None and read is not None:
            history.read_ends(read, seen)
        return seen

    async def _provisional(self, of: type[Red]) -> tuple[Red, int]:
        """A copy of the state with what is red and commutes, and how many commands that are."""
        machine = self._caller.machine
        calls = red_calls(await self._caller.red_records(), self.name, self.kind)
        calls = machine.still_open(calls)
        first, second = (msgspec.msgpack.decode(msgspec.msgpack.encode(self._state(of)), type=of) for _ in range(2))
        applied = apply_red(first, calls, machine.classes)
        if machine.classes.twice:
            check_commutes(first, second, calls, machine.classes)
        return first, applied

    def _state(self, of: type[Struct]) -> Struct:
        """The state as it is known here; a new one if nobody made it yet."""
        found = self._caller.machine.state.objects.get(self.name)
        if found is None:
            return of()
        if not isinstance(found, of):
            raise LocalProtocolError(f"{self.name} is no {self.kind}")
        return found
