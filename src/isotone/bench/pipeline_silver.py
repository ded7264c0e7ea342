"""The same traces written as silver at once, for sizes at which the way there would be most of a measurement.

The columns are those of `isotone.pipeline.schema.SILVER`. ``content`` is another hash than Spark's, which is only
compared.

Implements: [DESIGN 5], silver. Deviations: none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from isotone.bench.pipeline_trace import PART_ROWS, HotGroup, Load, Written
from isotone.core.ids import DaemonViewId, GroupViewId, Stamp
from isotone.trace import events as trace
from isotone.trace.columns import columns_of
from isotone.trace.events import Entry, Row
from isotone.trace.parquet import require_pyarrow

_BITS = (1 << 64) - 1
_NAMES = ("clients", "groups", "members", "transitional", "reason", "network", "servers")


def _form() -> Any:
    arrow = require_pyarrow()
    long, text, texts = arrow.int64(), arrow.string(), arrow.list_(arrow.string())
    place = [("name", text), ("incarnation", long)]
    daemon_view, stamp = arrow.struct([("epoch", long), *place]), arrow.struct([("lamport", long), *place])
    view = arrow.struct([("daemon_view", daemon_view), ("next_daemon_view", daemon_view), ("stamp", stamp)])
    return arrow.schema([
        ("run", text), ("node", text), ("incarnation", long), ("index", long), ("at", long), ("kind", text),
        ("clients", texts), ("groups", texts), ("service", arrow.int32()), ("sender", text), ("first", long),
        ("count", arrow.int32()), ("lengths", arrow.list_(arrow.int32())), ("digests", arrow.list_(long)),
        ("content", long), ("stamp", stamp), ("view", view), ("members", texts), ("transitional", texts),
        ("network", text), ("servers", texts), ("lost", long), ("reason", text),
        ("components", arrow.list_(texts)), ("quiet", arrow.bool_()),
    ])  # fmt: skip


def write_silver(directory: Path, run: str, load: Load) -> Written:
    """Write the table, in parts; rows are as the trace has them."""
    directory.mkdir(parents=True, exist_ok=True)
    source = HotGroup(load)
    waiting: list[dict[str, Any]] = []
    number = 0
    for row in source:
        waiting.append(_columns(run, row))
        if len(waiting) >= PART_ROWS:
            _write(directory, number, waiting)
            waiting, number = [], number + 1
    _write(directory, number, waiting)
    return Written(source.deliveries, source.rows, source.bundles, source.views, source.planted)


def _write(directory: Path, number: int, rows: list[dict[str, Any]]) -> None:
    arrow = require_pyarrow()
    table = arrow.Table.from_pylist(rows, schema=_form())
    arrow.parquet.write_table(table, directory / f"{number:06d}.parquet", compression="zstd")


def _columns(run: str, row: Row) -> dict[str, Any]:
    told = {"run": run, "node": row.node, "incarnation": row.incarnation, "index": row.index, "at": row.at}
    entry = row.entry
    if isinstance(entry, trace.Sent | trace.DaemonSent | trace.Delivered | trace.DaemonDelivered):
        return told | _message(entry)
    columns = columns_of(entry)
    if isinstance(entry, trace.NetworkSent | trace.NetworkReceived):
        return told | _packet(columns)
    extra = msgspec.json.decode(columns.get("extra") or "{}")
    view = getattr(entry, "view", None)
    return told | {
        "kind": columns["kind"],
        **{name: columns.get(name) for name in _NAMES},
        "view": None if view is None else _view(view),
        "components": extra.get("components"),
        "quiet": extra.get("quiet"),
    }


def _message(entry: Entry) -> dict[str, Any]:
    columns = columns_of(entry)
    digests = [_signed(each) for each in columns["digests"]]
    lamport, stamper = columns.get("lamport"), columns.get("stamper")
    stamp = None
    if lamport is not None and stamper is not None:
        name, _, number = stamper.rpartition("#")
        stamp = {"lamport": lamport, "name": name, "incarnation": int(number)}
    return {
        "kind": columns["kind"], "clients": columns["clients"], "groups": columns.get("groups"),
        "service": int(entry.service),  # type: ignore[attr-defined]
        "sender": columns.get("sender"), "first": columns["first_sequence"], "count": len(digests),
        "lengths": columns["lengths"], "digests": digests, "content": (hash(tuple(digests)) & _BITS) - (1 << 63),
        "stamp": stamp,
    }  # fmt: skip


def _packet(columns: dict[str, Any]) -> dict[str, Any]:
    told = {name: columns.get(name) for name in ("kind", "clients", "sender", "network")}
    return told | {"first": columns["first_sequence"], "digests": [_signed(each) for each in columns["digests"]]}


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _view(id: GroupViewId | DaemonViewId) -> dict[str, Any]:
    whole = id if isinstance(id, GroupViewId) else GroupViewId(id)
    return {
        "daemon_view": _daemon_view(whole.daemon_view),
        "next_daemon_view": _daemon_view(whole.next_daemon_view),
        "stamp": _stamp(whole.stamp),
    }


def _daemon_view(id: DaemonViewId) -> dict[str, Any]:
    return {"epoch": id.epoch, "name": id.coordinator.name, "incarnation": id.coordinator.incarnation}


def _stamp(id: Stamp) -> dict[str, Any]:
    return {"lamport": id.lamport, "name": id.daemon.name, "incarnation": id.daemon.incarnation}
