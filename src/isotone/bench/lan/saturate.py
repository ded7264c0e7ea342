"""A soak while the machine is saturated: no daemon may be excluded whose own gaps between wake-ups stayed short.

The load is the bench's own: one sender at full speed, three members, and as many busy processes as there are
processors. Gaps and timeouts are asked of the daemons once a second, views are in their logs.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import IsotoneCluster
from isotone.bench.lan.measuring import Members, check_outcomes
from isotone.bench.lan.processes import Process, end_all
from isotone.core.errors import MachineError

LOOK_EVERY_S = 1.0
GAP_MAX_MS = 500.0
SPIN = "while True: pass"
VIEW = re.compile(r"a daemon view works view=(\S+) members=(\S+)")


class DaemonSeen(msgspec.Struct, kw_only=True):
    """What one daemon showed."""

    name: str
    longest_gap_ms: float = 0.0
    silence_timeout_ms_least: float = 0.0
    silence_timeout_ms_most: float = 0.0
    """For the peers that it watches: timeouts grow with measured jitter."""
    views: list[str] = []
    """That came while it was looked at, with their members."""
    excluded: int = 0
    """Times that others had a view without it."""


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


def wrong_exclusions(seen: list[DaemonSeen]) -> int:
    """Daemons that were never away for long, and that a view left out.

    A split that is explained by those on one side of it, who all were away, is no wrong exclusion of the other side: a
    daemon that comes back after others went on has a view of its own for a moment.
    """
    away = {each.name for each in seen if each.longest_gap_ms >= GAP_MAX_MS}
    names = {each.name for each in seen}
    wrong = 0
    for members in (set(view.split()[1:]) for view in {view for each in seen for view in each.views}):
        outside = names - members
        if not members <= away:
            wrong += len(outside - away)
    return wrong


def _look_until(
    end: float, running: IsotoneCluster, members: Members, seen: list[DaemonSeen], say: Callable[[str], None]
) -> None:
    told = 0.0
    while (now := time.monotonic()) < end:
        time.sleep(min(LOOK_EVERY_S, end - now))
        members.check()
        for place, each in enumerate(seen):
            look(running, place, each)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            gaps = ", ".join(f"{each.name} {each.longest_gap_ms:.0f} ms" for each in seen)
            say(f"{max(0.0, end - told):.0f} s left; longest gaps: {gaps}")


def look(running: IsotoneCluster, place: int, seen: DaemonSeen) -> None:
    """What a daemon says of itself now."""
    try:
        status = running.status(place)
    except MachineError:
        return  # too busy to answer; the next look is soon
    stack = status["stack"]
    seen.longest_gap_ms = status["counts"]["node"]["wake_gap_us_max"] / 1e3
    timeouts = [peer["timeouts"]["silence"]["us"] / 1e3 for peer in stack["peers"]]
    if timeouts:
        seen.silence_timeout_ms_most = max(seen.silence_timeout_ms_most, *timeouts)
        seen.silence_timeout_ms_least = min(seen.silence_timeout_ms_least or min(timeouts), *timeouts)


def views_in(log: str) -> list[str]:
    """Every daemon view that a daemon's log tells of, with its members: none is too short to be seen."""
    return [f"{view} {members.replace(',', ' ')}" for view, members in VIEW.findall(log)]


def count_exclusions(seen: list[DaemonSeen]) -> None:
    """Each view without a daemon counts once for it, whoever had it."""
    views = {view for each in seen for view in each.views}
    for each in seen:
        each.excluded = sum(each.name not in view.split()[1:] for view in views)


def _spin(directory: Path) -> list[Process]:
    """Busy processes, so that no processor is ever idle."""
    command = [sys.executable, "-c", SPIN]
    return [Process(command, directory / f"spin{place}.log") for place in range(os.cpu_count() or 1)]


def _idle_seconds() -> float:
    """Of all processors together, since the machine began."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
