"""Metrics of a run that is small enough to compute by hand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from isotone.cli.pipeline_tables import print_metrics
from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.metrics.table import metrics
from isotone.pipeline.silver import silver
from isotone.trace.jsonl import JsonLines
from isotone.trace.parquet import write_parquet

ALICE, BOB = "#alice#d1#1#1", "#bob#d2#1#1"
VIEW = "1!d1#1"
COUNT = """{{"node": "{node}", "at": {at}, "kind": "linkcount", "daemon": "{node}#1", "network": "{network}", \
"link": "s1", "protocol": "ring", "to": ["d2"], "packets_sent": {sent}, "packets_received": 5, \
"packets_resent": {resent}, "bytes_sent": {bytes}, "bytes_received": 50, "requests_sent": 3, "duplicates": 1}}"""
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
{{"node": "d1", "at": 6000, "kind": "ssend", "daemon": "d1#1", "first_sequence": 7, "service": "AGREED", \
"lengths": [0], "digests": [7]}}
{{"node": "d1", "at": 6100, "kind": "ssend", "daemon": "d1#1", "first_sequence": 9, "service": "AGREED", \
"lengths": [0], "digests": [9]}}
{COUNT.format(node="d1", at=6200, network="1!d1#1", sent=10, resent=1, bytes=900)}
{COUNT.format(node="d1", at=6300, network="1!d1#1", sent=30, resent=4, bytes=2000)}
{COUNT.format(node="d1", at=6400, network="2!d1#1", sent=10, resent=0, bytes=500)}
{COUNT.format(node="d2", at=6400, network="1!d1#1", sent=20, resent=2, bytes=700)}
"""
_NETWORK = '"daemon": "{node}#1", "network": "1!d1#1"'
_UNIT = '"daemon": "{node}#1", {sender}"first_sequence": 1, "service": "AGREED", "lengths": [0], "digests": [1]'
_SEND, _RECEIPT = _UNIT.replace("{sender}", ""), _UNIT.replace("{sender}", '"sender": "{sender}#1", ')
_STAMP = '"lamport": 1, "stamper": "{sender}#1"'
DRIFT = f"""\
{{"isotone_trace": 1, "run": "drift"}}
{{"node": "d1", "at": 0, "kind": "recover", "daemon": "d1#1"}}
{{"node": "d2", "at": 0, "kind": "recover", "daemon": "d2#1"}}
{{"node": "d1", "at": 0, "kind": "connect", "client": "{ALICE}"}}
{{"node": "d1", "at": 100, "kind": "ssend", {_SEND.format(node="d1")}}}
{{"node": "d1", "at": 100, "kind": "nmcast", {_NETWORK.format(node="d1")}, "sequence": 1, "digest": 1}}
{{"node": "d1", "at": 100, "kind": "nreceive", {_NETWORK.format(node="d1")}, "sender": "d1#1", "sequence": 1, \
"digest": 1}}
{{"node": "d2", "at": 50, "kind": "nreceive", {_NETWORK.format(node="d2")}, "sender": "d1#1", "sequence": 1, \
"digest": 1}}
{{"node": "d2", "at": 50, "kind": "nreceive", {_NETWORK.format(node="d2")}, "sender": "d1#1", "sequence": 1, \
"digest": 1}}
{{"node": "d2", "at": 50, "kind": "sdeliver", {_RECEIPT.format(node="d2", sender="d1")}, {_STAMP.format(sender="d1")}}}
{{"node": "d2", "at": 200, "kind": "ssend", {_SEND.format(node="d2")}}}
{{"node": "d1", "at": 100, "kind": "sdeliver", {_RECEIPT.format(node="d1", sender="d2")}, {_STAMP.format(sender="d2")}}}
"""
"""Two daemons, either of which hears of a message before the other says to have sent it."""
Key = tuple[str, str, str]


@pytest.fixture(scope="module")
def runs(spread: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[Key, dict[str, Any]]]:
    place = tmp_path_factory.mktemp("metrics")
    for run, text in (("r", RUN), ("drift", DRIFT)):
        write_parquet(place / f"{run}.parquet", run, JsonLines(run, text.splitlines()).rows())
    rows = metrics(silver(read_bronze(spread, [Path(place)]).rows)).collect()
    assert len({(row["run"], row["metric"], row["dimension"], row["key"]) for row in rows}) == len(rows)
    found: dict[str, dict[Key, dict[str, Any]]] = {"r": {}, "drift": {}}
    for row in rows:
        found[row["run"]][row["metric"], row["dimension"], row["key"]] = row.asDict()
    return found


