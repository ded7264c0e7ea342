"""What a HAB process writes into the trace, as rows made from its state."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from isotone.core.contract import Record
from isotone.hab.centre import Centre, Role, Snapshot
from isotone.hab.configuration import Group
from isotone.hab.messages import Declaration, Entry
from isotone.hab.settings import HabSettings, Mode
from isotone.trace import hab as trace

AHEAD = "ahead"


def message_name(process: str, incarnation: int, counter: int) -> str:
    """How the trace names a broadcast."""
    return f"{process}.{incarnation}:{counter}"


def digest_of(record: bytes) -> int:
    """64 bits over a record, without a sign."""
    return int.from_bytes(blake2b(record, digest_size=8).digest(), "little") >> 1


def delivered(process: str, centre: Centre, settings: HabSettings, records: Sequence[Entry], last: int) -> Record:
    """Records are delivered, up to the entry ``last``.

    One that becomes the primary by a hand-over delivers what it stored as a backup: that is not ahead of the others.
    """
    confirmed = centre.log.position_at(min(centre.confirmed, centre.log.end))
    role = centre.role.value
    if centre.role is Role.PRIMARY and last > centre.confirmed:
        if last <= centre.start:
            role = Role.BACKUP.value
        elif settings.mode is Mode.AT_ONCE:
            role = AHEAD
    row = trace.HaDelivered(
        process,
        centre.name,
        centre.number,
        centre.epoch,
        centre.life,
        role,
        records[0].position,
        tuple(message_name(entry.origin, entry.incarnation, entry.counter) for entry in records),
        tuple(digest_of(entry.record) for entry in records),
        confirmed,
        settings.ahead_max if role == AHEAD else 0,
    )
    return Record(row)


def installed(process: str, centre: Centre, snapshot: Snapshot | None, *, replayed: bool) -> Record:
    """The centre begins behind a snapshot."""
    position = snapshot.position if snapshot is not None else 0
    digest = digest_of(snapshot.state) if snapshot is not None else 0
    return Record(trace.HaInstalled(process, centre.name, centre.number, centre.life, position, digest, replayed))


def role(process: str, centre: Centre, why: str) -> Record:
    """The role, epoch or leader is another one."""
    value = centre.role.value
    return Record(trace.HaRole(process, centre.name, centre.number, centre.epoch, centre.life, value, why))


def declared(process: str, centre: Centre, lost: Group, declaration: Declaration, *, effective: bool) -> Record:
    """A declaration is known here."""
    row = trace.HaDeclared(
        process,
        centre.name,
        lost.name,
        lost.number,
        declaration.recorders,
        effective,
        declaration.override,
        declaration.confessed,
    )
    return Record(row)
