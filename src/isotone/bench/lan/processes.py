"""Processes that the bench started: what each took of the processors, and their end, whatever happens."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from isotone.core.errors import MachineError

PR_SET_PDEATHSIG = 1  # of Linux; it outlives exec, so that it works for daemons of peers too
LIBC = ctypes.CDLL(None)
SCHED_CLOCK = 2
PARENT, WAITED = 1, slice(13, 15)  # in what the kernel tells of a process, behind its name
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
KIB = 1024
LOG_TAIL_CHARACTERS = 800
END_WITHIN_S = 10.0


def cpu_seconds(pid: int) -> float:
    """Taken by all threads of a process since it began, those that ended too; the kernel counts nanoseconds."""
    try:
        return time.clock_gettime((~pid << 3) | SCHED_CLOCK)  # the CPU clock of another process, as the kernel names it
    except OSError as error:
        raise MachineError(f"process {pid} is gone: {error.strerror}") from None


def family_cpu_seconds(pids: Sequence[int]) -> float:
    """Taken by these and all that they started, also those that ended: a daemon converts its trace in another one."""
    children: dict[int, list[int]] = {}
    waited: dict[int, float] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            fields = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[PARENT]), []).append(int(name))
            waited[int(name)] = sum(map(int, fields[WAITED])) / CLOCK_TICKS
    total, todo = sum(map(cpu_seconds, pids)), list(pids)
    while todo:
        pid = todo.pop()
        total += waited.get(pid, 0.0)
        for child in children.get(pid, []):
            with suppress(MachineError):  # it ended just now
                total += cpu_seconds(child)
                todo.append(child)
    return total


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    """Resident now; with VmHWM, the most ever."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * KIB
    raise MachineError(f"this kernel does not tell {field} of a process")


def _end_with_parent() -> None:
    """Between fork and exec: have the kernel kill the process when the bench ends, be it by a kill."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class Process:
    """One, with its log."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        try:
            with log.open("ab") as file:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                    preexec_fn=_end_with_parent,  # noqa: PLW1509  no thread of ours holds a lock that it needs
                )
        except OSError as error:
            raise MachineError(f"cannot start {command[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """As the kernel numbers it."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Its exit code, once it ended."""
        return self._process.poll()

    @property
    def tail(self) -> str:
        """The last that it said."""
        with suppress(OSError):
            return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARACTERS:]
        return ""

    def signal(self, number: int) -> None:
        """Unless it ended."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, within_s: float) -> bool:
        """Whether it ended in time."""
        try:
            self._process.wait(max(0.0, within_s))
        except subprocess.TimeoutExpired:
            return False
        return True


def end_all(processes: Sequence[Process], *, first: int = signal.SIGTERM) -> None:
    """Ask all to end, wait, and kill who does not."""
    for process in processes:
        process.signal(first)
        process.signal(signal.SIGCONT)
    deadline = time.monotonic() + END_WITHIN_S
    for process in processes:
        if not process.wait(deadline - time.monotonic()):
            process.signal(signal.SIGKILL)
            process.wait(END_WITHIN_S)
