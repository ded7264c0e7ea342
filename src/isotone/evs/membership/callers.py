"""Streams that others opened to us, until the daemon view that they greet is there.

Daemons enter a daemon view one after the other, so a stream may come before its NEWMEMB does. It waits a little, with
what it brings; there are bounds on how many wait, how long, and how much.

Implements: [Spread 4.2], the accepting end of a link. Deviations: none; the thesis does not say how a link begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action, CloseStream, StreamOpened, StreamReceived
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.tcp import Hello, read_hello

CALLERS_MAX = 256
WAITING_BYTES_MAX = 256 * 1024


@dataclass
class _Caller:
    opened: StreamOpened
    data: bytearray = field(default_factory=bytearray)
    hello: Hello | None = None


@dataclass
class Callers:
    """Accepted streams without a link."""

    patience_us: int
    _callers: dict[int, _Caller] = field(default_factory=dict)

    def __contains__(self, stream: int) -> bool:
        return stream in self._callers

    def opened(self, event: StreamOpened) -> list[Action]:
        """Somebody calls; who is too many is turned away, and who waited too long goes."""
        late = [each for each, caller in self._callers.items() if event.at - caller.opened.at > self.patience_us]
        for each in late:
            del self._callers[each]
        if len(self._callers) >= CALLERS_MAX:
            return [*map(CloseStream, late), CloseStream(event.stream)]
        self._callers[event.stream] = _Caller(event)
        return [CloseStream(each) for each in late]

    def closed(self, stream: int) -> None:
        """It gave up."""
        self._callers.pop(stream, None)

    def received(self, event: StreamReceived) -> tuple[Hello | None, list[Action]]:
        """Bytes of one: whom it greets, once that is known."""
        caller = self._callers[event.stream]
        caller.data += event.data
        try:
            if len(caller.data) > WAITING_BYTES_MAX:
                raise RemoteProtocolError("a stream that nobody takes brings too much")
            found = read_hello(bytes(caller.data[:512])) if caller.hello is None else None
        except RemoteProtocolError:
            del self._callers[event.stream]
            return None, [CloseStream(event.stream)]
        if found is not None:
            caller.hello = found[0]
        return caller.hello, []

    def take(self, stream: int, at: int) -> tuple[StreamOpened, StreamReceived]:
        """It has found its link: what that has to hear."""
        caller = self._callers.pop(stream)
        return caller.opened, StreamReceived(at, stream, bytes(caller.data))

    def waiting(self) -> list[tuple[int, Hello]]:
        """Those who have greeted."""
        return [(stream, caller.hello) for stream, caller in self._callers.items() if caller.hello is not None]

    def drop_all(self) -> list[Action]:
        """The daemon stops."""
        streams = list(self._callers)
        self._callers.clear()
        return [CloseStream(each) for each in streams]
