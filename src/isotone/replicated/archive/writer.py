"""Writes an ordered log to an archive, segment by segment, as long as it is told to.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError
from isotone.core.ordered_log import LogEntry
from isotone.replicated.archive.segments import SEGMENT_RECORDS_MAX, whole_segment
from isotone.replicated.archive.store import Archive, Listing

log = logging.getLogger("isotone.archive")

READ_MAX = 512
LOOK_EVERY_S = 1.0
AGAIN_AFTER_S = 5.0


class ArchiveSource(Protocol):
    """What is archived: positions without gaps, the same at every server."""

    async def read(self, first: int, last: int) -> list[LogEntry]:
        """The entries first … last as far as they exist; raises `LocalProtocolError` before the oldest one kept."""
        ...

    async def end(self) -> int:
        """The last position, 0 when there is none."""
        ...


class ArchiveWriter:
    """Of one server. Whoever `may_write` writes; the others look how far the archive has come.

    ``on_archived`` hears the last position that the archive holds durably, whoever wrote it, so that the log may be cut
    there; ``on_problem`` why the archive does not go on, and an empty text when it does again.
    """

    def __init__(
        self,
        source: ArchiveSource,
        archive: Archive,
        *,
        may_write: Callable[[], bool] = lambda: True,
        on_archived: Callable[[int], None] = lambda position: None,
        on_problem: Callable[[str], None] = lambda problem: None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._log, self._archive = source, archive
        self._may_write, self._on_archived, self._on_problem = may_write, on_archived, on_problem
        self._look_every_s = look_every_s
        self.end = 0  # the last position that is known to be in the archive
        self.problem = ""  # why it does not go on; empty when all is well

    async def run(self) -> None:
        """Until it is cancelled. What fails is said once, and tried again."""
        while True:
            try:
                await self.step()
                self._note("")
                pause = self._look_every_s
            except IsotoneError as error:
                self._note(str(error))
                pause = AGAIN_AFTER_S
            await asyncio.sleep(pause)

    def _note(self, problem: str) -> None:
        if problem == self.problem:
            return
        if problem:
            log.error("the archive waits: %s", problem)
        else:
            log.info("the archive goes on")
        self.problem = problem
        self._on_problem(problem)

    async def step(self) -> int:
        """Look how far the archive is, and write all whole segments behind that; how many were written."""
        listing = await asyncio.to_thread(self._durable_listing)
        end, written = listing.end, 0
        self._reached(end)
        if self._may_write() and listing.unfinished:
            await asyncio.to_thread(self._archive.remove_unfinished, listing)
        while self._may_write() and (entries := await self._next_segment(end)):
            await asyncio.to_thread(self._archive.write, entries)
            end, written = entries[-1].position, written + 1
            self._reached(end)
        return written

    def _durable_listing(self) -> Listing:
        """Whoever wrote a segment may have died before its name was on disk."""
        listing = self._archive.listing()
        if listing.end > self.end:
            self._archive.sync(listing.segments)
        return listing

    async def _next_segment(self, end: int) -> list[LogEntry]:
        """The entries of the segment behind this position, if they are all there."""
        entries: list[LogEntry] = []
        last = await self._log.end()
        while True:
            first = end + 1 + len(entries)
            try:
                more = await self._log.read(first, min(last, first + READ_MAX - 1)) if first <= last else []
            except LocalProtocolError as error:
                raise MachineError(
                    f"the archive ends at {end}, and the log no longer has what follows: {error}. "
                    "An archive has to be configured before a log is cut for the first time"
                ) from error
            entries += more
            if count := whole_segment(entries):
                return entries[:count]
            if not more:
                return []
            assert len(entries) <= SEGMENT_RECORDS_MAX, "a whole segment would have been found"

    def _reached(self, position: int) -> None:
        if position > self.end:
            self.end = position
            self._on_archived(position)
