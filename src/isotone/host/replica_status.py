"""How a replica stands, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from isotone.corel.configuration import decode_rule
from isotone.corel.explain import WAITS_MAX, whom_it_waits_for
from isotone.host.store import Sync

if TYPE_CHECKING:
    from isotone.host.replica_log import ReplicaLog

SYNC_NAMES = {Sync.EVERY_COMMIT: "every-commit", Sync.LEFT_TO_THE_SYSTEM: "left-to-the-system"}
OLDEST_MAX = 5


class OpenMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not green, and why."""

    message: str
    records: int
    why: str


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One server, as it says itself."""

    server: str
    group: str
    is_primary: bool
    why_no_primary: str  # empty in a primary component
    standing: str
    reason: str  # of the last change of the standing
    here: tuple[str, ...]  # servers in the present view
    servers: tuple[str, ...]  # all that vote
    is_voter: bool
    fence: int  # how often a primary component was forced
    waits_for: tuple[tuple[str, ...], ...]  # any of these sets, with those who are here, would be a quorum, or begin it
    awaited: tuple[str, ...]  # whose word is missing now
    quorum: str
    primary: int  # the number of the last primary component that it committed to
    life: int
    first_position: int  # the oldest that is kept
    green_position: int
    white_position: int
    green_messages: int
    yellow_messages: int
    red_messages: int
    not_green: tuple[OpenMessage, ...]  # the oldest of them
    waiting_appends: int
    sync: str
    commits: int
    syncs: int
    disk: str  # what is wrong with it, if anything
    archived_position: int | None  # up to here the log is in its archive; None: it has none
    archive: str  # why that does not go on, if it does not


def status_of(log: ReplicaLog) -> ReplicaStatus:
    """As it is now."""
    replica = log.replica
    queue, disk = replica.ledger.queue, log.host.machinery.disk
    no_primary = log.why_no_primary()
    oldest = queue.between(queue.green, min(queue.end, queue.green + OLDEST_MAX))
    return ReplicaStatus(
        server=log.settings.server,
        group=log.settings.group,
        is_primary=log.is_primary,
        why_no_primary=no_primary,
        standing=replica.standing.value,
        reason=log.standing.reason,
        here=replica.session.servers,
        servers=queue.configuration.servers,
        is_voter=log.settings.server in queue.configuration.servers,
        fence=replica.ledger.fence,
        waits_for=() if log.is_primary else tuple(whom_it_waits_for(replica)[:WAITS_MAX]),
        awaited=replica.awaited(),
        quorum=decode_rule(queue.configuration.rule).describe(),
        primary=replica.ledger.committed,
        life=replica.ledger.life,
        first_position=log.entries.first,
        green_position=log.entries.end,
        white_position=log.white_position,
        green_messages=queue.green,
        yellow_messages=queue.yellow - queue.green,
        red_messages=queue.end - queue.yellow,
        not_green=tuple(
            OpenMessage(message=name, records=len(each.records), why=log.why_not_green(name, no_primary=no_primary))
            for each in oldest
            for name in (str(each),)
        ),
        waiting_appends=log.waiting_appends,
        sync=SYNC_NAMES[log.sync],
        commits=disk.commits,
        syncs=disk.syncs,
        disk=disk.failed or _disk_of(log),
        archived_position=log.archived,
        archive=log.archive_problem,
    )


def _disk_of(log: ReplicaLog) -> str:
    """What is wrong with it while it does not fail."""
    hanging = log.host.disk_watch.hanging
    if hanging:
        return f"{hanging}: this server has left its group until it does"
    return "nearly full: no new records are taken" if log.disk_is_low else ""
