"""A server's log in rows: the order that it makes, or what was written step by step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from isotone.core.contract import StoredLog
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority, Rule
from isotone.corel.records import decode_record
from isotone.host.inspect import dump, read_storage
from isotone.host.store import owner_of


class OrderRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record in the order, or the place of a message that is not green."""

    colour: str
    message: str
    position: int | None = None  # none: it has no final place yet
    record: bytes


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step as it stands in the log."""

    number: int
    step: str
    detail: str


def ledger_at(path: Path, servers: tuple[str, ...] = (), rule: Rule | None = None) -> Ledger:
    """The state of the server whose store this is; raises `LocalProtocolError` when its log is damaged."""
    log = read_storage(path).logs.get(LOG, StoredLog(1, ()))
    return ledger_from(log, servers, rule, ready=not servers or owner_of(path) in servers)


def ledger_from(
    log: StoredLog, servers: tuple[str, ...] = (), rule: Rule | None = None, *, ready: bool = True
) -> Ledger:
    """The state that a log makes; ``servers`` are the founders and ``rule`` is theirs, where they matter.

    ``ready``: whether it is a founder's.
    """
    ledger = Ledger.founded(servers, rule or Majority(servers))
    ledger.ready = ready
    ledger.restore(log)
    return ledger


def order_in(path: Path, first: int = 1, last: int | None = None) -> Iterator[OrderRow]:
    """Green records by position, then yellow, then red."""
    queue = ledger_at(path).queue
    position = queue.forgotten_records
    for place, message in enumerate(queue.held, queue.forgotten + 1):
        colour = "green" if place <= queue.green else "yellow" if place <= queue.yellow else "red"
        for record in message.records:
            position += 1
            if place > queue.green:
                if last is None:
                    yield OrderRow(colour=colour, message=str(message), record=record)
            elif first <= position and (last is None or position <= last):
                yield OrderRow(colour=colour, message=str(message), position=position, record=record)


def steps_in(path: Path, first: int = 1, last: int | None = None) -> Iterator[StepRow]:
    """What was written, by the number of its record."""
    for number, data in dump(path, LOG, first, last):
        if data is None:
            yield StepRow(number=number, step="damaged", detail="")
            continue
        record = decode_record(data)
        detail = ", ".join(f"{name}={_told(getattr(record, name))}" for name in record.__struct_fields__)
        yield StepRow(number=number, step=type(record).__name__, detail=detail)


def _told(value: object) -> str:
    if isinstance(value, tuple) and len(value) > 3:
        return f"{len(value)} × {type(value[0]).__name__}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def text_of(row: OrderRow | StepRow, text_max: int) -> str:
    """One line for people."""
    if isinstance(row, StepRow):
        return f"{row.number:>9} {row.step:<16} {row.detail[: 2 * text_max]}".rstrip()
    shown = row.record[:text_max].decode("utf-8", "backslashreplace")
    more = f" … {len(row.record)} bytes" if len(row.record) > text_max else ""
    position = "-" if row.position is None else str(row.position)
    return f"{position:>9} {row.colour:<6} {row.message:<14} {shown!r}{more}"
