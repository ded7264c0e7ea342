"""Runs that fit into a task: the plain checker itself, over all rows of a run, in one task for each run.

A query costs seconds before it looks at a row, and an exact look at a violated run costs many queries; the plain
checker judges a run of some hundred thousand rows in the same time. The large-run path is for larger ones.

Implements: [DESIGN 4]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.pipeline.conformance.layers import verdicts_table
from isotone.pipeline.schema import VERDICTS
from isotone.spec.check import Checker
from isotone.spec.check.layers import LAYERS, layer_entries
from isotone.spec.properties import PROPERTIES, Boundary, Form
from isotone.spec.verdicts import Verdict
from isotone.trace import events as trace
from isotone.trace.columns import entry_of
from isotone.trace.events import Entry, Row
from isotone.trace.merge import Stream, merge
from isotone.trace.vocabulary import kind_of

WHOLE_ROWS_MAX = 300_000
"""Runs of more rows are judged by queries."""
LABELS_MAX = 1000
"""Of group communication; those of the layers above stand behind them."""
LAYER_LABELS_MAX = 1000
_COLUMNS = (
    *("node", "incarnation", "index", "at", "kind", "clients", "groups", "service", "sender", "first", "lengths"),
    *("digests", "stamp", "view", "members", "transitional", "network", "servers", "lost", "components", "quiet"),
    "extra",
)
_BITS = (1 << 64) - 1
_LAYER_KINDS = frozenset(map(kind_of, layer_entries()))


def judge_whole_runs(silver: DataFrame) -> DataFrame:
    """All verdicts of these runs: run, label, state, witness, place."""
    columns = ["run", *(name for name in _COLUMNS if name in silver.columns)]
    return silver.select(*columns).groupBy("run").applyInArrow(_judge, VERDICTS)


def _judge(table: Any) -> Any:
    run = table.column("run")[0].as_py()
    return verdicts_table(run, _placed(_verdicts(table)))


def _verdicts(table: Any) -> dict[str, Verdict]:
    checker = Checker()
    checker.feed_many(merge(_streams(table)))
    return checker.finish().verdicts


def _placed(verdicts: Mapping[str, Verdict]) -> Iterator[tuple[int, str, Verdict]]:
    """In the order of the table of labels."""
    places = {label: place for place, label in enumerate(_labels())}
    for number, layer in enumerate(LAYERS):
        start = LABELS_MAX + number * LAYER_LABELS_MAX
        places |= {label: start + place for place, label in enumerate(layer.labels())}
    return ((places[label], label, verdict) for label, verdict in verdicts.items())


def _labels() -> list[str]:
    return [
        each.label(boundary)
        for boundary in (Boundary.CLIENTS, Boundary.DAEMONS, Boundary.NETWORK)
        for each in PROPERTIES
        if boundary in each.boundaries and each.form is not Form.DEFINITION
    ]


def _streams(table: Any) -> list[Stream]:
    rows: dict[str, list[Row]] = {}
    columns = [table.column(name).to_pylist() if name in table.column_names else None for name in _COLUMNS]
    absent = [None] * table.num_rows
    for values in zip(*(absent if column is None else column for column in columns), strict=True):
        row = _row(dict(zip(_COLUMNS, values, strict=True)))
        if row is not None:
            rows.setdefault(row.node, []).append(row)
    for of_node in rows.values():
        of_node.sort(key=lambda row: (row.incarnation, row.index))
    return [Stream(frozenset((node,)), iter(rows[node])) for node in sorted(rows)]


def _row(columns: dict[str, Any]) -> Row | None:
    """None: a kind that no checker looks at."""
    kind = columns["kind"]
    make = _ENTRIES.get(kind)
    if make is not None:
        entry = make(columns)
    elif kind in _LAYER_KINDS and columns["extra"] is not None:
        entry = _layer_entry(columns)
    else:
        return None
    return Row(columns["node"], columns["incarnation"], columns["index"], columns["at"] or 0, entry)


def _layer_entry(columns: dict[str, Any]) -> Entry:
    stamp = columns["stamp"]
    return entry_of({**columns, "digests": _digests(columns), "lamport": stamp and stamp["lamport"]})


def _digests(columns: dict[str, Any]) -> list[int] | None:
    digests = columns["digests"]
    return None if digests is None else [digest & _BITS for digest in digests]


def _daemon_view(view: Mapping[str, Any]) -> DaemonViewId:
    return DaemonViewId(view["epoch"], DaemonId(view["name"], view["incarnation"]))


def _group_view(columns: dict[str, Any]) -> GroupViewId:
    view = columns["view"]
    stamp = view["stamp"]
    return GroupViewId(
        _daemon_view(view["daemon_view"]),
        _daemon_view(view["next_daemon_view"]),
        Stamp(stamp["lamport"], DaemonId(stamp["name"], stamp["incarnation"])),
    )


def _sets(columns: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(columns["members"]), tuple(columns["transitional"])


def _content(columns: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(columns["lengths"]), tuple(digest & _BITS for digest in columns["digests"])


def _stamp(columns: dict[str, Any]) -> tuple[int, str]:
    stamp = columns["stamp"]
    return stamp["lamport"], f"{stamp['name']}#{stamp['incarnation']}"


def _one(columns: dict[str, Any]) -> str:
    return str(columns["clients"][0])


_MAKERS: Mapping[type[Entry], Callable[[dict[str, Any]], Entry]] = {
    trace.Connected: lambda c: trace.Connected(_one(c)),
    trace.Disconnected: lambda c: trace.Disconnected(_one(c)),
    trace.JoinRequested: lambda c: trace.JoinRequested(_one(c), c["groups"][0]),
    trace.LeaveRequested: lambda c: trace.LeaveRequested(_one(c), c["groups"][0]),
    trace.SelfLeft: lambda c: trace.SelfLeft(_one(c), c["groups"][0]),
    trace.Sent: lambda c: trace.Sent(_one(c), c["first"], Service(c["service"]), tuple(c["groups"]), *_content(c)),
    trace.Delivered: lambda c: trace.Delivered(
        tuple(c["clients"]),
        c["sender"],
        c["first"],
        Service(c["service"]),
        tuple(c["groups"]),
        *_content(c),
        *_stamp(c),
    ),
    trace.ViewDelivered: lambda c: trace.ViewDelivered(
        tuple(c["clients"]), c["groups"][0], _group_view(c), *_sets(c), ""
    ),
    trace.SignalDelivered: lambda c: trace.SignalDelivered(tuple(c["clients"]), c["groups"][0], _group_view(c)),
    trace.Recovered: lambda c: trace.Recovered(_one(c)),
    trace.Crashed: lambda c: trace.Crashed(_one(c) if c["clients"] else ""),
    trace.DaemonSent: lambda c: trace.DaemonSent(_one(c), c["first"], Service(c["service"]), *_content(c)),
    trace.DaemonDelivered: lambda c: trace.DaemonDelivered(
        _one(c), c["sender"], c["first"], Service(c["service"]), *_content(c), *_stamp(c)
    ),
    trace.DaemonViewDelivered: lambda c: trace.DaemonViewDelivered(
        _one(c), _daemon_view(c["view"]["daemon_view"]), *_sets(c)
    ),
    trace.DaemonSignalDelivered: lambda c: trace.DaemonSignalDelivered(_one(c), _daemon_view(c["view"]["daemon_view"])),
    trace.NetworkStarted: lambda c: trace.NetworkStarted(_one(c), c["network"], tuple(c["servers"])),
    trace.NetworkSent: lambda c: trace.NetworkSent(_one(c), c["network"], c["first"], c["digests"][0] & _BITS),
    trace.NetworkReceived: lambda c: trace.NetworkReceived(
        _one(c), c["network"], c["sender"], c["first"], c["digests"][0] & _BITS
    ),
    trace.LinkFailed: lambda c: trace.LinkFailed(_one(c), c["network"], "", ""),
    trace.Gap: lambda c: trace.Gap(c["lost"] or 1),
    trace.Truncated: lambda c: trace.Truncated(""),
    trace.Stabilised: lambda c: trace.Stabilised(tuple(map(tuple, c["components"] or ()))),
    trace.Ended: lambda c: trace.Ended(bool(c["quiet"])),
}
_ENTRIES = {kind_of(type): make for type, make in _MAKERS.items()}
