"""Whether the disk has room left: a server with less than its reserve takes no new records, and votes on."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")

LOOK_EVERY_S = 1.0


def room_at(path: Path) -> int:
    """Free bytes of the file system, for us."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


async def watch_room(replicated: ReplicaLog, reserve_bytes: int, every_s: float = LOOK_EVERY_S) -> None:
    """Look now and then, until cancelled; tell the replica when it changes."""
    path = replicated.host.machinery.store.path
    was_low = False
    while reserve_bytes and not replicated.has_ended:
        room = await asyncio.to_thread(room_at, path)
        is_low = room < reserve_bytes
        if is_low != was_low:
            was_low = is_low
            taken = "takes no new records" if is_low else "takes new records again"
            server = replicated.settings.server
            log.warning("replica %s %s: %d bytes are free, %d are its reserve", server, taken, room, reserve_bytes)
            replicated.tell_room(is_low=is_low)
        await asyncio.sleep(every_s)