@pytest.fixture(scope="module")
def found(runs: dict[str, dict[Key, dict[str, Any]]]) -> dict[Key, dict[str, Any]]:
    return runs["r"]


@pytest.fixture(scope="module")
def drifting(runs: dict[str, dict[Key, dict[str, Any]]]) -> dict[Key, dict[str, Any]]:
    return runs["drift"]


def test_latency_is_measured_from_the_send_to_each_delivery(found: dict[Key, dict[str, Any]]) -> None:
    whole = found["latency", "all", ""]
    assert (whole["count"], whole["total"], whole["least"], whole["most"]) == (4, 4400.0, 200.0, 2000.0)
    assert found["latency", "service", "AGREED"]["p50"] == 1100.0
    assert found["latency", "distance", "same node"]["most"] == 200.0
    assert found["latency", "distance", "1 to 10 ms"]["least"] == 2000.0
    assert [found["latency", "size", f"up to {size} bytes"]["count"] for size in (16, 32)] == [2, 2]
    assert found["latency", "load", "up to 2048 messages/s"]["count"] == 4


def test_traffic_counts_messages_and_bytes(found: dict[Key, dict[str, Any]]) -> None:
    assert (found["sent", "node", "d1"]["count"], found["sent", "node", "d1"]["total"]) == (2, 40.0)
    sizes = found["sent", "all", ""]
    assert (sizes["least"], sizes["p50"], sizes["most"]) == (10.0, 20.0, 30.0)
    assert (found["delivered", "all", ""]["count"], found["delivered", "all", ""]["most"]) == (4, 30.0)
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


def test_links_say_what_they_had_to_send_again(found: dict[Key, dict[str, Any]]) -> None:
    """Counts of one link in one daemon view only grow: the last one counts, and daemon views add up."""
    resent = found["link packets resent", "all", ""]
    assert (resent["total"], resent["count"], resent["unit"]) == (6.0, 3, "packets")
    assert found["link packets resent", "link", "d1 on s1"]["total"] == 4.0
    assert found["link packets sent", "node", "d1"]["total"] == 40.0
    assert found["link bytes sent", "protocol", "ring"]["total"] == 3200.0
    assert found["link packets asked for", "all", ""]["total"] == 9.0
    assert found["link share resent", "all", ""]["mean"] == 0.1
    assert found["link share resent", "link", "d2 on s1"]["mean"] == 0.1
    assert found["link packets per broadcast", "all", ""]["mean"] == 30.0
    assert found["link bytes per broadcast", "all", ""]["mean"] == 1600.0


def test_silences_reach_from_the_first_row_to_the_end_of_the_record(found: dict[Key, dict[str, Any]]) -> None:
    assert found["silence", "node", "d1"]["most"] == 6100.0
    assert found["silence", "node", "d2"]["most"] == 4300.0
    assert (found["silence", "all", ""]["count"], found["silence", "all", ""]["total"]) == (4, 6390.0 + 6360.0)
    assert found["daemon silence", "node", "d2"]["most"] == 6400.0  # it never delivered anything
    assert ("clock error", "all", "") not in found


def test_clocks_that_drift_are_told_of(drifting: dict[Key, dict[str, Any]]) -> None:
    assert drifting["clock error", "all", ""]["most"] == 75.0
    assert drifting["clock error", "node", "d2"]["count"] == 1


def test_the_network_below_is_counted_by_link_and_per_broadcast(drifting: dict[Key, dict[str, Any]]) -> None:
    assert drifting["network received", "all", ""]["count"] == 3
    assert drifting["network received", "link", "d1 → d2"]["count"] == 2
    assert drifting["network repeated", "link", "d1 → d2"]["total"] == 1.0
    assert ("network repeated", "link", "d1 → d1") not in drifting
    assert drifting["network receipts per multicast", "all", ""]["mean"] == 3.0
    assert drifting["network multicasts per broadcast", "all", ""]["mean"] == 0.5
    assert drifting["daemon silence", "node", "d1"]["most"] == 100.0
    assert ("silence", "all", "") not in drifting  # there is a client, and no message of clients


def test_what_is_printed_has_totals(found: dict[Key, dict[str, Any]]) -> None:
    """Of counts the total is the figure to read: packets, bytes."""
    text = io.StringIO()
    print_metrics(Console(file=text, width=200), [found["link packets sent", "all", ""]])
    head, line = text.getvalue().splitlines()
    assert "total" in head.split()
    assert line.split()[-6:] == ["3", "60.0", "20.0", "20.0", "29.8", "30.0"]
