"""Long valid traces for the pipeline: ten nodes, several groups, one of them hot, views that change.

Files are as daemons write them, a record of each incarnation in parts.

What is written satisfies every property, or breaks one in one known row.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from isotone.core.services import Service
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.spec.verdicts import EventId
from isotone.trace import events as trace
from isotone.trace.events import Entry, Row
from isotone.trace.layout import PARQUET_SUFFIX, PartHeader, Tail, part_path
from isotone.trace.parquet import write_part
from isotone.trace.writer import Level

HOT = "g0"
HOT_SHARE = 0.7
"""Of the bundles, those for the hot group; all clients are in it."""
PART_ROWS = 65_536


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the trace is to be like."""

    deliveries: int
    """Messages times receivers."""
    messages: tuple[int, int] = (5, 20)
    """Of one bundle, at least and at most."""
    nodes: int = 10
    clients_per_node: int = 4
    groups: int = 6
    change_every: int = 200
    seed: int = 1
    planted: bool = False
    """Whether one delivery in the middle is of something else than what was sent."""


class Written(NamedTuple):
    """What was written; ``planted`` is the row that breaks 2.6."""

    deliveries: int
    rows: int
    bundles: int
    views: int
    planted: EventId | None


class HotGroup(Synthetic):
    """The tame system of the checkers' tests, with a hot group, until enough was delivered."""

    def __init__(self, load: Load) -> None:
        shape = Shape(
            seed=load.seed, nodes=load.nodes, clients_per_node=load.clients_per_node, groups=load.groups,
            messages_min=load.messages[0], messages_max=load.messages[1], change_every=load.change_every, daemons=True,
            network=True,
        )  # fmt: skip
        super().__init__(shape)
        self._load = load
        self.deliveries = self.rows = self.bundles = self.views = 0
        self.planted: EventId | None = None

    def _is_enough(self, sent: int) -> bool:
        return self.deliveries >= self._load.deliveries

    def _start(self) -> None:
        super()._start()
        self._join_hot()

    def _change(self) -> None:
        super()._change()
        self._join_hot()

    def _join_hot(self) -> None:
        """Everyone is in the hot group, or comes back to it."""
        for component in self._components:
            for client in [client for node in component.nodes for client in node.clients]:
                self._join(component, client, HOT)

    def _send(self) -> None:
        choice = self._choice
        component = choice.pick(self._components)
        node = choice.pick(component.nodes)
        client = choice.pick(node.clients)
        name = HOT if choice.chance(HOT_SHARE) else f"g{choice.below(self.shape.groups)}"
        names = sorted({name, f"g{choice.below(self.shape.groups)}"}) if choice.chance(0.05) else [name]
        count = choice.between(self.shape.messages_min, self.shape.messages_max)
        first = self._sequences.get(client, 0) + 1
        self._sequences[client] = first + count - 1
        digests = tuple(range(self._at << 8, (self._at << 8) + count))
        sent = trace.Sent(client, first, Service(choice.below(6)), tuple(names), (64,) * count, digests)
        self._record(node, sent)
        self._order(component, node, sent)
        self.bundles += 1

    def _record(self, node: object, entry: Entry) -> None:
        self.rows += 1
        if isinstance(entry, trace.Delivered):
            self.deliveries += len(entry.lengths) * len(entry.receivers)
            if self._load.planted and self.planted is None and self.deliveries * 2 > self._load.deliveries:
                entry = msgspec.structs.replace(entry, digests=(entry.digests[0] ^ 1, *entry.digests[1:]))
                super()._record(node, entry)  # type: ignore[arg-type]
                row = self._rows[-1]
                self.planted = (row.node, row.incarnation, row.index)
                return
        elif isinstance(entry, trace.DaemonDelivered):
            self.deliveries += 1
        elif isinstance(entry, trace.ViewDelivered):
            self.views += 1
        super()._record(node, entry)  # type: ignore[arg-type]


def write_trace(directory: Path, run: str, load: Load) -> Written:
    """Write the trace, one record of each incarnation in parts; memory holds one part per node."""
    source = HotGroup(load)
    waiting: dict[tuple[str, int], list[Row]] = {}
    parts: dict[tuple[str, int], int] = {}
    for row in source:
        record = (row.node, row.incarnation)
        rows = waiting.setdefault(record, [])
        rows.append(row)
        if len(rows) >= PART_ROWS:
            _write(directory, run, record, parts.get(record, 0), waiting.pop(record))
            parts[record] = parts.get(record, 0) + 1
    for record, rows in waiting.items():
        _write(directory, run, record, parts.get(record, 0), rows)
    return Written(source.deliveries, source.rows, source.bundles, source.views, source.planted)


def _write(directory: Path, run: str, record: tuple[str, int], number: int, rows: list[Row]) -> None:
    header = PartHeader(run, *record, number, Level.FULL.value)
    path = part_path(directory, header, PARQUET_SUFFIX)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_part(path, header, rows, lambda: Tail(closed=True))
