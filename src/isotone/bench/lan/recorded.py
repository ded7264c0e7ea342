"""A run at full speed with its trace kept and judged: no gap, no violation, nothing that could not be judged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import IsotoneCluster
from isotone.bench.lan.measuring import Members, check_outcomes, sample_of
from isotone.spec.check import check
from isotone.spec.verdicts import State
from isotone.trace.events import Gap, Row, Sent, Truncated
from isotone.trace.reader import read_runs

STOP_WITHIN_S = 300.0


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What the record says."""

    seconds: float
    messages: int
    rate: float
    rows: int
    gaps: int
    verdicts: dict[str, int]
    """How many properties hold, are violated, were not exercised, could not be judged."""
    violated: list[str]
    not_judged: list[str]

    @property
    def is_good(self) -> bool:
        """As it has to be."""
        return not self.gaps and not self.violated and not self.not_judged


def recorded(cell: Cell, seconds: float, trace: Path, say: Callable[[str], None]) -> Recorded:
    """Run, end the daemons cleanly, and judge what they wrote."""
    say(f"{seconds:g} s at full speed")
    with IsotoneCluster(cell.cluster, None, trace=trace) as running:
        with Members(cell, running) as members:
            members.go()
            before = members.snapshot()
            time.sleep(seconds)
            after = members.snapshot()
            check_outcomes(cell, members.stop())
        say("the daemons end and finish their traces")
        running.end_cleanly(STOP_WITHIN_S)
    say("judging the record")
    return judge(trace, sample_of(cell, before, after).rate, seconds)


def judge(trace: Path, rate: float, seconds: float) -> Recorded:
    """Every property over every run in the directory."""
    counted = Counter[str]()
    states: Counter[str] = Counter()
    found: dict[State, list[str]] = {State.VIOLATED: [], State.NOT_JUDGED: []}
    for _, rows in read_runs([trace]):
        report = check(_counting(rows, counted))
        states.update(verdict.state.value for verdict in report.verdicts.values())
        for state, labels in found.items():
            labels += report.labels(state)
    return Recorded(
        seconds=seconds,
        messages=counted["messages"],
        rate=rate,
        rows=counted["rows"],
        gaps=counted["gaps"],
        verdicts=dict(states),
        violated=found[State.VIOLATED],
        not_judged=found[State.NOT_JUDGED],
    )


def _counting(rows: Iterable[Row], counted: Counter[str]) -> Iterator[Row]:
    for row in rows:
        counted["rows"] += 1
        counted["gaps"] += isinstance(row.entry, Gap | Truncated)
        if isinstance(row.entry, Sent):
            counted["messages"] += len(row.entry.lengths)
        yield row
