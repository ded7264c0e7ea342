"""A client of the log's port by hand: its timers, its streams, and what it says and tells."""

from __future__ import annotations

from typing import Any

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    TimerFired,
    TimerKey,
    WriteStream,
)
from isotone.corel.port import wire
from isotone.corel.port.client import PortClient
from isotone.corel.port.events import (
    AppendsWanted,
    AppendWanted,
    Asked,
    FollowWanted,
    FrameCame,
    FrameTaken,
    Settled,
)
from isotone.corel.port.search import Patience

SECOND = 1_000_000


class Hand:
    """Time passes when a test says so. Every write is taken at once, unless ``is_full``."""

    def __init__(self, *addresses: str, is_full: bool = False, **patience: Any) -> None:
        self.client = PortClient(
            [Address(each) for each in addresses or ("a:1",)],
            wire.Hello(wire.VERSION, "client"),
            Patience(**patience),
        )
        self.at = 0
        self.is_full = is_full
        self.timers: dict[TimerKey, int] = {}
        self.opened: list[tuple[int, str]] = []
        self.closed: list[int] = []
        self.said: list[wire.ClientFrame] = []
        self.settled: dict[int, Any] = {}
        self.came: list[wire.Fed] = []
        self._tickets = 0
        self._frames: dict[int, wire.Frames[wire.ClientFrame]] = {}

    # --- events ------------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        waiting = [event]
        while waiting:
            for action in self.client.handle(waiting.pop(0)):
                waiting += self._perform(action)

    def _perform(self, action: Action) -> list[Event]:
        match action:
            case SetTimer(key=key, after_us=after_us):
                self.timers[key] = self.at + after_us
            case CancelTimer(key=key):
                self.timers.pop(key, None)
            case OpenStream(stream=stream, destination=destination):
                self.opened.append((stream, destination))
                self._frames[stream] = wire.Frames(wire.CLIENT_FRAMES)
            case CloseStream(stream=stream):
                self.closed.append(stream)
            case WriteStream(stream=stream, data=data):
                self.said += self._frames[stream].feed(b"".join(data))
                return [] if self.is_full else [StreamWritable(self.at, stream)]
            case Settled(ticket=ticket, outcome=outcome):
                assert ticket not in self.settled
                self.settled[ticket] = outcome
            case FrameCame(frame=frame):
                self.came.append(frame)
            case _:
                raise AssertionError(action)
        return []

    def wait(self, us: int) -> None:
        """Time passes; timers fire in their order."""
        end = self.at + us
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=lambda each: self.timers[each])
            self.at = max(self.at, self.timers.pop(key))
            self.tell(TimerFired(self.at, key))
        self.at = end

    # --- requests ----------------------------------------------------------------------------------------------------

    def append(self, *records: bytes, within_us: int | None = None) -> list[int]:
        first = self._tickets + 1
        self._tickets += len(records)
        appends = tuple(AppendWanted(ticket, record, within_us) for ticket, record in enumerate(records, first))
        self.tell(AppendsWanted(self.at, appends))
        return list(range(first, self._tickets + 1))

    def ask(self, frame: Any, *, within_us: int | None = None, is_change: bool = False) -> int:
        self._tickets += 1
        self.tell(Asked(self.at, self._tickets, frame, within_us, is_change))
        return self._tickets

    def follow(self, wanted: wire.Wanted, *, elsewhere: bool = True) -> int:
        self._tickets += 1
        self.tell(FollowWanted(self.at, self._tickets, wanted, elsewhere))
        return self._tickets

    def used(self, ticket: int, frame: wire.Fed) -> None:
        self.tell(FrameTaken(self.at, ticket, frame.size))

    # --- the server --------------------------------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        return self.opened[-1][0]

    @property
    def place(self) -> str:
        return self.opened[-1][1]

    def open(self, server: str = "a", appends_max: int = 4_096, append_bytes_max: int = 16 * 1024 * 1024) -> None:
        """The newest stream opens, and the server there takes the client."""
        self.tell(StreamOpened(self.at, self.stream, Address(""), False))
        self.hear(wire.Welcome(wire.VERSION, server, appends_max, append_bytes_max))

    def tell_refused(self) -> None:
        """The newest stream opens, and the server there does not take the client."""
        self.tell(StreamOpened(self.at, self.stream, Address(""), False))
        self.hear(wire.Failed(0, "Refused", "you are not known"))
        self.lose("closed")

    def hear(self, *frames: wire.Said) -> None:
        self.tell(StreamReceived(self.at, self.stream, b"".join(map(wire.framed, frames))))

    def lose(self, reason: str = "reset by peer") -> None:
        self.tell(StreamClosed(self.at, self.stream, reason))

    def last(self, kind: type[wire.Said]) -> Any:
        return [each for each in self.said if isinstance(each, kind)][-1]
