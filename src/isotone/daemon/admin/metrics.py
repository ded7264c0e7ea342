"""Metrics for Prometheus, read from the daemon's own counters when they are asked for; nothing is counted twice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from isotone.daemon.admin.metric_table import METRICS
from isotone.daemon.admin.operated import Operated
from isotone.daemon.admin.readings import Look, Metric
from isotone.evs.explain import status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """The metrics of one daemon, in a registry of its own: several daemons may live in one process."""

    def __init__(self, node: Operated) -> None:
        self.requests: Mapping[int, int] = {}
        self._node = node
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """In the text format."""
        text: bytes = generate_latest(self._registry)
        return text

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Names alone, so that registering looks at no daemon."""
        return (_family(metric) for metric in METRICS)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """All of it, from one look."""
        look = look_at(self._node, self.requests)
        for metric in METRICS:
            family = _family(metric)
            for labels, value in metric.read(look):
                family.add_metric(labels, value)
            yield family


def _family(metric: Metric) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.text, labels=metric.labels)


def look_at(node: Operated, requests: Mapping[int, int]) -> Look:
    """One look at the daemon."""
    at, trace = node.now(), node.trace_status()
    disks = {purpose: free for purpose, path in node.directories().items() if (free := _free(path)) is not None}
    return Look(
        cluster=node.cluster,
        at=at,
        ready=not node.why_not_ready,
        status=status(node.stack, at),
        configured=1 + sum(peer.configured for peer in node.stack.membership.node.peers.by_name.values()),
        sessions=node.stack.sessions,
        trace=trace,
        counts=node.counts(),
        disks=disks,
        slow=_slow(node),
        faults=len(node.fault_rules() or ()),
        requests=requests,
    )


def _free(directory: str) -> int | None:
    with suppress(OSError):
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize
    return None


def _slow(node: Operated) -> int:
    parts = (node.stack.sessions, node.gateway)
    return sum(len(part.blocking) for part in parts if part is not None)
