"""Boundary B4 in a daemon: what clients ask and are told is carried between automata here, and recorded.

So the record never depends on the word of the stack that it judges, wherever a client is played: by the sessions
inside of the stack, by the gateway for Spread's clients, or by an automaton in the same process.

Implements: docs/contracts.md, "Boundary B4" and "Who records what".
"""

from __future__ import annotations

from isotone.core.boundary import Ask, Connect, Disconnect, Disconnected, Indicate, Indicated, Requested
from isotone.core.ids import ClientId
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.recording import Recording
from isotone.trace.boundary import entries_of_indication, entry_of_request

PARTED_MAX = 65_536


class Boundary:
    """Between the stack and all who play clients."""

    def __init__(self, engine: Engine, stack: Lane, recording: Recording) -> None:
        self._engine, self._stack, self._recording = engine, stack, recording
        self._players: dict[ClientId, Lane] = {}  # of clients that are not played within the stack
        self._parted: dict[ClientId, None] = {}  # asked to disconnect: their record is closed; the latest
        self._late: set[ClientId] = set()  # went while what they would hear is held behind a write
        engine.on_requested = self._on_requested

    def ask(self, lane: Lane, action: Ask) -> None:
        """A client asks."""
        if lane is not self._stack:
            if type(action.request) is Connect:
                self._players[action.client] = lane
            elif type(action.request) is Disconnect:
                self._players.pop(action.client, None)
        self._engine.post(self._stack, Requested(self._engine.now(), action.client, action.request))

    def _on_requested(self, event: Requested) -> None:
        """Record what a client asks, as its service takes it."""
        if type(event.request) is Disconnect:
            self._part(event.client)
        if self._recording.is_on:
            entry = entry_of_request(event.client, event.request)
            if entry is not None:
                self._recording.record(entry)

    def _part(self, client: ClientId) -> None:
        self._parted[client] = None
        if len(self._parted) > PARTED_MAX:
            del self._parted[next(iter(self._parted))]
        if self._stack.held:
            self._late.add(client)

    def indicate(self, lane: Lane, action: Indicate) -> None:
        """Clients are told."""
        receivers, indication = action.receivers, action.indication
        if self._late and type(indication) is not Disconnected:
            receivers = tuple(receiver for receiver in receivers if receiver not in self._late)
            if not self._stack.held:
                self._late.clear()
            if not receivers:
                return
        if self._recording.is_on:
            told = receivers
            if type(indication) is Disconnected:  # one end per session: the first of asking and hearing
                told = tuple(receiver for receiver in receivers if receiver not in self._parted)
            for entry in entries_of_indication(told, indication):
                self._recording.record(entry)
        at = self._engine.now()
        if not self._players:
            self._engine.post(self._stack, Indicated(at, receivers, indication))
            return
        shares: dict[Lane, list[ClientId]] = {}
        for receiver in receivers:
            shares.setdefault(self._players.get(receiver, self._stack), []).append(receiver)
        if type(indication) is Disconnected:
            for receiver in receivers:
                self._players.pop(receiver, None)
        for player, share in shares.items():
            self._engine.post(player, Indicated(at, tuple(share), indication))
