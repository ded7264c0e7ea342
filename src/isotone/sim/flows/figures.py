"""Figures 10 to 15 of [Flows], measured anew with the lean simulator.

Implements: [Flows 4.1], [Flows 4.2], [Flows 4.3]. Deviations: none.
"""

from __future__ import annotations

import time
from statistics import linear_regression, mean
from typing import Any

from isotone.core.choice import Choice
from isotone.flows.compiler import Rules, Values, compile_text, contributions
from isotone.flows.library import PROGRAMS
from isotone.flows.messages import CODEC, RingToken, token_from_wire, token_to_wire
from isotone.flows.ring import Member, Ring, Token
from isotone.flows.values import Decisions, RangeSet, Value, interval, prefix_end, range_set
from isotone.sim.flows.lean import LeanRun, LeanSettings

Rows = list[dict[str, Any]]
UNLIMITED = 1_000_000
KNOWN_MAX = 500
BUDGET = 125_000
"""Bytes a second at each member where rings adapt: the megabit of [Flows 4.2]."""


class PhaseClients:
    """Each enters the phase that it may, at once [Flows 4.1]."""

    def __init__(self, rules: Rules, nodes: int) -> None:
        self._rules = rules
        self._entered = [0] * nodes
        self.first: dict[int, float] = {}  # when a phase was first entered by anybody

    def values(self, node: int, at: float) -> Values:
        """The phase of this node: the client rules say the same, as a test shows."""
        return (self._entered[node],)

    def hear(self, node: int, at: float, values: tuple[Value, ...]) -> None:
        """Enter."""
        (may,) = values
        assert isinstance(may, int)
        if may > self._entered[node]:
            self._entered[node] = may
            self.first.setdefault(may, at)

    def reboot(self, node: int, at: float) -> None:
        """In no phase."""
        self._entered[node] = 0


class CommitClients:
    """Transactions arrive everywhere at a fixed rate; a part of them is voted down by one node [Flows 4.2]."""

    def __init__(self, rules: Rules, nodes: int, rate: float, commits: float, seed: int) -> None:
        self._rules = rules
        self._rate = rate
        self._choice = Choice(f"commit/{seed}")
        self._nodes, self._commits = nodes, commits
        self._against: list[list[int]] = [[] for _ in range(nodes)]
        self._drawn = 0
        self._heard: list[Decisions] = [Decisions()] * nodes
        self.learned: dict[int, float] = {}  # when the slowest so far learned of a transaction
        self._known: dict[int, tuple[Decisions, RangeSet]] = {}  # what of each is decided; by identity

    def values(self, node: int, at: float) -> Values:
        """Votes on all that came so far, by the client rules."""
        latest = int(at * self._rate)
        while self._drawn < latest:
            self._drawn += 1
            if not self._choice.chance(self._commits):
                self._against[self._choice.below(self._nodes)].append(self._drawn)
        decided = self._decided(self._heard[node])
        against = self._against[node] = [each for each in self._against[node] if each not in decided]
        mine = range_set(against)
        everything = interval(1, latest)
        return (everything.difference(mine).union(decided), mine)

    def _decided(self, heard: Decisions) -> RangeSet:
        found = self._known.get(id(heard))
        if found is None:
            if len(self._known) > KNOWN_MAX:
                self._known.clear()
            found = self._known[id(heard)] = (heard, heard.decided())
        return found[1]

    def rules_say(self, node: int, at: float) -> Values:
        """The same by the compiled program, for a test."""
        latest = int(at * self._rate)
        mine = range_set(self._against[node])
        inputs: dict[str, Value] = {"C": interval(1, latest).difference(mine), "A": mine}
        heard: dict[str, Value] = {"D": self._heard[node], "P": self._heard[node].decided()}
        return contributions(self._rules, inputs, heard, str(node))

    def hear(self, node: int, at: float, values: tuple[Value, ...]) -> None:
        """Learn; the slowest counts."""
        decisions = next(each for each in values if isinstance(each, Decisions))
        before, after = prefix_end(self._decided(self._heard[node])), prefix_end(self._decided(decisions))
        self._heard[node] = decisions
        for number in range(before + 1, after + 1):
            self.learned[number] = at

    def reboot(self, node: int, at: float) -> None:
        """What it knew is gone."""
        self._heard[node] = Decisions()

    def latencies(self, first: float, last: float) -> list[tuple[float, float]]:
        """Of those that arrived in this time: when, and how long until the slowest client knew the outcome."""
        numbers = range(int(first * self._rate) + 1, int(last * self._rate) + 1)
        arrived = ((each / self._rate, self.learned.get(each)) for each in numbers)
        return [(began, ended - began) for began, ended in arrived if ended is not None]


