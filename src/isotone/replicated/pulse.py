"""What a program does by its own clock: renew its session, tick as a server, and hand in snapshots.

A server ticks for a round of the lease clock when it has *seen* it last for a full round's time; more than half of the
servers must. So between two rounds the clocks of most servers have measured that time, whatever one of them does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from isotone.core.errors import IsotoneError
from isotone.replicated.records import Announced, Ticked, encode

if TYPE_CHECKING:
    from isotone.replicated.state import ReplicatedState

SNAPSHOT_BYTES = 8 * 1024 * 1024
SNAPSHOT_EVERY_US = 300_000_000
APPEND_WITHIN_S = 30.0


class Pulse:
    """Of one program."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state
        self._round_seen_us = 0  # when the present round was first seen here
        self._ticking: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_us = 0  # when a renewal was last sent
        self._snapshot_us = 0
        self._announced: set[str] = set()

    def on_round(self) -> None:
        """The lease clock advanced."""
        self._round_seen_us = self._state.now()

    async def run(self) -> None:
        """Until the program is done."""
        state = self._state
        self._round_seen_us = self._snapshot_us = state.now()
        every_s = min(state.round_us, 1_000_000) / 4 / 1_000_000
        while True:
            await asyncio.sleep(every_s)
            now = state.now()
            self._look_at_session(now)
            if state.server:
                self._look_at_round(now)
                self._announce()
                await self._look_at_snapshot(now)

    def _look_at_session(self, now: int) -> None:
        session = self._state.session
        if session is None or not session.number or session.is_over:
            return
        is_free = self._renewing is None or self._renewing.done()
        if is_free and now - max(session.heard_us, self._renewed_us) >= session.renew_every_us:
            self._renewed_us = now
            self._renewing = self._state.spawn(self._renew(now), "renew")

    async def _renew(self, sent: int) -> None:
        session = self._state.session
        assert session is not None
        with suppress(IsotoneError):
            position = await self._state.append(session.renew_record(), session.trust_us / 1_000_000)
            await self._state.applied_beyond(position - 1)
            session.renewed(sent)

    def _look_at_round(self, now: int) -> None:
        state = self._state
        is_free = self._ticking is None or self._ticking.done()
        has_lasted = now - self._round_seen_us >= state.round_us
        if not (is_free and has_lasted and state.machine.state.sessions) or state.why_no_order():
            return
        if state.server not in state.machine.state.ticked:
            tick = Ticked(state.server, state.machine.state.round, state.servers())
            self._ticking = state.spawn(self._append(encode(tick)), "tick")

    def _announce(self) -> None:
        """Which commands and procedures this server's program knows."""
        state = self._state
        for kind, commands in state.machine.known.items():
            if kind not in self._announced and not state.why_no_order():
                self._announced.add(kind)
                record = Announced(state.server, state.servers(), kind, commands)
                state.spawn(self._send_announcement(kind, encode(record)), "announce")

    async def _send_announcement(self, kind: str, record: bytes) -> None:
        try:
            await self._state.append(record, APPEND_WITHIN_S)
        except IsotoneError:
            self._announced.discard(kind)  # again, at the next look

    async def _append(self, record: bytes) -> None:
        with suppress(IsotoneError):
            await self._state.append(record, APPEND_WITHIN_S)

    async def _look_at_snapshot(self, now: int) -> None:
        state = self._state
        is_due = state.record_bytes >= SNAPSHOT_BYTES
        is_due = is_due or (state.record_bytes > 0 and now - self._snapshot_us >= SNAPSHOT_EVERY_US)
        if is_due:
            self._snapshot_us = now
            await state.offer_snapshot()
