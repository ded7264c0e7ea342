"""A soak while the machine is saturated: no daemon may be excluded whose own gaps between wake-ups stayed short.

The load is the bench's own: one sender at full speed, three members, and as many busy processes as there are
processors. Gaps and timeouts are asked of the daemons once a second, views are in their logs.

A gap is what passed between two ticks of a daemon beyond the tick itself. It excuses an exclusion only near it in time.
A daemon tells its longest gap of the last one to two minutes: what changes there is noted when it is seen.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import IsotoneCluster
from isotone.bench.lan.measuring import Members, check_outcomes
from isotone.bench.lan.processes import Process, end_all
from isotone.core.errors import MachineError
from isotone.daemon.gaps import RECENT_TICKS, TICK_SECONDS

LOOK_EVERY_S = 1.0
GAP_MAX_MS = 500.0
MINUTE_S = RECENT_TICKS * TICK_SECONDS
"""A gap below the longest of the minute before is told when that one is forgotten, so much later."""
SLACK_S = 5.0
SPIN = "while True: pass"
VIEW = re.compile(r"^(\S+) .*a daemon view works view=(\S+) members=(\S+)", re.MULTILINE)


class ViewSeen(msgspec.Struct, frozen=True):
    """A daemon view, when it came."""

    at: float
    """Seconds of the clock on the wall."""
    name: str
    members: tuple[str, ...]


class GapSeen(msgspec.Struct, frozen=True):
    """A gap, when it was seen."""

    at: float
    ms: float


class DaemonSeen(msgspec.Struct, kw_only=True):
    """What one daemon showed."""

    name: str
    gaps: list[GapSeen] = []
    """Since the soak began."""
    longest_gap_ms: float = 0.0
    """Of these."""
    silence_timeout_ms_least: float = 0.0
    silence_timeout_ms_most: float = 0.0
    """For the peers that it watches: timeouts grow with measured jitter."""
    views: list[ViewSeen] = []
    """That came while it was looked at."""
    excluded: int = 0
    """Times that others had a view without it."""
    began: float = 0.0
    told_ms: float = -1.0
    """What it told last of its gaps."""

    def was_away(self, at: float) -> bool:
        """Whether a long gap of its own was near this time: seen then, or when a longer one before it was forgotten."""
        return any(gap.ms >= GAP_MAX_MS and -SLACK_S <= gap.at - at <= MINUTE_S + SLACK_S for gap in self.gaps)

    def tell(self, ms: float, at: float) -> None:
        """It tells this of its gaps now. What was so before the soak says nothing."""
        before, self.told_ms = self.told_ms, ms
        if before < 0:
            self.began = at
        elif ms > before or (ms < before and at - self.began > MINUTE_S):
            self.gaps.append(GapSeen(at, ms))
            self.longest_gap_ms = max(self.longest_gap_ms, ms)


class Saturated(msgspec.Struct, frozen=True, kw_only=True):
    """The soak."""

    minutes: float
    busy: float
    """The share of all processors that were not idle."""
    messages: int
    daemons: list[DaemonSeen]
    wrong_exclusions: int

    @property
    def is_good(self) -> bool:
        """As it has to be."""
        return not self.wrong_exclusions


def saturate(cell: Cell, seconds: float, say: Callable[[str], None], *, spin: bool = True) -> Saturated:
    """Load, and look."""
    with IsotoneCluster(cell.cluster, None) as running:
        seen = [DaemonSeen(name=f"d{place + 1}") for place in range(cell.daemons)]
        with Members(cell, running) as members:
            members.go()
            spinning = _spin(running.directory) if spin else []
            try:
                sizes = [daemon.log.stat().st_size for daemon in running.daemons]
                for place, each in enumerate(seen):
                    look(running, place, each, time.time())
                idle, began = _idle_seconds(), time.monotonic()
                _look_until(began + seconds, running, members, seen, say)
                for each, daemon, size in zip(seen, running.daemons, sizes):
                    each.views = views_in(daemon.log.read_bytes()[size:].decode("utf-8", "replace"))
                count_exclusions(seen)
                lasted = time.monotonic() - began
                busy = 1 - (_idle_seconds() - idle) / lasted / (os.cpu_count() or 1)
            finally:
                end_all(spinning, first=9)
            outcomes = members.stop()
        check_outcomes(cell, outcomes)
    return Saturated(
        minutes=round(lasted / 60, 2),
        busy=round(busy, 3),
        messages=sum(outcomes[0].delivered.values()),
        daemons=seen,
        wrong_exclusions=wrong_exclusions(seen),
    )


def wrong_exclusions(seen: Sequence[DaemonSeen]) -> int:
    """Daemons that were not away for long when a view left them out.

    A split that is explained by those on one side of it, who all were away, is no wrong exclusion of the other side: a
    daemon that comes back after others went on has a view of its own for a moment.
    """
    names = {each.name for each in seen}
    wrong = 0
    for view in _distinct(seen):
        away = {each.name for each in seen if each.was_away(view.at)}
        if not {*view.members} <= away:
            wrong += len(names - {*view.members} - away)
    return wrong


def _distinct(seen: Sequence[DaemonSeen]) -> list[ViewSeen]:
    """Each view once, as the first had it."""
    views = sorted((view for each in seen for view in each.views), key=lambda view: view.at)
    return list({(view.name, view.members): view for view in reversed(views)}.values())


def _look_until(
    end: float, running: IsotoneCluster, members: Members, seen: list[DaemonSeen], say: Callable[[str], None]
) -> None:
    told = 0.0
    while (now := time.monotonic()) < end:
        time.sleep(min(LOOK_EVERY_S, end - now))
        members.check()
        for place, each in enumerate(seen):
            look(running, place, each, time.time())
        if time.monotonic() - told > 30:
            told = time.monotonic()
            gaps = ", ".join(f"{each.name} {each.longest_gap_ms:.0f} ms" for each in seen)
            say(f"{max(0.0, end - told):.0f} s left; longest gaps: {gaps}")


def look(running: IsotoneCluster, place: int, seen: DaemonSeen, at: float) -> None:
    """What a daemon says of itself now."""
    try:
        status = running.status(place)
    except MachineError:
        return  # too busy to answer; the next look is soon
    stack = status["stack"]
    seen.tell(max(0.0, status["counts"]["node"]["wake_gap_us_recent"] / 1e3 - TICK_SECONDS * 1e3), at)
    timeouts = [peer["timeouts"]["silence"]["us"] / 1e3 for peer in stack["peers"]]
    if timeouts:
        seen.silence_timeout_ms_most = max(seen.silence_timeout_ms_most, *timeouts)
        seen.silence_timeout_ms_least = min(seen.silence_timeout_ms_least or min(timeouts), *timeouts)


def views_in(log: str) -> list[ViewSeen]:
    """Every daemon view that a daemon's log tells of, with its members: none is too short to be seen."""
    return [
        ViewSeen(datetime.fromisoformat(at).timestamp(), view, tuple(members.split(",")))
        for at, view, members in VIEW.findall(log)
    ]


def count_exclusions(seen: Sequence[DaemonSeen]) -> None:
    """Each view without a daemon counts once for it, whoever had it."""
    for each in seen:
        each.excluded = sum(each.name not in view.members for view in _distinct(seen))


def _spin(directory: Path) -> list[Process]:
    """Busy processes, so that no processor is ever idle."""
    command = [sys.executable, "-c", SPIN]
    return [Process(command, directory / f"spin{place}.log") for place in range(os.cpu_count() or 1)]


def _idle_seconds() -> float:
    """Of all processors together, since the machine began."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
