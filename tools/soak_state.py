"""What a soak remembers between calls, and the report made from it.

A *campaign* is the work on one version of the source. Its state is one JSON file, replaced atomically, so that a killed
soak loses at most the chunks that were running; those are listed as handed out and run first by the next call.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from isotone import __version__

VERSION = 1
FAILURES_MAX = 1000  # more are counted, not kept
NOTES_MAX = 100


@dataclass(frozen=True)
class Chunk:
    """Seeds `first` up to and without `first + count` of one task."""

    task: str
    first: int
    count: int


@dataclass(frozen=True)
class Failure:
    task: str
    seed: int
    property: str
    replay: str


@dataclass
class Campaign:
    source: str  # digest of the source that this campaign runs
    next_seed: dict[str, int] = field(default_factory=dict)  # per task; every seed below is finished or handed out
    handed_out: list[Chunk] = field(default_factory=list)
    seeds_finished: dict[str, int] = field(default_factory=dict)  # per task
    seconds_spent: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    failures_total: int = 0
    verdicts: dict[str, dict[str, int]] = field(default_factory=dict)
    broken_chunks: list[str] = field(default_factory=list)  # chunks that ended without a result, with the reason
    events: dict[str, int] = field(default_factory=dict)  # simulated, per release; those of earlier campaigns too

    def finish(
        self, chunk: Chunk, verdicts: dict[str, dict[str, int]], failures: list[Failure], events: int = 0
    ) -> None:
        self.handed_out.remove(chunk)
        self.events[__version__] = self.events.get(__version__, 0) + events
        self.seeds_finished[chunk.task] = self.seeds_finished.get(chunk.task, 0) + chunk.count
        self.failures_total += len(failures)
        self.failures.extend(failures[: FAILURES_MAX - len(self.failures)])
        for name, counts in verdicts.items():
            self.verdicts[name] = dict(Counter(self.verdicts.get(name, {})) + Counter(counts))

    def give_up(self, chunk: Chunk, reason: str) -> None:
        self.handed_out.remove(chunk)
        if len(self.broken_chunks) < NOTES_MAX:
            self.broken_chunks.append(f"{chunk.task} {chunk.first}..{chunk.first + chunk.count - 1}: {reason}")


def source_digest(root: Path) -> str:
    """Changes whenever a campaign's results no longer speak for the source."""
    digest = hashlib.sha256()
    for path in sorted((root / "src").rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def load(path: Path, source: str) -> Campaign:
    """The campaign to go on with, or a new one when there is none for this source.

    A new one after another source tries the seeds that failed there or were not finished first, then goes on to seeds
    that nobody has tried; the earlier report is kept under the name of its source.
    Raises ValueError when the file is there and cannot be read: hours of results are not thrown away by guess.
    """
    if not path.exists():
        return Campaign(source)
    try:
        stored = json.loads(path.read_text())
        if stored.pop("version") != VERSION:
            raise ValueError("written by another version of this tool")
        stored["handed_out"] = [Chunk(**chunk) for chunk in stored["handed_out"]]
        stored["failures"] = [Failure(**failure) for failure in stored["failures"]]
        earlier = Campaign(**stored)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    if earlier.source == source:
        return earlier
    failed = sorted({(failure.task, failure.seed) for failure in earlier.failures})
    again = [Chunk(task, seed, 1) for task, seed in failed]
    finished_report = path.with_name("report.txt")
    if finished_report.exists():
        finished_report.rename(path.with_name(f"report-{earlier.source}.txt"))
    handed_out = [*again, *earlier.handed_out]
    return Campaign(source, next_seed=earlier.next_seed, handed_out=handed_out, events=earlier.events)


def save(path: Path, campaign: Campaign) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps({"version": VERSION, **asdict(campaign)}, indent=1) + "\n")


def replace_text(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    os.replace(beside, path)


def report(campaign: Campaign, hours_wanted: float) -> str:
    hours = campaign.seconds_spent / 3600
    lines = [
        f"soak of source {campaign.source}",
        f"  hours    {hours:.2f} of {hours_wanted:g}",
        *(f"  seeds    {count} of {task}" for task, count in sorted(campaign.seeds_finished.items())),
        *(f"  events   {count:,} simulated of release {release}" for release, count in sorted(campaign.events.items())),
        f"  events   {sum(campaign.events.values()):,} simulated in all",
        f"  failures {campaign.failures_total}",
        *(f"  broken   {note}" for note in campaign.broken_chunks),
    ]
    by_property: dict[str, list[Failure]] = {}
    for failure in campaign.failures:
        by_property.setdefault(failure.property, []).append(failure)
    for name, failures in sorted(by_property.items()):
        lines += ["", f"violated: {name}, {len(failures)} times"]
        lines += [f"  {failure.replay}" for failure in failures[:5]]
    never = [name for name, counts in campaign.verdicts.items() if not {"holds", "violated"} & counts.keys()]
    if never:
        lines += ["", "never exercised, or never reached", *(f"  {name}" for name in sorted(never))]
    if campaign.verdicts:
        lines += ["", "runs by property and verdict"]
        width = max(map(len, campaign.verdicts))
        for name, counts in sorted(campaign.verdicts.items()):
            shown = ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
            lines.append(f"  {name:<{width}}  {shown}")
    return "\n".join(lines) + "\n"
