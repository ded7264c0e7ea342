"""A trace for people: one compact line per row, stable enough to be compared in scenario files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from isotone.trace.events import (
    DaemonDelivered,
    DaemonSent,
    DaemonViewDelivered,
    Delivered,
    Entry,
    Row,
    Sent,
    SignalDelivered,
    ViewDelivered,
)


def line_of(row: Row) -> str:
    """Virtual milliseconds, node and incarnation, what happened."""
    node = f"{row.node}#{row.incarnation}" if row.node else "driver"
    return f"{row.at / 1000:>10.3f}  {node:<8} {text_of(row.entry)}"


def text_of(entry: Entry) -> str:
    """An entry in one line: its kind, then what matters."""
    tell = _TELLERS.get(type(entry), _plain)
    return tell(entry).rstrip()


def _plain(entry: Entry) -> str:
    values = [getattr(entry, name) for name in entry.__struct_fields__]
    return " ".join([_kind(entry), *map(_value, values)])


def _sent(entry: Sent) -> str:
    groups = " ".join(entry.groups)
    return f"send {_range(entry.client, entry)} {entry.service.name.lower()} {groups} {_sizes(entry)}"


def _delivered(entry: Delivered) -> str:
    stamp = f"at {entry.lamport}!{entry.stamper}"
    groups = " ".join(entry.groups)
    what = f"{_range(entry.sender, entry)} {entry.service.name.lower()} {groups}"
    return f"deliver {what} {stamp} -> {' '.join(entry.receivers)}"


def _view(entry: ViewDelivered) -> str:
    subject = f" {entry.subject}" if entry.subject else ""
    members = _value(entry.members)
    came = "" if entry.transitional == entry.members else f" with {_value(entry.transitional)}"
    return f"view {entry.group} {entry.view} {members}{came} by {entry.cause}{subject} -> {' '.join(entry.receivers)}"


def _signal(entry: SignalDelivered) -> str:
    return f"transsig {entry.group} {entry.view} -> {' '.join(entry.receivers)}"


def _daemon_sent(entry: DaemonSent) -> str:
    return f"ssend {entry.first_sequence} {entry.service.name.lower()}"


def _daemon_delivered(entry: DaemonDelivered) -> str:
    return f"sdeliver {entry.lamport}!{entry.stamper} {entry.service.name.lower()}"


def _daemon_view(entry: DaemonViewDelivered) -> str:
    came = "" if entry.transitional == entry.members else f" with {_value(entry.transitional)}"
    return f"sview {entry.view} {_value(entry.members)}{came}"


_TELLERS: dict[type[Entry], Callable[[Any], str]] = {
    Sent: _sent,
    Delivered: _delivered,
    ViewDelivered: _view,
    SignalDelivered: _signal,
    DaemonSent: _daemon_sent,
    DaemonDelivered: _daemon_delivered,
    DaemonViewDelivered: _daemon_view,
}


def _kind(entry: Entry) -> str:
    return str(entry.__struct_config__.tag)


def _range(client: str, entry: Sent | Delivered) -> str:
    last = entry.first_sequence + len(entry.lengths) - 1
    return f"{client}:{entry.first_sequence}" + (f"..{last}" if last > entry.first_sequence else "")


def _sizes(entry: Sent) -> str:
    return f"({' '.join(map(str, entry.lengths))} bytes)"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "{" + " ".join(map(_value, value)) + "}"
    if isinstance(value, msgspec.Struct):
        return str(value)
    return "yes" if value is True else "no" if value is False else str(value)
