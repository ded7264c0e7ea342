"""Metrics of a run that is small enough to compute by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.metrics.table import metrics
from isotone.pipeline.silver import silver
from isotone.trace.jsonl import JsonLines
from isotone.trace.parquet import write_parquet

ALICE, BOB = "#alice#d1#1#1", "#bob#d2#1#1"
VIEW = "1!d1#1"
RUN = f"""\
{{"isotone_trace": 1, "run": "r"}}
{{"node": "d1", "at": 0, "kind": "recover", "daemon": "d1#1"}}
{{"node": "d2", "at": 0, "kind": "recover", "daemon": "d2#1"}}
{{"node": "d1", "at": 10, "kind": "view", "receivers": ["{ALICE}"], "group": "g", "view": "{VIEW}!0!#0!0!#0", \
"members": ["{ALICE}", "{BOB}"], "transitional": ["{ALICE}"], "cause": "network"}}
{{"node": "d2", "at": 40, "kind": "view", "receivers": ["{BOB}"], "group": "g", "view": "{VIEW}!0!#0!0!#0", \
"members": ["{ALICE}", "{BOB}"], "transitional": ["{BOB}"], "cause": "network"}}
{{"node": "d1", "at": 100, "kind": "send", "client": "{ALICE}", "first_sequence": 1, "service": "AGREED", \
"groups": ["g"], "lengths": [10, 30], "digests": [1, 2]}}
{{"node": "d1", "at": 300, "kind": "deliver", "receivers": ["{ALICE}"], "sender": "{ALICE}", "first_sequence": 1, \
"service": "AGREED", "groups": ["g"], "lengths": [10, 30], "digests": [1, 2], "lamport": 1, "stamper": "d1#1"}}
{{"node": "d2", "at": 2100, "kind": "deliver", "receivers": ["{BOB}"], "sender": "{ALICE}", "first_sequence": 1, \
"service": "AGREED", "groups": ["g"], "lengths": [10, 30], "digests": [1, 2], "lamport": 1, "stamper": "d1#1"}}
{{"node": "d1", "at": 5000, "kind": "transsig", "receivers": ["{ALICE}"], "group": "g", "view": "{VIEW}!0!#0!0!#0"}}
{{"node": "d1", "at": 5600, "kind": "view", "receivers": ["{ALICE}"], "group": "g", "view": "2!d1#1!0!#0!0!#0", \
"members": ["{ALICE}"], "transitional": ["{ALICE}"], "cause": "network"}}
"""
Key = tuple[str, str, str]


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Key, dict[str, Any]]:
    place = tmp_path_factory.mktemp("metrics")
    write_parquet(place / "r.parquet", "r", JsonLines("r", RUN.splitlines()).rows())
    rows = metrics(silver(read_bronze(spark, [Path(place)]).rows)).collect()
    assert len({(row["run"], row["metric"], row["dimension"], row["key"]) for row in rows}) == len(rows)
    return {(row["metric"], row["dimension"], row["key"]): row.asDict() for row in rows}


def test_latency_is_measured_from_the_send_to_each_delivery(found: dict[Key, dict[str, Any]]) -> None:
    whole = found["latency", "all", ""]
    assert (whole["count"], whole["total"], whole["least"], whole["most"]) == (4, 4400.0, 200.0, 2000.0)
    assert found["latency", "service", "AGREED"]["p50"] == 1100.0
    assert found["latency", "distance", "same node"]["most"] == 200.0
    assert found["latency", "distance", "1 to 10 ms"]["least"] == 2000.0
    assert found["latency", "size", "up to 32 bytes"]["count"] == 4
    assert found["latency", "load", "up to 2048 messages/s"]["count"] == 4


def test_traffic_counts_messages_and_bytes(found: dict[Key, dict[str, Any]]) -> None:
    assert (found["sent", "node", "d1"]["count"], found["sent", "node", "d1"]["total"]) == (2, 40.0)
    assert found["delivered", "all", ""]["count"] == 4
    assert found["delivered", "time", "0.002"]["count"] == 2
    assert found["carried", "link", "d1 → d2"]["total"] == 40.0
    assert found["carried per broadcast", "all", ""]["mean"] == 40.0
    assert ("carried", "link", "d1 → d1") not in found


def test_nodes_that_lag_are_seen(found: dict[Key, dict[str, Any]]) -> None:
    assert found["lag", "node", "d1"]["most"] == 0.0
    assert found["lag", "node", "d2"]["most"] == 1800.0


def test_view_changes_are_split_by_phase(found: dict[Key, dict[str, Any]]) -> None:
    assert found["view change", "phase", "last delivery to signal"]["most"] == 4700.0
    assert found["view change", "phase", "signal to view"]["most"] == 600.0
    assert found["view change", "phase", "view to first delivery"]["most"] == 2060.0
    assert found["view change", "phase", "first to last installation"]["most"] == 30.0
