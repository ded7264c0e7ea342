"""The normal form of runs: everything that the checks share, computed once.

Each check is a small function of it. Spark keeps the tables until nobody refers to them any more.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from isotone.pipeline.conformance import asks, held, lives, messages, placing, stays


class Normal(NamedTuple):
    """Tables by run and boundary; docs/protocols/pipeline.md describes each."""

    rows: DataFrame
    runs: DataFrame
    homes: DataFrame
    boundary_homes: DataFrame
    processes: DataFrame
    touches: DataFrame
    turns: DataFrame
    stays: DataFrame
    asks: DataFrame
    sends: DataFrame
    pieces: DataFrame
    deliveries: DataFrame
    placed: DataFrame
    inside: DataFrame
    regular: DataFrame
    held: DataFrame
    together: DataFrame


def normal_form(silver: DataFrame) -> Normal:
    """From silver rows of any number of runs."""
    rows = _kept(silver)
    homes = _kept(lives.homes(rows))
    processes = _kept(lives.processes(rows, homes))
    touched = _kept(stays.touches(rows))
    turned = _kept(stays.turns(touched, processes, lives.losses(rows)))
    stayed = _kept(stays.stays(turned, touched, processes))
    asked = _kept(asks.asks(rows, turned))
    sent = _kept(messages.sends(rows, processes))
    pieces = _kept(messages.pieces(rows, sent))
    delivered = _kept(messages.deliveries(pieces))
    placed = _kept(placing.placed(delivered, sent, placing.marks(turned, touched, stayed, asked)))
    runs = _kept(lives.runs(rows))
    known = _kept(lives.boundary_homes(rows, homes))
    inside = _kept(held.inside(placed))
    regular = _kept(held.regular_stays(stayed))
    return Normal(
        rows,
        runs,
        homes,
        known,
        processes,
        touched,
        turned,
        stayed,
        asked,
        sent,
        pieces,
        delivered,
        placed,
        inside,
        regular,
        _kept(held.held(placed)),
        _kept(held.together(regular)),
    )


def _kept(table: DataFrame) -> DataFrame:
    """Computed now, and known from here on by its rows alone: plans that carry their whole past grow beyond measure."""
    return table.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
