"""The survey as a table: one row per run and property that was exercised or is in doubt, and one about each run.

Few queries, whatever the number of runs and properties: records, bundles, their sums, runs; and the network's sums.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.survey.bundles import bundles, crowded, keys, loose, notes
from isotone.pipeline.conformance.survey.judging import HEIGHTS, JUDGED, judge_run
from isotone.pipeline.conformance.survey.packets import PACKETS, packets_of, survey_packets
from isotone.pipeline.conformance.survey.steps import told
from isotone.pipeline.conformance.terms import CLIENTS, DAEMONS, NETWORK, kept, told_to_all

LOOSE_MAX = 500_000
"""Rows of loose bundles of one run that one task looks at."""
_SENT = ("send", "ssend")
_MESSAGES = (*_SENT, "deliver", "sdeliver")


class Survey(NamedTuple):
    """What was found, the bundles that it was found by, and what of the network needs an exact look."""

    found: DataFrame
    bundles: DataFrame
    packets: DataFrame | None


def survey(silver: DataFrame) -> Survey:
    """All runs of these rows."""
    rows = kept(told(silver))
    bundle = kept(bundles(rows))
    network = survey_packets(silver)
    found = gathered(rows, bundle).groupBy("run").applyInArrow(judge_run, JUDGED)
    if network is None:
        return Survey(kept(found), bundle, None)
    return Survey(kept(found.unionByName(network.found, allowMissingColumns=True)), bundle, network.suspects)


def gathered(rows: DataFrame, bundle: DataFrame) -> DataFrame:
    """What comes together in a task for each run: facts, sums, and the loose bundles.

    These are counted first: of a run that has too many of them comes a row that says so, and of a run that needs an
    exact look at everything nothing but that is known.
    """
    facts = rows.where("facts IS NOT NULL").select("run", "facts")
    crowds = crowded(bundle, LOOSE_MAX)
    odd = rows.where("odd IS NOT NULL").select("run").unionByName(bundle.where("is_wrong").select("run"))
    of_use = bundle.join(F.broadcast(odd.unionByName(crowds).distinct()), on="run", how="left_anti")
    about = facts.unionByName(notes(bundle), allowMissingColumns=True)
    about = about.unionByName(crowds.withColumn("is_crowded", F.lit(True)), allowMissingColumns=True)
    return about.unionByName(loose(rows, of_use).drop("facts", "odd"), allowMissingColumns=True)


def suspects(silver: DataFrame, surveyed: Survey) -> DataFrame:
    """The rows that an exact look at what is in doubt needs.

    Of most runs: everything but messages, the loose bundles, and stretches of the network that are not clear. Of a run
    in which more than that is in doubt, all.
    """
    doubts = surveyed.found.where("is_doubtful")
    full = kept(doubts.where("is_full").select("run").distinct())
    some = kept(doubts.select("run").distinct().join(full, on="run", how="left_anti"))
    whole = silver.join(F.broadcast(full), on="run", how="left_semi")
    if some.isEmpty():
        return whole
    partly = silver.join(F.broadcast(some), on="run", how="left_semi")
    reduced = partly.where(~F.col("kind").isin(*_MESSAGES, *PACKETS))
    if surveyed.packets is not None:
        reduced = reduced.unionByName(packets_of(partly, surveyed.packets))
    talking = kept(doubts.where(F.col("boundary") != NETWORK).select("run").join(some, on="run", how="left_semi"))
    if not talking.isEmpty():
        reduced = reduced.unionByName(_loose_of(silver, surveyed, talking.distinct()))
    return reduced if full.isEmpty() else whole.unionByName(reduced)


def _loose_of(silver: DataFrame, surveyed: Survey, runs: DataFrame) -> DataFrame:
    """Of these runs the rows of loose bundles, and of those with a stamp that was asked for."""
    kind = F.col("kind")
    heights = surveyed.found.where(F.col("id") == HEIGHTS)
    heights = heights.select("run", "boundary", F.explode("heights").alias("height"))
    mine = surveyed.bundles.join(F.broadcast(runs), on="run", how="left_semi")
    wanted = told_to_all(kept(keys(mine, heights).withColumnsRenamed({"sender": "_sender", "boundary": "_boundary"})))
    said = silver.where(kind.isin(*_MESSAGES)).select(
        "*",
        F.when(kind.isin("ssend", "sdeliver"), DAEMONS).otherwise(CLIENTS).alias("_boundary"),
        F.when(kind.isin(*_SENT), F.get("clients", F.lit(0))).otherwise(F.col("sender")).alias("_sender"),
    )
    return said.join(wanted, on=["run", "_boundary", "_sender", "first"], how="left_semi").select(*silver.columns)
