"""Whether the disk has room left: a server with less than its reserve takes no new records, and votes on.

It takes records again when a quarter more than the reserve is free, so that it does not go back and forth at the limit.
A file system that cannot be asked changes nothing, and is said once; it is asked again. One that does not answer is
waited for, in a thread that nobody else needs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from isotone.core.errors import MachineError
from isotone.host.aside import in_thread
from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")

LOOK_EVERY_S = 1.0
MARGIN = 4
"""So small a part of the reserve must be free beside it before records are taken again."""

Room = Callable[[Path], int]


def room_at(path: Path) -> int:
    """Free bytes of the file system, for us."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


class Reserve:
    """Whether there is too little room; it changes back later than it changed."""

    def __init__(self, reserve_bytes: int) -> None:
        self.bytes, self.is_low = reserve_bytes, False

    def look(self, room: int) -> bool:
        """Whether that changed, with so much room."""
        was_low = self.is_low
        self.is_low = room < self.bytes + (self.bytes // MARGIN if was_low else 0)
        return self.is_low != was_low


async def watch_room(
    replicated: ReplicaLog, reserve_bytes: int, every_s: float = LOOK_EVERY_S, room_of: Room = room_at
) -> None:
    """Look now and then, until cancelled or the replica has ended; tell the replica when it changes."""
    path, server = replicated.host.machinery.store.path, replicated.settings.server
    reserve, problem = Reserve(reserve_bytes), ""
    while reserve_bytes and not replicated.has_ended:
        try:
            room = await in_thread(asyncio.get_running_loop(), partial(room_of, path))
        except OSError as error:
            if problem != str(error):
                problem = str(error)
                log.error("replica %s cannot tell how much room its disk has: %s", server, error)
        else:
            problem = ""
            if reserve.look(room):
                _tell(replicated, reserve, room)
        await asyncio.sleep(every_s)


def _tell(replicated: ReplicaLog, reserve: Reserve, room: int) -> None:
    taken = "takes no new records" if reserve.is_low else "takes new records again"
    server = replicated.settings.server
    log.warning("replica %s %s: %d bytes are free, %d are its reserve", server, taken, room, reserve.bytes)
    with suppress(MachineError):  # it ends just now
        replicated.tell_room(is_low=reserve.is_low)
