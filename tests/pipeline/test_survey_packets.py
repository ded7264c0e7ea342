"""The network below in sums: what is clear is not looked at again; and networks spoilt in many ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.conformance.survey import packets
from isotone.pipeline.conformance.survey.packets import packets_of, survey_packets
from isotone.pipeline.silver import silver
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.trace.events import (
    Delivered,
    Gap,
    LinkFailed,
    NetworkReceived,
    NetworkSent,
    NetworkStarted,
    Row,
    Truncated,
)
from isotone.trace.parquet import write_parquet
from tests.spec.corruptions import renumbered

replace = msgspec.structs.replace
STRETCH = 4
"""So short that a run has many."""
CALM = Shape(seed=3, bundles=28, nodes=3, clients_per_node=1, groups=1, messages_min=1, messages_max=1,
             change_every=1_000, daemons=True, network=True)  # fmt: skip
WILD = msgspec.structs.replace(CALM, bundles=40, nodes=4, change_every=8)
Change = Callable[[list[Row]], list[Row]]


def _place(rows: list[Row], kind: type, *, own: bool = False, turn: int = 20) -> int:
    """Where such a row stands, the one of this turn; ``own``: received by its sender."""
    found = [
        place for place, row in enumerate(rows)
        if isinstance(row.entry, kind) and (not own or row.entry.daemon == getattr(row.entry, "sender", ""))
    ]  # fmt: skip
    return found[min(turn, len(found) - 1)]


def _without(kind: type, *, own: bool = False) -> Change:
    def change(rows: list[Row]) -> list[Row]:
        place = _place(rows, kind, own=own)
        return renumbered([*rows[:place], *rows[place + 1 :]])

    return change


def _twice(kind: type) -> Change:
    def change(rows: list[Row]) -> list[Row]:
        place = _place(rows, kind)
        return renumbered([*rows[: place + 1], rows[place], *rows[place + 1 :]])

    return change


def _with(kind: type, **fields: object) -> Change:
    def change(rows: list[Row]) -> list[Row]:
        place = _place(rows, kind)
        row = rows[place]
        return [*rows[:place], replace(row, entry=replace(row.entry, **fields)), *rows[place + 1 :]]

    return change


def _both_twice(rows: list[Row]) -> list[Row]:
    """A message multicast twice and received twice by all: sums agree, and yet it is wrong."""
    sent = rows[_place(rows, NetworkSent)].entry
    assert isinstance(sent, NetworkSent)
    found = []
    for row in rows:
        entry = row.entry
        found.append(row)
        if isinstance(entry, NetworkSent | NetworkReceived) and entry.sequence == sent.sequence:
            found.append(row)
    return renumbered(found)


def _early(rows: list[Row]) -> list[Row]:
    """A sender receives its message before it multicast it."""
    place = _place(rows, NetworkReceived, own=True)
    received = rows[place]
    assert isinstance(received.entry, NetworkReceived)
    sequence = received.entry.sequence
    sent = next(
        each for each, row in enumerate(rows) if isinstance(row.entry, NetworkSent) and row.entry.sequence == sequence
    )
    return renumbered([*rows[:sent], received, *rows[sent:place], *rows[place + 1 :]])


def _late(rows: list[Row]) -> list[Row]:
    """Something is received behind a failed link."""
    place = _place(rows, LinkFailed, turn=0)
    failed = rows[place]
    node = [each for each, row in enumerate(rows[:place]) if row.node == failed.node]
    last = next(each for each in reversed(node) if isinstance(rows[each].entry, NetworkReceived))
    return renumbered([*rows[:last], *rows[last + 1 : place + 1], rows[last], *rows[place + 1 :]])


def _torn(rows: list[Row]) -> list[Row]:
    node = rows[_place(rows, NetworkReceived)].node
    kept = [row for row in rows if row.node != node or row.index < 40]
    return [*kept, Row(node, 1, 40, 0, Truncated("torn"))]


def _begun_again(rows: list[Row]) -> list[Row]:
    start = rows[_place(rows, NetworkStarted, turn=0)]
    place = next(each for each in range(_place(rows, NetworkReceived), len(rows)) if rows[each].node == start.node)
    return renumbered([*rows[:place], start, *rows[place:]])


def _spanning(rows: list[Row]) -> list[Row]:
    """Rows of a record are lost, its crash may be among them; the next incarnation goes on as if nothing had been."""
    start = _place(rows, NetworkStarted, turn=0)
    node, entry = rows[start].node, rows[start].entry
    assert isinstance(entry, NetworkStarted)
    strange = NetworkReceived(entry.daemon, entry.network, "d9#1", 1, 1)
    return [*rows[:start], Row(node, 1, 0, 0, Gap(1)), *rows[start:], Row(node, 2, 0, 0, strange)]


def _odd_above(rows: list[Row]) -> list[Row]:
    """Something is delivered twice: all of the run is looked at exactly, and its network is in order."""
    return _twice(Delivered)(rows)


CHANGES: dict[str, tuple[Shape, Change]] = {
    "as it is": (CALM, list),
    "wild": (WILD, list),
    "lost": (CALM, _without(NetworkReceived)),
    "lost by its sender": (CALM, _without(NetworkReceived, own=True)),
    "never sent": (CALM, _without(NetworkSent)),
    "received twice": (CALM, _twice(NetworkReceived)),
    "sent twice": (CALM, _twice(NetworkSent)),
    "both twice": (CALM, _both_twice),
    "altered": (CALM, _with(NetworkReceived, digest=1)),
    "of a stranger": (CALM, _with(NetworkReceived, sender="d9#1")),
    "by a stranger": (CALM, _with(NetworkSent, daemon="d9#1")),
    "on another network": (CALM, _with(NetworkReceived, network="elsewhere")),
    "other servers": (CALM, _with(NetworkStarted, servers=("d1#1",))),
    "no start": (CALM, _without(NetworkStarted)),
    "begun again": (CALM, _begun_again),
    "early": (CALM, _early),
    "late": (WILD, _late),
    "torn": (CALM, _torn),
    "a use over a loss": (CALM, _spanning),
    "odd above": (CALM, _odd_above),
}


def spoilt(name: str) -> list[Row]:
    shape, change = CHANGES[name]
    return renumbered(change(list(Synthetic(shape))))


def test_only_what_differs_is_looked_at(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both engines say of all these is compared together with everything else, in `test_differential`."""
    monkeypatch.setattr(packets, "STRETCH", STRETCH)
    runs = {name: spoilt(name) for name in ("as it is", "lost", "altered")}
    for number, (run, rows) in enumerate(runs.items()):
        write_parquet(tmp_path / f"{number}.parquet", run, rows)
    table = silver(read_bronze(spark, [tmp_path]).rows).localCheckpoint(eager=True)
    of_run = packets_of(table, survey_packets(table).suspects).groupBy("run").count().collect()
    looked_at = {row["run"]: row["count"] for row in of_run}
    all_of = {
        run: sum(isinstance(row.entry, NetworkSent | NetworkReceived) for row in rows) for run, rows in runs.items()
    }
    assert set(looked_at) == {"lost", "altered"}
    assert 0 < looked_at["lost"] < all_of["lost"] / 4
    assert 0 < looked_at["altered"] < all_of["altered"] / 4
