"""What a process and all that it started have used: CPU time, and memory at its peak. From Linux's ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def _processes() -> dict[int, list[str]]:
    """The fields of ``stat`` behind the name, by process."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        found[int(name)] = text.rpartition(")")[2].split()
    return found


def _family() -> dict[int, list[str]]:
    known = _processes()
    mine = {os.getpid()}
    while True:
        more = {pid for pid, fields in known.items() if int(fields[1]) in mine} - mine
        if not more:
            return {pid: known[pid] for pid in mine if pid in known}
        mine |= more


def cpu_seconds_of_all() -> float:
    """User and system time of this process, its descendants, and those of them that ended."""
    return sum(sum(map(int, fields[11:15])) for fields in _family().values()) / _TICKS


def peak_bytes_of_all() -> int:
    """The sum of the highest resident sizes: at most so much was used at one time."""
    return sum(map(_peak, _family()))


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
