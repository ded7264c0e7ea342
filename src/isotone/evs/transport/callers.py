"""Byte streams and the links that they belong to; those that others opened, until their greeting says for which.

Implements: [Spread 4.2], how streams become links. Deviations: none; the thesis does not say it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import (
    Action,
    CloseStream,
    Event,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
)
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.tcp import Hello, read_hello
from isotone.evs.transport.trunk import Trunk

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


Routed = tuple[Trunk | None, list[Event], list[Action]]
"""The trunk that has to hear these events, and what is to be done besides."""


class Streams:
    """Which trunk a stream belongs to. Those that a trunk opens itself are numbered from ``first``."""

    def __init__(self, trunks: list[Trunk], first: int) -> None:
        self._trunks, self._first = trunks, first
        self._trunk_of: dict[int, Trunk] = {}
        self._callers = Callers()

    def route(self, event: StreamOpened | StreamReceived | StreamWritable | StreamClosed) -> Routed:
        """Who has to hear this."""
        place = event.stream - self._first
        if event.stream not in self._trunk_of and 0 <= place < len(self._trunks):
            self._trunk_of[event.stream] = self._trunks[place]
        if (trunk := self._trunk_of.get(event.stream)) is not None:
            return trunk, [event], []
        if isinstance(event, StreamOpened):
            return None, [], self._callers.opened(event)
        if isinstance(event, StreamClosed):
            self._callers.closed(event)
        elif isinstance(event, StreamReceived) and event.stream in self._callers:
            return self._greeted(event)
        return None, [], []

    def _greeted(self, event: StreamReceived) -> Routed:
        greeted = self._callers.received(event)
        if greeted is None:
            return None, [], []
        hello, events = greeted
        for trunk in self._trunks:
            if trunk.answers(hello):
                self._trunk_of[event.stream] = trunk
                return trunk, events, []
        return None, [], [CloseStream(event.stream)]
