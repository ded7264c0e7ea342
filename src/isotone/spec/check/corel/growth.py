"""Configurations and snapshots: one of each number, one state at each position.

Implements: docs/protocols/corel-growth.md. Deviations: none.
"""

from __future__ import annotations

from itertools import pairwise

from isotone.spec.check.account import Account
from isotone.spec.check.corel.order import GreenOrder
from isotone.spec.check.corel.sides import Side, kept_by
from isotone.spec.check.corel.trail import Trail, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import corel as trace
from isotone.trace.events import Row

State = tuple[int, int]
"""The place up to which it stands for all messages, and its digest."""


class GrowthJudge:
    """Over all servers of a run, or of one side of a fence."""

    def __init__(self, side: Side, order: GreenOrder, account: Account) -> None:
        self._side = side
        self._order = order
        self._account = account
        self._configurations: dict[int, tuple[int, tuple[str, ...], EventId]] = {}
        self._rules: dict[int, tuple[str, EventId]] = {}
        self._numbers: dict[int, tuple[int, EventId]] = {}  # by place
        self._states: dict[int, dict[State, EventId]] = {}

    def judge(self) -> None:
        """Every row."""
        rows = sorted(kept_by(self._side), key=event_of)
        for row in rows:
            if isinstance(row.entry, trace.Reconfigured):
                self._judge_configuration(row, row.entry)
            elif isinstance(row.entry, trace.SnapshotKept):
                self._judge_kept(row, row.entry)
        self._judge_steps()
        for trail in self._side.whole:
            self._judge_own_steps(trail)
            self._judge_own_numbers(trail)
        own = [row.entry for trail in self._side.own for row in trail.rows]
        begun = {entry.place for entry in own if isinstance(entry, trace.Reconfigured)}
        for trail in self._side.own:
            self._judge_passed(trail, begun)
        self._judge_places()
        self._judge_positions(rows)
        self._judge_rising(rows)
        for trail in self._side.whole:
            self._judge_reached(trail)
        for row in rows:
            if isinstance(row.entry, trace.StateInstalled):
                self._judge_installed(row, row.entry)

    def _judge_configuration(self, row: Row, entry: trace.Reconfigured) -> None:
        known = self._configurations.setdefault(entry.number, (entry.place, entry.servers, event_of(row)))
        if known[2] != event_of(row):
            self._account.exercised.add("CONFIGURATION")
        if known[:2] != (entry.place, entry.servers):
            one, two = f"{known[1]} from {known[0]} on", f"{entry.servers} from {entry.place} on"
            text = f"Configuration {entry.number} is {one}, and {two}."
            self._account.accuse("CONFIGURATION", (known[2], event_of(row)), text, proven=True)
        number, since = self._numbers.setdefault(entry.place, (entry.number, event_of(row)))
        if number != entry.number:
            text = f"At place {entry.place} begins configuration {number}, and {entry.number}."
            self._account.accuse("CONFIGURATION", (since, event_of(row)), text, proven=True)
        rule, since = self._rules.setdefault(entry.number, (entry.rule, event_of(row)))
        if rule and entry.rule and rule != entry.rule:
            text = f"Configuration {entry.number} has two rules."
            self._account.accuse("CONFIGURATION", (since, event_of(row)), text, proven=True)

    def _judge_steps(self) -> None:
        """One server at a time, and in the order of the numbers."""
        numbers = sorted(self._configurations)
        for before, after in pairwise(numbers):
            if after == before + 1:
                self._account.exercised.add("CONFIGURATION")
                one, two = self._configurations[before], self._configurations[after]
                if one[0] >= two[0] or not _is_step(one[1], two[1]):
                    told = f"{after} ({two[1]} from {two[0]}) does not follow {before} ({one[1]} from {one[0]})"
                    self._account.accuse("CONFIGURATION", (one[2], two[2]), f"Configuration {told}.", proven=True)

    def _judge_own_steps(self, trail: Trail) -> None:
        """Also from those whom no row made servers: the founders, those of a state, those whom an operator forced."""
        before, since = tuple[str, ...](), event_of(trail.rows[0])
        rule, ruled = "", since
        green = fence = 0
        for row in trail.walk():
            match row.entry:
                case trace.ReplicaStarted(servers=found) if (row.entry.green, row.entry.fence) == (green, fence):
                    if before and found:
                        self._account.exercised.add("CONFIGURATION")
                    if before and found and found != before:
                        text = f"{trail.server} had the servers {before}, and came back with {found}."
                        self._account.accuse("CONFIGURATION", (since, event_of(row)), text, proven=True)
                    if rule and trail.rule and trail.rule != rule:
                        text = f"{trail.server} had the rule {rule}, and came back with {trail.rule}."
                        self._account.accuse("CONFIGURATION", (ruled, event_of(row)), text, proven=True)
            green = trail.green
            if trail.rule != rule:
                rule, ruled = trail.rule, event_of(row)
            if isinstance(row.entry, trace.ReplicaStarted | trace.Fenced):
                fence = row.entry.fence
            if before and isinstance(row.entry, trace.Reconfigured):
                self._account.exercised.add("CONFIGURATION")
                if not _is_step(before, trail.servers):
                    text = f"{trail.server} goes from {before} to {trail.servers} in one step."
                    self._account.accuse("CONFIGURATION", (since, event_of(row)), text, proven=True)
            if trail.servers != before:
                before, since = trail.servers, event_of(row)

    def _judge_own_numbers(self, trail: Trail) -> None:
        """Of what is green, and one number after the other; a start, a state and a force may come with another one."""
        last: tuple[int, EventId] | None = None
        for row in trail.walk():
            match row.entry:
                case trace.Reconfigured(place=place, number=number):
                    if trail.is_told and place > trail.green:
                        text = f"{trail.server} is green up to {trail.green}, and configuration {number} is at {place}."
                        self._account.accuse("CONFIGURATION", (event_of(row),), text, proven=True)
                    if last is not None and number != last[0] + 1:
                        text = f"{trail.server} goes from configuration {last[0]} to {number}."
                        self._account.accuse("CONFIGURATION", (last[1], event_of(row)), text, proven=True)
                    last = number, event_of(row)
                case trace.ReplicaStarted() | trace.StateInstalled() | trace.Fenced():
                    last = None

    def _judge_passed(self, trail: Trail, begun: set[int]) -> None:
        """Nobody goes on beyond the place of a configuration without it.

        Of those that begin on this side: a force makes configurations of the earlier one void for who lacked them.
        """
        passed: list[int] = []
        for row in trail.rows:
            match row.entry:
                case trace.Greened(place=place, messages=messages):
                    for each in passed[:1]:
                        text = (
                            f"{trail.server} goes on behind place {each} without the configuration that begins there."
                        )
                        witness = (self._numbers[each][1], event_of(row))
                        self._account.accuse("CONFIGURATION", witness, text)
                    passed = [each for each in range(place, place + len(messages)) if each in begun]
                case trace.Reconfigured(place=place):
                    passed = [each for each in passed if each != place]
                case trace.ReplicaStarted():
                    passed = []

    def _judge_places(self) -> None:
        """The servers at one place are the same, whether told there, found there at a start, or got with a state.

        Before the first place they are what an operator wrote, which nobody promises.
        """
        known: dict[int, tuple[tuple[str, ...], EventId]] = {}
        for row in sorted((row for trail in self._side.own for row in trail.rows), key=event_of):
            match row.entry:
                case trace.ReplicaStarted(green=place, servers=servers):
                    pass
                case (
                    trace.StateInstalled(place=place, servers=servers)
                    | trace.Reconfigured(place=place, servers=servers)
                ):
                    pass
                case _:
                    continue
            if servers and place:
                told, since = known.setdefault(place, (servers, event_of(row)))
                if since != event_of(row):
                    self._account.exercised.add("CONFIGURATION")
                if told != servers:
                    text = f"At place {place} the servers are {' '.join(told)}, and {' '.join(servers)}."
                    self._account.accuse("CONFIGURATION", (since, event_of(row)), text, proven=True)

    def _judge_rising(self, rows: list[Row]) -> None:
        """A state of a later place is at no earlier position."""
        told = [row for row in rows if isinstance(row.entry, trace.SnapshotKept | trace.StateInstalled)]
        highest: Row | None = None
        for row in sorted(told, key=lambda row: (row.entry.place, row.entry.position, event_of(row))):  # type: ignore[attr-defined]
            if highest is not None and row.entry.position < highest.entry.position:  # type: ignore[attr-defined]
                text = "A state of a later place is at an earlier position."
                self._account.accuse("STATE", (event_of(highest), event_of(row)), text, proven=True)
            else:
                highest = row

    def _judge_reached(self, trail: Trail) -> None:
        """A server keeps a state of what is green there."""
        for row in trail.walk():
            if isinstance(row.entry, trace.SnapshotKept) and trail.is_told and row.entry.place > trail.green:
                text = f"{trail.server} keeps a state of all up to {row.entry.place}, and is green up to {trail.green}."
                self._account.accuse("STATE", (event_of(row),), text, proven=True)

    def _judge_positions(self, rows: list[Row]) -> None:
        """A position counts the records of the messages up to the place, as far as all of them are told."""
        records = {row.entry.message: row.entry.records for row in rows if isinstance(row.entry, trace.Initiated)}
        reached, positions = 0, [0]
        while (name := self._order.names.get(reached + 1)) is not None and name in records:
            reached += 1
            positions.append(positions[-1] + records[name])
        for row in rows:
            entry = row.entry
            if isinstance(entry, trace.SnapshotKept | trace.StateInstalled) and entry.place <= reached:
                self._account.exercised.add("STATE")
                if entry.position != positions[entry.place]:
                    text = (
                        f"{entry.server} has a state at position {entry.position}, for all up to place {entry.place}; "
                        f"these are {positions[entry.place]} records."
                    )
                    self._account.accuse("STATE", (event_of(row),), text)

    def _judge_kept(self, row: Row, entry: trace.SnapshotKept) -> None:
        known = self._states.setdefault(entry.position, {})
        if known:
            self._account.exercised.add("STATE")
            if all(digest != entry.digest for _, digest in known):
                text = f"There are two states at position {entry.position}."
                self._account.accuse("STATE", (min(known.values()), event_of(row)), text, proven=True)
        known.setdefault((entry.place, entry.digest), event_of(row))

    def _judge_installed(self, row: Row, entry: trace.StateInstalled) -> None:
        self._account.exercised.add("STATE")
        known = self._states.get(entry.position, {})
        if (entry.place, entry.digest) in known:
            return
        text = f"Nobody kept this state at position {entry.position}, for all up to {entry.place}."
        self._account.accuse("STATE", (*list(known.values())[:1], event_of(row)), text)


def _is_step(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """One server more or less, or the same ones with another rule."""
    return len(set(before) ^ set(after)) <= 1
