"""The normal form of runs: everything that the checks share, computed once.

Each check is a small function of it. Spark keeps the tables until nobody refers to them any more.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance import asks, held, lives, messages, network_uses, placing, stays
from isotone.pipeline.conformance.terms import kept


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
    uses: DataFrame | None
    """Of the network; none where nothing is recorded of it."""


def normal_form(silver: DataFrame) -> Normal:
    """From silver rows of any number of runs; who was where and what was said are found at the same time."""
    rows = kept(silver)
    homes = kept(lives.homes(rows))
    processes = kept(lives.processes(rows, homes))
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(_said, rows, processes)
        touched, turned, stayed, asked = _stood(rows, processes)
        runs, known = kept(lives.runs(rows)), kept(lives.boundary_homes(rows, homes))
        regular = kept(held.regular_stays(stayed))
        sent, pieces, delivered = said.result()
    placed = kept(placing.placed(delivered, sent, placing.marks(turned, touched, stayed, asked)))
    return Normal(
        rows=rows,
        runs=runs,
        homes=homes,
        boundary_homes=known,
        processes=processes,
        touches=touched,
        turns=turned,
        stays=stayed,
        asks=asked,
        sends=sent,
        pieces=pieces,
        deliveries=delivered,
        placed=placed,
        inside=kept(held.inside(placed)),
        regular=regular,
        held=kept(held.held(placed)),
        together=kept(held.together(regular)),
        uses=_uses(rows),
    )


def _stood(rows: DataFrame, processes: DataFrame) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
    """Touches, turns, stays and asks."""
    touched = kept(stays.touches(rows))
    turned = kept(stays.turns(touched, processes, lives.losses(rows)))
    stayed = kept(stays.stays(turned, touched, processes))
    return touched, turned, stayed, kept(asks.asks(rows, turned))


def _said(rows: DataFrame, processes: DataFrame) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Sends, pieces and deliveries."""
    sent = kept(messages.sends(rows, processes))
    pieces = messages.pieces(rows, sent)
    return sent, pieces, kept(messages.deliveries(pieces))


def _uses(rows: DataFrame) -> DataFrame | None:
    if rows.where(F.col("kind").isin(*network_uses.TRAFFIC)).isEmpty():
        return None
    return kept(network_uses.uses(rows))
