"""From rows to message events: one per message and receiver, because promises are per message and a row per bundle."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from isotone.core.services import Service
from isotone.trace.events import DaemonDelivered, DaemonSent, Delivered, Row, Sent


class MessageEvent(msgspec.Struct, frozen=True, gc=False):
    """One message sent by, or delivered to, one process: a client at EVS-C, a daemon at EVS-S.

    The message is (``sender``, ``sequence``); ``lamport`` is 0 and ``stamper`` empty at a send, and ``groups`` is
    empty at EVS-S. (``node``, ``incarnation``, ``index``) is the row it comes from.
    """

    node: str
    incarnation: int
    index: int
    at: int
    kind: str
    process: str
    sender: str
    sequence: int
    service: Service
    groups: tuple[str, ...]
    length: int
    digest: int
    lamport: int = 0
    stamper: str = ""


def expand(row: Row) -> Iterator[MessageEvent]:
    """The message events of a row: receivers in their order, each with all messages in theirs; other rows have none."""
    match row.entry:
        case Sent() as entry:
            yield from _events(row, entry, "send", sender=entry.client, processes=(entry.client,), groups=entry.groups)
        case DaemonSent() as entry:
            yield from _events(row, entry, "ssend", sender=entry.daemon, processes=(entry.daemon,))
        case Delivered() as entry:
            yield from _events(
                row,
                entry,
                "deliver",
                sender=entry.sender,
                processes=entry.receivers,
                groups=entry.groups,
                stamp=(entry.lamport, entry.stamper),
            )
        case DaemonDelivered() as entry:
            stamp = (entry.lamport, entry.stamper)
            yield from _events(row, entry, "sdeliver", sender=entry.sender, processes=(entry.daemon,), stamp=stamp)
        case _:
            return


def _events(
    row: Row,
    entry: Sent | DaemonSent | Delivered | DaemonDelivered,
    kind: str,
    *,
    sender: str,
    processes: tuple[str, ...],
    groups: tuple[str, ...] = (),
    stamp: tuple[int, str] = (0, ""),
) -> Iterator[MessageEvent]:
    header = (row.node, row.incarnation, row.index, row.at, kind)
    service, sizes = entry.service, list(zip(entry.lengths, entry.digests))
    for process in processes:
        for sequence, (length, digest) in enumerate(sizes, start=entry.first_sequence):
            yield MessageEvent(*header, process, sender, sequence, service, groups, length, digest, *stamp)
