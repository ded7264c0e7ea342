"""Metrics: what is told, under names that keep the conventions, and alert rules that name only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isotone.daemon.admin.metric_table import METRICS
from isotone.daemon.admin.metrics import Metrics
from tests.daemon.admin.fake_node import FakeNode, Inn

ROOT = Path(__file__).resolve().parents[3]
ALERTS = (ROOT / "ops" / "alerts.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def inn() -> Inn:
    house = Inn("ab c").start()
    house.run(500)
    return house


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(node: FakeNode) -> Samples:
    text = Metrics(node).text().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_names_keep_the_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"isotone_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not re.search(r"_(ms|us|milliseconds|kb|mb|percent)\b", metric.name), metric.name
        assert metric.text.endswith("."), metric.name


def test_a_working_daemon_tells_every_metric(inn: Inn) -> None:
    samples = scrape(FakeNode(inn, "a"))
    told = {name for name, _ in samples}
    missing = {metric.name for metric in METRICS} - told - {"isotone_admin_responses_total"}
    assert not missing
    assert samples["isotone_ready", ()] == 1
    assert samples["isotone_daemon_view_members", ()] == 3
    assert samples["isotone_daemons_configured", ()] == 3
    assert samples["isotone_membership_state", (("state", "op"),)] == 1
    assert samples["isotone_membership_entries_total", (("reason", "installed"),)] == 1
    assert samples["isotone_peer_reached", (("peer", "c"), ("site", "c"))] == 1
    assert 0.01 < samples["isotone_peer_round_trip_seconds", (("peer", "c"), ("site", "c"))] < 0.05
    assert samples["isotone_link_packets_sent_total", (("link", "ab"), ("protocol", "ring"))] > 0
    assert samples["isotone_groups", ()] == 1
    assert samples["isotone_events_total", (("part", "guard"), ("what", "refused: wrong key"))] == 2
    assert ("isotone_disk_free_bytes", (("purpose", "trace"),)) in samples
    assert ("isotone_disk_free_bytes", (("purpose", "state"),)) not in samples  # no such directory
    assert samples["process_resident_memory_bytes", ()] > 0


def test_without_a_daemon_view_there_is_none() -> None:
    house = Inn("ab")
    house.world.restart("a")
    samples = scrape(FakeNode(house, "a"))
    assert samples["isotone_ready", ()] == 0
    assert samples["isotone_daemon_view_members", ()] == 0
    assert not any(name == "isotone_daemon_view_info" for name, _ in samples)
    assert samples["isotone_membership_state", (("state", "seg"),)] == 1


def test_two_daemons_of_one_process_keep_apart(inn: Inn) -> None:
    assert scrape(FakeNode(inn, "a")) != scrape(FakeNode(inn, "b"))


def rules() -> list[tuple[str, str]]:
    """Name and expression of every alert."""
    found = re.findall(r"- alert: (\w+)\n\s+expr: (.+)\n", ALERTS)
    assert len(found) == ALERTS.count("alert:")
    return found


def test_alerts_name_only_metrics_that_exist() -> None:
    known = {metric.name for metric in METRICS} | {"up"}
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for alert, expression in rules():
        named = set(re.findall(r"\b(?:isotone_\w+|up)\b", re.sub(r'"[^"]*"', '""', expression)))
        assert named and named <= known, alert
        for name, chosen in re.findall(r"\b(isotone_\w+)\{(\w+)=", expression):
            assert chosen in labels[name], alert


def test_alerts_select_values_that_exist(inn: Inn) -> None:
    samples = scrape(FakeNode(inn, "a"))
    for alert, expression in rules():
        for name, label, value in re.findall(r'\b(isotone_\w+)\{(\w+)="(\w+)"', expression):
            assert any(each == name and (label, value) in chosen for each, chosen in samples), alert


@pytest.mark.parametrize("what", ["NoDaemonView", "Split", "SlowClients", "LinkLossy", "TraceGaps", "DiskFull"])
def test_there_is_an_alert_for(what: str) -> None:
    assert f"Isotone{what}" in dict(rules())


def test_every_alert_has_a_summary_and_a_remedy() -> None:
    for part in ALERTS.split("- alert: ")[1:]:
        assert "summary: " in part and "remedy: " in part and "severity: " in part
