"""Copies of the order up to a position, and new logs made from a copy.

A copy holds what is green up to its position: the newest snapshot that it needs, and the messages behind it. What is
yellow or red is in no final order, and is not in it. A log that is made from a copy is a new beginning: all servers are
restored from the same copy, and a *fence* keeps whoever was not from ever mixing with them.

Implements: docs/protocols/host.md, "Copies".
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import msgspec

from isotone.core.contract import Storage, StoredLog
from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message, Origin
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import Rule
from isotone.corel.records import encode_record
from isotone.corel.recover import begin_anew
from isotone.host.dumping import ledger_at, ledger_from
from isotone.host.scrub import create
from isotone.trace.layout import sync_directory

VERSION = 1
HEADLINE = b"isotone backup "
MAGIC = HEADLINE + b"%d\n" % VERSION
CHECKSUM_BYTES = 4


class Backup(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What stands in the file."""

    server: str
    position: int
    fence: int  # of the log that it was made from
    records: tuple[bytes, ...]  # of a log that holds just this


def cut_at(ledger: Ledger, position: int | None = None) -> Ledger:
    """The same order up to this position and nothing else; raises `InputError` when that is not kept."""
    queue, snapshot = ledger.queue, ledger.snapshot
    wanted = queue.green_records if position is None else position
    if not 0 <= wanted <= queue.green_records:
        raise InputError(f"position {wanted} is not green here: the order ends at {queue.green_records}")
    if snapshot is not None and snapshot.head.position > wanted:
        snapshot = None
    if queue.forgotten and (snapshot is None or wanted < queue.forgotten_records):
        raise InputError(f"position {wanted} is no longer kept: the oldest is {oldest_position(ledger)}")
    kept = _kept(queue, wanted)
    place = queue.forgotten + len(kept)
    cut = Ledger(ledger.history)
    cut.queue = MessageQueue(
        queue.forgotten, place, place, wanted, kept, _counters(queue, place), queue.lamport, queue.forgotten_records
    )
    cut.queue.configuration, cut.queue.changed_at = queue.configuration, min(queue.changed_at, place)
    cut.committed, cut.attempted, cut.base, cut.snapshot = ledger.committed, ledger.attempted, place, snapshot
    (cut.context, cut.context_applied), cut.fence = ledger.level, ledger.fence
    return cut


def oldest_position(ledger: Ledger) -> int:
    """The first position to which this log can be restored."""
    if not ledger.queue.forgotten:
        return 0
    return ledger.snapshot.head.position if ledger.snapshot is not None else ledger.queue.green_records


def _kept(queue: MessageQueue, position: int) -> list[Message]:
    """The green messages up to it; of the last one perhaps not all records."""
    kept: list[Message] = []
    left = position - queue.forgotten_records
    for message in queue.between(queue.forgotten, queue.green):
        if left <= 0 and message.records:
            break
        kept.append(msgspec.structs.replace(message, records=message.records[:left]))
        left -= len(kept[-1].records)
    return kept


def _counters(queue: MessageQueue, place: int) -> dict[Origin, int]:
    """Of each origin the last message up to a place."""
    counters = dict(queue.counters)
    for message in reversed(queue.between(place, queue.end)):
        counters[message.origin] = message.counter - 1
    return {origin: counter for origin, counter in counters.items() if counter}


# --- making one ---------------------------------------------------------------------------------------------------


def back_up(store: Path, server: str, target: Path, position: int | None = None) -> Backup:
    """Write a copy of a server's log to a new file; the server may run meanwhile."""
    ledger = cut_at(_sound_ledger(store), position)
    records = tuple(map(encode_record, checkpoint_of(ledger)))
    backup = Backup(server, ledger.queue.green_records, ledger.fence, records)
    body = msgspec.msgpack.encode(backup)
    try:
        with open(target, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(MAGIC + crc32(body).to_bytes(CHECKSUM_BYTES, "little") + body)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(target.parent)
    except FileExistsError:
        raise InputError(f"{target} exists already: a copy never takes the place of another") from None
    except OSError as error:
        raise MachineError(f"cannot write {target}: {error.strerror}") from error
    return backup


def _sound_ledger(store: Path) -> Ledger:
    try:
        return ledger_at(store)
    except InputError:
        raise
    except IsotoneError as error:
        raise InputError(f"{store}: {error}; nothing is copied from it") from error


def read_backup(path: Path) -> Backup:
    """What a copy holds; raises `InputError` when it is none, or damaged."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    head, body = data[: len(MAGIC)], data[len(MAGIC) + CHECKSUM_BYTES :]
    if head != MAGIC:
        raise InputError(f"{path} is no copy of a replicated log{_other_version(data)}")
    if crc32(body) != int.from_bytes(data[len(MAGIC) : len(MAGIC) + CHECKSUM_BYTES], "little"):
        raise InputError(f"{path} is damaged: take another copy")
    try:
        return msgspec.msgpack.decode(body, type=Backup)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path} is no copy of this version: {error}") from None


def _other_version(data: bytes) -> str:
    """That it is one that another program wrote, if it is."""
    number = data.removeprefix(HEADLINE).partition(b"\n")[0]
    if not (data.startswith(HEADLINE) and number.isdigit() and len(number) < 4):
        return ""
    return f" that this program can read: it has version {number.decode()}, and this program {VERSION}"


# --- beginning anew from one ----------------------------------------------------------------------------------------


def new_fence(backup: Backup) -> int:
    """Above every one that the log knew, and above those of earlier restores."""
    return max(backup.fence + 1, int(time.time()))


def restore(
    backup: Backup,
    stores: dict[str, Path],
    *,
    servers: Sequence[str],
    rule: Rule,
    fence: int,
    position: int | None = None,
) -> int:
    """Make a new store for each of these servers of a log with all these; returns the position where it goes on."""
    if fence <= backup.fence:
        raise InputError(f"the fence must be above {backup.fence}, that of the old log")
    ledger = cut_at(ledger_from(StoredLog(1, backup.records)), position)
    try:
        begin_anew(ledger, servers, rule, fence)
    except LocalProtocolError as error:
        raise InputError(f"{error}: name other servers in the settings") from error
    for server, path in stores.items():
        lives = [origin.life for origin in ledger.queue.counters if origin.server == server]
        ledger.life = max(lives, default=0)
        records = tuple(map(encode_record, checkpoint_of(ledger)))
        create(path, server, Storage(logs={LOG: StoredLog(1, records)}))
    return ledger.queue.green_records
