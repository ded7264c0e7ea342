"""The rows of one run of flows, put in order: rounds of rings with who took part, decisions, what nodes said and heard.

Implements: [Flows 2.1], [Flows 3.2]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from isotone.spec.check.flows.evaluation import Computed, read_named, read_values
from isotone.spec.verdicts import EventId
from isotone.trace import flows as trace
from isotone.trace.events import Row

Version = tuple[int, int]


def event_of(row: Row) -> EventId:
    """The id of a row."""
    return (row.node, row.incarnation, row.index)


class Part(msgspec.Struct, frozen=True):
    """One member's part in one round."""

    row: Row
    member: str
    standing: str
    origin: tuple[str, ...]
    values: list[Computed | None]

    @property
    def counts(self) -> bool:
        """Whether it added guarded values."""
        return self.standing != "beside"


class Round(msgspec.Struct, frozen=True):
    """One complete round of a ring."""

    row: Row
    ring: str
    version: Version
    values: list[Computed | None]
    parts: list[Part]
    recovers: bool
    floor: list[Computed | None] | None
    top: bool

    @property
    def members(self) -> set[str]:
        """Those behind the guarded values."""
        return {each.member for each in self.parts if each.counts}


class Decision(msgspec.Struct, frozen=True):
    """One decision of the register."""

    row: Row
    version: Version
    after: Version
    aggregates: list[Computed | None]
    flows: dict[str, Computed]


class History:
    """All of a run."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rules: dict[str, Any] = {}
        self.rounds: dict[str, list[Round]] = {}  # by ring, in the order of versions
        self.twice: list[tuple[Row, Row]] = []  # rounds that are complete two times
        self.parts: dict[tuple[str, int, int], list[Part]] = {}
        self.decisions: dict[Version, list[Decision]] = {}
        self.inputs: dict[tuple[str, int], tuple[Row, dict[str, Computed]]] = {}  # by node's life and version
        self.flowed: dict[str, list[tuple[Row, Version, dict[str, Computed]]]] = {}  # by node's life
        self.dealt: list[tuple[Row, Version, dict[str, Computed]]] = []
        self.lives: dict[str, tuple[str, int]] = {}  # the node and incarnation of each life
        complete: list[Row] = []
        for row in rows:
            if isinstance(row.entry, trace.Aggregated):
                complete.append(row)
            else:
                self._take(row)
        for row in complete:
            self._take_round(row)
        for rounds in self.rounds.values():
            rounds.sort(key=lambda each: each.version)

    def _take(self, row: Row) -> None:
        match row.entry:
            case trace.FlowStarted(member, _, rules):
                self.rules = self.rules or msgspec.json.decode(rules)
                self.lives[member] = (row.node, row.incarnation)
            case trace.FlowInput(member, version, values):
                self.inputs[member, version] = (row, read_named(values))
            case trace.Contributed(ring, member, number, round, standing, origin, values):
                part = Part(row, member, standing, tuple(origin.split(" ")), read_values(values))
                self.parts.setdefault((ring, number, round), []).append(part)
            case trace.Decided(_, number, round, after, aggregates, flows):
                made = Decision(row, (number, round), version_of(after), read_values(aggregates), read_named(flows))
                self.decisions.setdefault(made.version, []).append(made)
            case trace.Flowed(member, number, round, values):
                self.flowed.setdefault(member, []).append((row, (number, round), read_named(values)))
            case trace.Dealt(_, number, round, values):
                self.dealt.append((row, (number, round), read_named(values)))

    def _take_round(self, row: Row) -> None:
        entry = row.entry
        assert isinstance(entry, trace.Aggregated)
        version = (entry.number, entry.round)
        rounds = self.rounds.setdefault(entry.ring, [])
        for other in rounds:
            if other.version == version:
                self.twice.append((other.row, row))
                return
        floor = read_values(entry.floor) if entry.floor else None
        parts = self.parts.get((entry.ring, *version), [])
        rounds.append(
            Round(row, entry.ring, version, read_values(entry.values), parts, entry.recovers, floor, entry.top)
        )

    def history(self) -> list[Decision]:
        """The decisions in the order of versions, once each."""
        return [self.decisions[version][0] for version in sorted(self.decisions)]


def version_of(text: str) -> Version:
    """From ``view.round``."""
    number, _, round = text.partition(".")
    return int(number), int(round)
