"""Configurations and snapshots: one of each number, one state at each position.

Implements: docs/protocols/corel-growth.md. Deviations: none.
"""

from __future__ import annotations

from itertools import pairwise

from isotone.spec.check.corel.account import Account
from isotone.spec.check.corel.trail import event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Row


class GrowthJudge:
    """Over all servers of a run, or of one side of a fence."""

    def __init__(self, rows: list[Row], account: Account) -> None:
        self._account = account
        self._rows = sorted(rows, key=event_of)
        self._configurations: dict[int, tuple[int, tuple[str, ...], EventId]] = {}
        self._states: dict[int, tuple[int, EventId]] = {}

    def judge(self) -> None:
        """Every row."""
        for row in self._rows:
            if isinstance(row.entry, trace.Reconfigured):
                self._judge_configuration(row, row.entry)
            elif isinstance(row.entry, trace.SnapshotKept):
                self._judge_state(row, row.entry)
        self._judge_steps()
        for row in self._rows:
            if isinstance(row.entry, trace.StateInstalled):
                self._account.exercised.add("STATE")
                self._judge_state(row, row.entry)

    def _judge_configuration(self, row: Row, entry: trace.Reconfigured) -> None:
        known = self._configurations.setdefault(entry.number, (entry.place, entry.servers, event_of(row)))
        if known[2] != event_of(row):
            self._account.exercised.add("CONFIGURATION")
        if known[:2] != (entry.place, entry.servers):
            one, two = f"{known[1]} from {known[0]} on", f"{entry.servers} from {entry.place} on"
            text = f"Configuration {entry.number} is {one}, and {two}."
            self._account.accuse("CONFIGURATION", (known[2], event_of(row)), text)

    def _judge_steps(self) -> None:
        """One server at a time, and in the order of the numbers."""
        numbers = sorted(self._configurations)
        for before, after in pairwise(numbers):
            one, two = self._configurations[before], self._configurations[after]
            if after == before + 1 and (len(set(one[1]) ^ set(two[1])) > 1 or one[0] >= two[0]):
                text = (
                    f"Configuration {after} ({two[1]} from {two[0]}) does not follow {before} ({one[1]} from {one[0]})."
                )
                self._account.accuse("CONFIGURATION", (one[2], two[2]), text)

    def _judge_state(self, row: Row, entry: trace.SnapshotKept | trace.StateInstalled) -> None:
        known = self._states.get(entry.position)
        if known is None and isinstance(entry, trace.SnapshotKept):
            self._states[entry.position] = (entry.digest, event_of(row))
        elif known is None:
            self._account.accuse("STATE", (event_of(row),), f"Nobody kept a state at {entry.position}.")
        elif known[0] != entry.digest:
            text = f"There are two states at position {entry.position}."
            self._account.accuse("STATE", (known[1], event_of(row)), text)
