"""Boundary B4 of a daemon in the same process: carried through its engine, and recorded by it.

Host and daemon have an engine each. What crosses waits until the one that it comes from has handled all of a wake-up,
and then goes over at once: neither is ever entered from within the other, what crosses in one wake-up is handled
together, and nothing misses the token because the loop has other things to do first. What that causes in turn waits
for the next turn of the loop, so that the loop goes on. Sends wait here while the daemon has no room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from isotone.core.boundary import Ask, Connect, Connected, Disconnect, Disconnected, Indicated, Refused, Send
from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId, DaemonId
from isotone.daemon.engine import Lane
from isotone.daemon.node import Node, Phase
from isotone.host.service import Port
from isotone.trace.events import Entry


class _Crossing:
    """An automaton beside the stack, through which all clients of the host are told."""

    def __init__(self, on_told: Callable[[Indicated], None]) -> None:
        self._on_told = on_told

    def handle(self, event: Event) -> list[Action]:
        """Pass it on."""
        assert isinstance(event, Indicated), f"nobody sends {event!r} here"
        self._on_told(event)
        return []


class EmbeddedService:
    """Clients of a node in this process; the node is started before the host and stopped after it."""

    def __init__(self, node: Node) -> None:
        self.waiting_bytes = 0
        self._node = node
        self._lane = Lane("host", _Crossing(self._on_told))
        self._queue: deque[Ask] = deque()
        self._provisional: dict[ClientId, ClientId] = {}  # by the real id, until the session is open
        self._open: dict[ClientId, None] = {}
        self._scheduled: asyncio.Handle | None = None
        self._crossing = False  # something goes over just now
        self._watch: asyncio.Task[None] | None = None
        self._port: Port | None = None

    def begin(self, port: Port) -> None:
        """Stand beside the node's stack."""
        assert self._node.phase is Phase.RUNNING, "the node is not running"
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._engine, self._boundary = self._node.shell.engine, self._node.shell.boundary
        self._engine.when_drained.append(self._on_drained)
        self._watch = self._loop.create_task(self._watch_node())

    @property
    def daemon(self) -> DaemonId:
        """The node."""
        return self._node.me

    @property
    def record(self) -> Callable[[Entry], None] | None:
        """The record of the node."""
        return self._record

    def _record(self, entry: Entry) -> None:
        if self._node.shell.recording.is_on and self._node.phase is not Phase.ENDED:
            self._node.shell.recording.record(entry)

    # --- asking ----------------------------------------------------------------------------------------------------

    def ask(self, action: Ask) -> None:
        """Carry it to the stack when the automaton has said all, or when there is room."""
        if type(action.request) is Send:
            self.waiting_bytes += len(action.request.bundle.payload)
        self._queue.append(action)
        self._schedule()

    def _schedule(self) -> None:
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._carry)

    def on_turn(self) -> None:
        """The automaton has said all that it says now."""
        if self._scheduled is not None and not self._crossing:
            self._scheduled.cancel()
            self._carry()

    def _carry(self) -> None:
        """Hand over all that has room."""
        self._scheduled, self._crossing = None, True
        try:
            self._hand_over()
        finally:
            self._crossing = False

    def _hand_over(self) -> None:
        if self._node.phase is Phase.ENDED or self._port is None:
            return
        room, moved = self._node.stack.room, False
        while self._queue:
            action = self._queue[0]
            if type(action.request) is Send:
                if room <= 0:
                    break
                size = len(action.request.bundle.payload)
                room -= size
                self.waiting_bytes -= size
                moved = True
            self._boundary.ask(self._lane, self._real(self._queue.popleft()))
        self._engine.drain()
        if moved:
            self._port.on_moved()

    def part(self, reason: str) -> tuple[ClientId, ...]:
        """End all sessions, ahead of what waits."""
        if self._node.phase is Phase.ENDED or self._port is None:
            return ()
        begun = [action.client for action in self._queue if type(action.request) is Connect]
        clients = (*self._open, *self._provisional.values(), *begun)
        for client in [*self._open, *self._provisional]:
            self._boundary.ask(self._lane, Ask(client, Disconnect()))
        for held in (self._queue, self._open, self._provisional):
            held.clear()
        self.waiting_bytes = 0
        self._crossing = True
        try:
            self._engine.drain()
        finally:
            self._crossing = False
        for client in clients:
            self._port.on_told((client,), Disconnected(reason))
        return clients

    def _real(self, action: Ask) -> Ask:
        if type(action.request) is Connect:
            own = action.client.daemon == self._node.me
            real = action.client if own else self._node.shell.next_id(action.client.name)
            self._provisional[real] = action.client
            return Ask(real, action.request)
        if type(action.request) is Disconnect:
            self._open.pop(action.client, None)
            for real, provisional in self._provisional.items():
                if provisional == action.client:  # it does not wait for the session any more
                    del self._provisional[real]
                    return Ask(real, action.request)
        return action

    def _on_drained(self, at: int) -> None:
        """The daemon has handled all of a wake-up: what it told is the automaton's turn, and then what that asks."""
        del at
        if self._crossing or self._port is None:
            return
        self._crossing = True
        try:
            self._port.on_turn()
        finally:
            self._crossing = False
        if self._queue and self._node.stack.room > 0:
            self._schedule()
            self.on_turn()

    # --- hearing ---------------------------------------------------------------------------------------------------

    def _on_told(self, event: Indicated) -> None:
        receivers, indication = event.receivers, event.indication
        known = self._provisional.pop(receivers[0], None)
        if self._port is None:
            return
        if known is None:
            if type(indication) is Disconnected:
                self._open.pop(receivers[0], None)
            self._port.on_told(receivers, indication)
        elif type(indication) is Connected:
            self._open[receivers[0]] = None
            self._port.on_told(receivers, indication)
        else:
            self._port.on_told((known,), indication)
            if isinstance(indication, Refused):  # as over a stream: there will be no session
                self._port.on_told((known,), Disconnected(indication.reason))

    # --- the end ---------------------------------------------------------------------------------------------------

    async def _watch_node(self) -> None:
        reason = await self._node.closed()
        if self._port is not None:
            self._port.on_broken(f"its daemon ended: {reason or 'stopped'}", None)

    async def close(self, *, clean: bool) -> None:
        """Close sessions that are still open: at B4 that is all there is to do."""
        port, self._port = self._port, None
        if self._watch is not None:
            self._watch.cancel()
        if port is None or self._node.phase is Phase.ENDED:
            return
        left = [action for action in self._queue if clean or type(action.request) is Disconnect]
        for action in left:
            self._boundary.ask(self._lane, self._real(action))
        for client in [*self._open, *self._provisional]:
            self._boundary.ask(self._lane, Ask(client, Disconnect()))
        self._engine.when_drained.remove(self._on_drained)
        self._engine.drain()
