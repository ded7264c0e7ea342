"""Put right bytes in the place of damaged ones, and make a store from what another one held."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from isotone.core.contract import Append, Put, Storage
from isotone.core.errors import InputError, LocalProtocolError
from isotone.host.inspect import readable
from isotone.host.replay import read_log
from isotone.host.segments import Found, escape
from isotone.host.store import LOGS, Store, owner_of
from isotone.host.writes import Repair, StoreWrite


def check_repair(found: Found, number: int, record: bytes) -> None:
    """Refuse to replace what is good, and bytes that are not those whose checksum is known."""
    if not found.first <= number < found.next:
        raise LocalProtocolError(
            f"the log {found.log!r} has the records {found.first} to {found.next - 1}, no {number}"
        )
    if number in found.records:
        raise LocalProtocolError(f"record {number} of the log {found.log!r} is not damaged")
    place = found.bad.get(number)
    if place is not None and (place.length, place.checksum) != (len(record), crc32(record)):
        raise LocalProtocolError(f"these are not the bytes that record {number} of the log {found.log!r} had")


def repair(path: Path, log: str, records: Mapping[int, bytes]) -> tuple[int, ...]:
    """Repair records of a store that nobody uses; returns the numbers that are still damaged."""
    directory = path / LOGS / escape(log)
    if not directory.is_dir():
        raise InputError(f"{path} has no log {log!r}")
    found = read_log(directory)
    for number, record in records.items():
        check_repair(found, number, record)
    store = Store(path)
    store.open(owner_of(path))
    try:
        store.commit([Repair(log, number, record) for number, record in records.items()])
    finally:
        store.close()
    return read_log(directory, keep=False).damaged


def create(path: Path, name: str, storage: Storage) -> None:
    """A new store that holds this, for a restore; what is damaged there cannot be restored."""
    for log, stored in storage.logs.items():
        if stored.damaged:
            raise InputError(
                f"records of the log {log!r} are damaged, the first {stored.damaged[0]}: nothing is restored"
            )
    with readable(path):
        if path.exists() and any(path.iterdir()):
            raise InputError(f"{path} is not empty: a store is restored to a new directory")
    store = Store(path)
    store.open(name)
    try:
        for log, stored in storage.logs.items():
            store.begin_log(log, stored.first)
        writes: list[StoreWrite] = [Put(cell, value) for cell, value in storage.cells.items()]
        for log, stored in storage.logs.items():
            writes += [Append(log, record) for record in stored.records]
        store.commit(writes)
    finally:
        store.close()
