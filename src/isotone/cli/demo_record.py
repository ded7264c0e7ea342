"""The record of the demo, judged twice: as it stood when all was quiet and everybody there, and whole.

Some promises are owed only where a run comes to rest with its clients still connected: that what one sends is heard,
by oneself and by all. So the record as it was then is kept beside the trace, as ``settled.jsonl``, and judged too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from isotone.cli.check import check_traces
from isotone.sim.summary import Summary
from isotone.trace.events import Ended, Entry, Row, Stabilised, Truncated
from isotone.trace.jsonl import write_jsonl
from isotone.trace.reader import read
from isotone.trace.recorder import Recorder
from isotone.trace.writer import Level, TraceWriter

SETTLED = "settled"
LOOK_EVERY_S, LOOKS_MAX = 0.1, 100


def ending(daemons: Sequence[str], *, quiet: bool = True) -> tuple[Entry, ...]:
    """What whoever drives the faults says at the end: these are one component, and nothing is under way."""
    return Stabilised((tuple(daemons),) if daemons else ()), Ended(quiet=quiet)


async def keep_settled(directory: Path, daemons: Sequence[str]) -> None:
    """Write down the record as it is, once it does not grow any more. At level full every row is in the files."""
    before: list[Row] = []
    for _ in range(LOOKS_MAX):
        rows = await asyncio.to_thread(_living_rows, directory)
        if len(rows) == len(before):
            break
        before = rows
        await asyncio.sleep(LOOK_EVERY_S)
    quiet = len(rows) == len(before)
    last = [Row("", 0, index, index, entry) for index, entry in enumerate(ending(daemons, quiet=quiet))]
    await asyncio.to_thread(write_jsonl, directory / f"{SETTLED}.jsonl", SETTLED, [*rows, *last])


def _living_rows(directory: Path) -> list[Row]:
    """Of daemons that run: that their files are not closed is no loss."""
    return [row for row in read([directory / "trace"]) if not isinstance(row.entry, Truncated)]


def say_that_all_is_over(directory: Path, run: str) -> None:
    """In the trace itself: no daemon is there any more."""
    writer = TraceWriter(directory / "trace", run, "", 0, level=Level.FULL, rotate_bytes=None)
    recorder = Recorder(writer.append)
    for entry in ending(()):
        recorder.record("", 0, time.monotonic_ns() // 1000, entry)
    writer.close()


class Verdicts(msgspec.Struct, frozen=True):
    """What was found in either."""

    whole: Summary
    settled: Summary

    @property
    def both(self) -> Summary:
        """As one: a property holds that holds in one and is violated or unjudged in none."""
        failures = (*self.whole.failures, *self.settled.failures)
        found = {label: self._better(label) for label in self.whole.properties}
        return Summary(runs=1, violations=len(failures), properties=found, failures=failures, bounds={})

    def _better(self, label: str) -> dict[str, int]:
        states = (self.whole.properties[label], self.settled.properties[label])
        verdict = next(
            name for name in ("violated", "not_judged", "holds", "not_exercised") if any(s[name] for s in states)
        )
        return {name: int(name == verdict) for name in states[0]}


def judge(directory: Path) -> Verdicts:
    """Both records."""
    return Verdicts(check_traces([directory / "trace"]), check_traces([directory / f"{SETTLED}.jsonl"]))
