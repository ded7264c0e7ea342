"""Linearizable reads in rounds: all that begin in one turn share one mark in the order.

A read that began before its mark was appended, and reads when the mark is applied, sees every command that was answered
before it began: such a command is green, and nothing that is appended later stands before it.

Implements: [COReL 8.1], queries that are ordered with the updates; docs/protocols/replicated.md "Reads".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from isotone.core.errors import IsotoneError
from isotone.replicated.errors import ReadNotSettled
from isotone.replicated.records import READ_MARK

if TYPE_CHECKING:
    from isotone.replicated.state import ReplicatedState

AGAIN_S = 0.05
ROUNDS_MAX = 4
"""Marks under way at a time; reads that begin meanwhile share the next one."""


class ReadRounds:
    """Of one program."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state
        self._next: asyncio.Future[None] | None = None  # the round that gathers
        self._under_way = 0

    async def go_behind(self, *, stale_ok: bool, at_least: int | None, within_s: float | None) -> None:
        """Wait as the caller chose; `ReadNotSettled` when it cannot be done in time, or at all."""
        if stale_ok:
            return
        try:
            async with asyncio.timeout(within_s):
                if at_least is not None:
                    await self._state.applied_beyond(at_least - 1)
                else:
                    await self._share_round(is_timed=within_s is not None)
        except TimeoutError:
            why = self._state.why_no_order() or "the log did not order it in time"
            raise ReadNotSettled(f"{why} (stale_ok=True reads what is known here)") from None

    async def _share_round(self, *, is_timed: bool) -> None:
        while True:
            try:
                return await asyncio.shield(self._gathering())
            except ReadNotSettled:
                if not is_timed:
                    raise
            await asyncio.sleep(AGAIN_S)  # whoever gave a time waits for it

    def _gathering(self) -> asyncio.Future[None]:
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            self._next.add_done_callback(lambda done: done.cancelled() or done.exception())
            if self._under_way < ROUNDS_MAX:
                loop.call_soon(self._send)
        return self._next

    def _send(self) -> None:
        if self._next is not None and self._under_way < ROUNDS_MAX:
            gathered, self._next = self._next, None
            if self._state.failure is not None:
                gathered.set_exception(self._state.failure)
                return
            self._under_way += 1
            self._state.spawn(self._round(gathered), "read")

    async def _round(self, gathered: asyncio.Future[None]) -> None:
        try:
            position = await self._state.append(READ_MARK, None)
            await self._state.applied_beyond(position - 1)
            if not gathered.done():
                gathered.set_result(None)
        except IsotoneError as error:
            if not gathered.done():
                unsettled = ReadNotSettled(f"{error} (stale_ok=True reads what is known here)")
                gathered.set_exception(self._state.failure or unsettled)
        finally:
            self._under_way -= 1
            if not gathered.done():
                gathered.cancel()
            self._send()
