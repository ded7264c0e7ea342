"""Which automaton a stream belongs to: by the door at which it came, and by its first bytes where doors are shared.

Clients of ours and daemons begin with a letter, Spread's clients with a version number. Where clients have to come by
TLS, the door of the daemons is closed to them, and they are told why. Who says nothing is turned away after a while,
and the oldest makes place when too many say nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from isotone.core.contract import Address, Event, StreamClosed, StreamOpened, StreamReceived, StreamWritable
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.farewell import farewell_to
from isotone.daemon.places import MAIN, SPREAD_CLIENTS
from isotone.evs.sessions.greeting import CLIENT_MAGIC

StreamEvent = StreamOpened | StreamReceived | StreamWritable | StreamClosed

OURS = CLIENT_MAGIC[:1]
UNDECIDED_MAX = 256
UNDECIDED_SECONDS = 10.0


class Undecided:
    """A stream of which it is not known yet whose it is."""

    __slots__ = ("begun", "handle", "opened")

    def __init__(self, opened: StreamOpened, handle: asyncio.TimerHandle) -> None:
        self.opened, self.handle = opened, handle
        self.begun = b""


class Router:
    """Hands the events of streams to their automata."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        *,
        stack: Lane,
        below: Lane,
        spread: Lane | None,
        shares_port: bool,
        clients_on_main: bool,
        door_of: Callable[[int], str],
        write: Callable[[int, Sequence[bytes]], None],
        close: Callable[[int], None],
        refused: Callable[[Address], None],
    ) -> None:
        self.turned_away = 0  # who said nothing
        self.wrong_door = 0  # clients without TLS where it is needed
        self._loop, self._engine = loop, engine
        self._stack, self._below, self._spread = stack, below, spread
        self._shared = spread if shares_port else None
        self._clients_on_main = clients_on_main
        self._door_of, self._write, self._close = door_of, write, close
        self._refused = refused  # hears of each client that came without TLS where it is needed
        self._owners: dict[int, Lane] = {}
        self._undecided: dict[int, Undecided] = {}
        self._closing: set[int] = set()  # turned away, and not gone yet

    def owner(self, stream: int) -> Lane | None:
        """Whose stream it is."""
        return self._owners.get(stream)

    def tell(self, event: StreamEvent) -> None:
        """Something happened to a stream."""
        stream = event.stream
        if isinstance(event, StreamOpened):
            self._on_opened(event)
        elif stream in self._closing:
            if isinstance(event, StreamClosed):
                self._closing.discard(stream)
        elif stream in self._undecided:
            self._on_undecided(event, self._undecided[stream])
        else:
            lane = self._owners.get(stream, self._below)  # below: one that we wanted to open
            if isinstance(event, StreamClosed):
                self._owners.pop(stream, None)
            self._engine.take(lane, event)

    def _on_opened(self, event: StreamOpened) -> None:
        door = self._door_of(event.stream) if event.accepted else ""
        if door == MAIN and (self._shared is not None or not self._clients_on_main):
            handle = self._loop.call_later(UNDECIDED_SECONDS, self._turn_away, event.stream)
            self._undecided[event.stream] = Undecided(event, handle)
            if len(self._undecided) > UNDECIDED_MAX:
                self._turn_away(next(iter(self._undecided)))
            return
        lane = self._below
        if door == SPREAD_CLIENTS and self._spread is not None:
            lane = self._spread
        elif door not in ("", MAIN):
            lane = self._stack
        self._give(lane, event)

    def _give(self, lane: Lane, opened: StreamOpened, *then: Event) -> None:
        self._owners[opened.stream] = lane
        for event in (opened, *then):
            self._engine.post(lane, event)
        self._engine.drain()

    def _turn_away(self, stream: int) -> None:
        found = self._undecided.pop(stream, None)
        if found is not None:
            found.handle.cancel()
            self.turned_away += 1
            self._closing.add(stream)
            self._close(stream)

    def _on_undecided(self, event: StreamEvent, caller: Undecided) -> None:
        stream = event.stream
        if isinstance(event, StreamClosed):
            caller.handle.cancel()
            del self._undecided[stream]
        if not isinstance(event, StreamReceived):
            return
        caller.begun += bytes(event.data)
        if caller.begun[:1] == OURS and len(caller.begun) < len(CLIENT_MAGIC):
            return
        is_lost = caller.begun.startswith(CLIENT_MAGIC) and not self._clients_on_main
        words = farewell_to(caller.begun) if is_lost else b""
        if words is None:
            return
        caller.handle.cancel()
        del self._undecided[stream]
        if is_lost:
            self.wrong_door += 1
            self._refused(caller.opened.peer)
            self._closing.add(stream)
            self._write(stream, [words])
            self._close(stream)
            return
        lane = self._shared if self._shared is not None and caller.begun[:1] != OURS else self._below
        self._give(lane, caller.opened, StreamReceived(event.at, stream, caller.begun))
