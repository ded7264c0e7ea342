"""Streams that others opened to us, until their greeting says for which link they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action, CloseStream, Event, StreamClosed, StreamOpened, StreamReceived
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.tcp import Hello, read_hello

CALLERS_MAX = 64


@dataclass
class Callers:
    """Accepted streams without a link; `take` says which link one belongs to, with the events that it has to hear."""

    _streams: dict[int, tuple[StreamOpened, bytearray]] = field(default_factory=dict)

    def opened(self, event: StreamOpened) -> list[Action]:
        """Somebody calls; who is too many is turned away."""
        if len(self._streams) >= CALLERS_MAX:
            return [CloseStream(event.stream)]
        self._streams[event.stream] = (event, bytearray())
        return []

    def closed(self, event: StreamClosed) -> bool:
        """A stream is gone; says whether it was one of these."""
        return self._streams.pop(event.stream, None) is not None

    def __contains__(self, stream: int) -> bool:
        return stream in self._streams

    def received(self, event: StreamReceived) -> tuple[Hello, list[Event]] | None:
        """Bytes of a caller: once the greeting is complete, whom it names and what that link has to hear."""
        opened, data = self._streams[event.stream]
        data += event.data
        try:
            found = read_hello(bytes(data))
        except RemoteProtocolError:
            del self._streams[event.stream]
            raise
        if found is None:
            return None
        del self._streams[event.stream]
        return found[0], [opened, StreamReceived(event.at, event.stream, bytes(data))]