# --- runs ----------------------------------------------------------------------------------------------------------


def phase_seconds(settings: LeanSettings, seconds: float) -> dict[str, Any]:
    """The mean time between phases, after the first quarter of the run."""
    rules = compile_text(PROGRAMS["phases"])
    clients = PhaseClients(rules, settings.nodes)
    run = LeanRun(rules, clients, settings)
    began = time.process_time()
    run.run_until(seconds)
    spent = time.process_time() - began
    times = sorted(at for at in clients.first.values() if at >= seconds / 4)
    mean_s = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
    return {
        "phase_s": None if mean_s is None else round(mean_s, 3),
        "phases": len(times),
        "layers": run.layers,
        "rounds_per_layer": None if mean_s is None else round(mean_s * settings.token_rate / run.layers, 2),
        "views_per_s": round(run.views / seconds, 1),
        "hops_per_s": round(run.hops / seconds),
        "cpu_per_virtual_s": round(spent / seconds, 3),
    }


def commit_run(settings: LeanSettings, *, tps: float, commits: float, seconds: float) -> dict[str, Any]:
    """Decision latency of the slowest client, by how much it grows each second, token size, and what results at the top
    have; over the second half."""
    rules = compile_text(PROGRAMS["commit"])
    clients = CommitClients(rules, settings.nodes, tps, commits, settings.seed)
    run = LeanRun(rules, clients, settings)
    began = time.process_time()
    run.run_until(seconds)
    spent = time.process_time() - began
    found = clients.latencies(seconds * 0.35, seconds * 0.65)
    wanted = int(seconds * 0.65 * tps) - int(seconds * 0.35 * tps)
    sizes, down = (each[len(each) // 2 :] for each in (run.token_bytes, run.down_bytes))
    half = len(run.value_bytes) // 2
    return {
        "latency_s": round(mean(latency for _, latency in found), 3) if found else None,
        "growth_per_s": round(linear_regression(*zip(*found)).slope, 3) if len(found) > 1 else None,
        "decided": round(len(found) / max(1, wanted), 3),
        "token_bytes": round(mean(sizes)) if sizes else None,
        "largest_bytes": max(sizes, default=None),
        "down_bytes": round(mean(down)) if down else None,
        "value_bytes": round(mean(run.value_bytes[half:])),
        "ranges": round(mean(run.ranges[half:])),
        "truncated": round(mean(run.truncated[half:]), 2),
        "layers": run.layers,
        "cpu_per_virtual_s": round(spent / seconds, 3),
    }


def _lean(nodes: int, seed: int, **changed: Any) -> LeanSettings:
    return LeanSettings(nodes=nodes, seed=seed, **changed)


# --- figures -------------------------------------------------------------------------------------------------------


def phase_duration(daemons: int = 32_768, seed: int = 1, probes: int = 12) -> tuple[dict[str, Any], Rows]:
    """Figure 10: phase duration by system size and mean time to failure; ``probes`` phases are waited for."""
    rows = [phase_row(*point, seed, probes) for point in phase_points(daemons)]
    return {"daemons": daemons, "seed": seed, "probes": probes}, rows


def phase_points(daemons: int) -> list[tuple[int, float, float]]:
    """The sizes up to this one, each with the mean times to failure of Figure 10 (0: nobody fails), and how long it
    takes to notice a failure."""
    sizes = [8 ** (layer + 1) for layer in range(12) if 8 ** (layer + 1) <= daemons]
    courses = ((0.0, 0.15), (100.0, 0.15), (10.0, 0.15), (10.0, 0.0))
    return [(size, *course) for size in sizes for course in courses]


def phase_row(size: int, mttf: float, detection: float, seed: int, probes: int) -> dict[str, Any]:
    """One point of Figure 10."""
    layers = max(1, len(oct(size - 1)) - 2)
    settings = _lean(size, seed, mttf=mttf, detection=detection)
    found = phase_seconds(settings, (0.5 * layers + 0.3) * probes)
    return {"nodes": size, "mttf_s": mttf or "never", "detection_s": detection, **found}


def latency_by_rate(daemons: int = 10_000, seed: int = 1, probes: int = 8) -> tuple[dict[str, Any], Rows]:
    """Figure 11: latency and token size by transactions a second, 95 % commit, at most 100 ranges; and with a k_max
    that adapts."""
    rows: Rows = []
    for tps in (250, 500, 1_000, 2_000, 2_500, 3_000, 4_000, 6_000):
        found = commit_run(_lean(daemons, seed), tps=tps, commits=0.95, seconds=probes)
        rows.append({"tps": tps, "k_max": 100, "nodes": daemons, **found})
    for tps in (1_000, 4_000):
        found = commit_run(_lean(daemons, seed, bytes_per_s=BUDGET), tps=tps, commits=0.95, seconds=probes)
        rows.append({"tps": tps, "k_max": "adapts", "nodes": daemons, **found})
    return {"daemons": daemons, "seed": seed, "seconds": probes}, rows


def latency_by_size(daemons: int = 32_768, seed: int = 1, probes: int = 8) -> tuple[dict[str, Any], Rows]:
    """Figure 12: latency and token size by system size, 1000 transactions a second, 95 % commit."""
    rows: Rows = []
    size = 8
    while size <= daemons:
        found = commit_run(_lean(size, seed), tps=1_000, commits=0.95, seconds=probes)
        rows.append({"nodes": size, **found})
        size *= 8
    return {"daemons": daemons, "seed": seed, "seconds": probes}, rows


def unlimited_tokens(daemons: int = 4_096, seed: int = 1, probes: int = 8) -> tuple[dict[str, Any], Rows]:
    """Figure 13: latency and token size by the share that commits, without a limit of ranges."""
    rows: Rows = []
    for percent in (95, 90, 75, 50):
        settings = _lean(daemons, seed, ranges_max=UNLIMITED)
        found = commit_run(settings, tps=1_000, commits=percent / 100, seconds=probes)
        rows.append({"commit_percent": percent, "nodes": daemons, **found})
    return {"daemons": daemons, "seed": seed, "seconds": probes}, rows


def phase_by_token_rate(daemons: int = 4_096, seed: int = 1, probes: int = 12) -> tuple[dict[str, Any], Rows]:
    """Figure 14: phase duration by tokens a second."""
    rows: Rows = []
    for rate in (2.0, 5.0, 8.0, 10.0, 12.0, 16.0, 24.0, 40.0):
        settings = _lean(daemons, seed, token_rate=rate)
        found = phase_seconds(settings, probes * (4.0 / rate + 0.4))
        rows.append({"tokens_per_s": rate, "rate": "fixed", "nodes": daemons, **found})
    found = phase_seconds(_lean(daemons, seed, bytes_per_s=BUDGET), probes * 0.8)
    rows.append({"tokens_per_s": None, "rate": "adapts", "nodes": daemons, **found})
    return {"daemons": daemons, "seed": seed, "probes": probes}, rows


def phase_by_ring_size(daemons: int = 4_096, seed: int = 1, probes: int = 12) -> tuple[dict[str, Any], Rows]:
    """Figure 15: phase duration by the size of rings."""
    rows: Rows = []
    for size in (2, 4, 8, 16, 32, 64):
        found = phase_seconds(_lean(daemons, seed, ring_size=size), probes * 1.5)
        rows.append({"ring_size": size, "rate": "fixed", "nodes": daemons, **found})
    for size in (8, 64):
        found = phase_seconds(_lean(daemons, seed, ring_size=size, bytes_per_s=BUDGET), probes * 1.5)
        rows.append({"ring_size": size, "rate": "adapts", "nodes": daemons, **found})
    return {"daemons": daemons, "seed": seed, "probes": probes}, rows


def token_cost(probes: int = 200) -> tuple[dict[str, Any], Rows]:
    """CPU microseconds that one member spends on one token, by the ranges in its sets; [Flows 4.2] has about 200."""
    rules = compile_text(PROGRAMS["commit"])
    rows: Rows = []
    for ranges in (10, 100, 1_000):
        edges = [(10 * each, 10 * each + 7) for each in range(ranges)]
        sets = [RangeSet(tuple(edge for pair in edges for edge in (pair[0], pair[1] + odd))) for odd in (0, 1)]
        ring = Ring("b", rules)
        ring.take_view(1, [Member("a", "", 1), Member("b", "", 1)])
        ring.values, ring.regular = (sets[0], RangeSet()), True
        whole = cheap = 0.0
        for number in range(1, probes + 1):
            token = Token("r", 1, number, [sets[1], RangeSet()], 1)
            token.result_round, token.results = number - 1, (sets[1], RangeSet())
            wire = CODEC.encode(token_to_wire("r", token, 1))
            began = time.process_time()
            message = CODEC.decode(wire)
            assert isinstance(message, RingToken)
            taken = token_from_wire(message, rules)
            inside = time.process_time()
            ring.add_to(taken)
            cheap += time.process_time() - inside
            CODEC.encode(token_to_wire("r", taken, 0))
            whole += time.process_time() - began
        told = {"us_per_token": round(whole / probes * 1e6), "us_without_codec": round(cheap / probes * 1e6)}
        share = {"codec_percent": round(100 * (1 - cheap / whole))}
        rows.append({"ranges": ranges, **told, **share, "token_bytes": len(wire)})
    return {"probes": probes}, rows
