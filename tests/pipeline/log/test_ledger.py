"""The example: money moves, and the total is the same at every position."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from examples.ledger import ledger
from examples.ledger.ledger import ACCOUNTS, OPENING, run
from examples.ledger.totals import changes_of
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from isotone.core.errors import MachineError
from isotone.pipeline.log.databases import rows_as_of, table_of_rows, tables_in
from isotone.pipeline.log.totals import totals
from isotone.replicated.archive import segments, writer

TRANSFERS = 150


def test_the_total_is_the_same_at_every_position(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (segments, writer):
        monkeypatch.setattr(module, "SEGMENT_RECORDS_MAX", 100)
    refused, archived = asyncio.run(run(tmp_path, TRANSFERS))
    assert archived == 100
    changes = changes_of(spark, str(tmp_path / "archive")).persist()
    found = totals(changes, "account", "balance").collect()
    assert {row["total"] for row in found} == {ACCOUNTS * OPENING}
    assert TRANSFERS - refused >= len(found) - 1 > archived // 2
    assert {row["procedure"] for row in changes.select("procedure").distinct().collect()} == {
        "open_accounts",
        "transfer",
    }
    rows = rows_as_of(changes, archived)
    ((database, form, count),) = tables_in(rows)
    balances = table_of_rows(rows, database, form).agg(F.sum("balance").alias("total"))
    assert (balances.collect()[0]["total"], count) == (ACCOUNTS * OPENING, ACCOUNTS)


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "ARCHIVED_WITHIN_S", 0.01)
    with pytest.raises(MachineError, match=r"nothing was archived .* too few records"):
        asyncio.run(run(tmp_path, 1))
