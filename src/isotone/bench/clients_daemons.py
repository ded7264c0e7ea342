"""Real daemons on loopback to be measured: processes of ``isotone daemon run``, their CPU time and their memory.

The kernel says what a process took (/proc): CPU time to the nanosecond for all its threads, resident memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from isotone.core.errors import MachineError
from isotone.daemon.ports import LOOPBACK, free_ports

START_WITHIN_S = 120.0
STOP_WITHIN_S = 15.0
ANSWER_WITHIN_S = 10.0
LOOK_S = 0.05
KIB = 1024
LOG_TAIL_CHARACTERS = 600


class DaemonProcess:
    """One daemon."""

    def __init__(self, name: str, port: int, admin_port: int, directory: Path) -> None:
        self.name, self.port, self.admin_port = name, port, admin_port
        self.address = f"{LOOPBACK}:{port}"
        self._settings, self._log = directory / "isotone.toml", directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """It ends when we do."""
        command = [sys.executable, "-m", "isotone.cli", "daemon", "run", str(self._settings), "--dev"]
        command += ["--name", self.name, "--end-with", str(os.getpid())]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def ask_to_stop(self) -> None:
        """Cleanly."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, within_s: float) -> None:
        """Wait for its end; kill it if there is none."""
        if self._process is not None:
            try:
                self._process.wait(max(0.0, within_s))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def check(self) -> None:
        """That it runs."""
        if self._process is None or self._process.poll() is not None:
            raise MachineError(f"daemon {self.name} does not run:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last that it said."""
        with suppress(OSError):
            return self._log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARACTERS:]
        return ""

    def ask(self, path: str) -> Any:
        """What its administration port answers."""
        try:
            url = f"http://{LOOPBACK}:{self.admin_port}{path}"
            with urllib.request.urlopen(url, timeout=ANSWER_WITHIN_S) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError, ValueError) as error:
            raise MachineError(f"daemon {self.name} does not answer: {error}") from error

    # --- what the kernel says --------------------------------------------------------------------------------------

    def cpu_seconds(self) -> float:
        """Taken since it began, by all its threads."""
        return sum(int(text.split()[0]) for text in self._of_threads("schedstat")) / 1e9

    def resident_bytes(self) -> int:
        """Memory that it has now."""
        return self._memory("VmRSS")

    def resident_bytes_most(self) -> int:
        """The most that it ever had."""
        return self._memory("VmHWM")

    def _memory(self, field: str) -> int:
        for line in self._of_process("status").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * KIB
        raise MachineError(f"this kernel does not tell {field} of a process")

    def _of_process(self, name: str) -> str:
        self.check()
        assert self._process is not None
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text(encoding="utf-8")
        except OSError as error:
            raise MachineError(f"cannot read {error.filename}: {error.strerror}") from error

    def _of_threads(self, name: str) -> list[str]:
        """Of those that did not end meanwhile."""
        self.check()
        assert self._process is not None
        tasks, told = Path(f"/proc/{self._process.pid}/task"), []
        try:
            for thread in sorted(os.listdir(tasks)):
                with suppress(FileNotFoundError, ProcessLookupError):
                    told.append((tasks / thread / name).read_text())
        except OSError as error:
            raise MachineError(f"cannot read {error.filename}: {error.strerror}") from error
        return told


class Daemons:
    """Several of one site, in one daemon view. Entering starts them, leaving ends them, whatever happens."""

    def __init__(self, count: int, *, limits: str = "") -> None:
        self._directory = TemporaryDirectory(prefix="isotone-bench-")
        directory = Path(self._directory.name)
        ports = free_ports(2 * count)
        self.all = [
            DaemonProcess(f"d{place + 1}", ports[2 * place], ports[2 * place + 1], directory) for place in range(count)
        ]
        (directory / "isotone.toml").write_text(settings_text(self.all, directory, limits), encoding="utf-8")

    def __enter__(self) -> list[DaemonProcess]:
        try:
            for daemon in self.all:
                daemon.start()
            self._wait_together()
        except BaseException:
            self._end()
            raise
        return self.all

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for daemon in self.all:
            daemon.ask_to_stop()
        deadline = time.monotonic() + STOP_WITHIN_S
        for daemon in self.all:
            daemon.end(deadline - time.monotonic())
        self._directory.cleanup()

    def _wait_together(self) -> None:
        deadline = time.monotonic() + START_WITHIN_S
        while not self._is_together():
            for daemon in self.all:
                daemon.check()
            if time.monotonic() > deadline:
                raise MachineError(f"no daemon view of all after {START_WITHIN_S:g} s:\n{self.all[0].log_tail()}")
            time.sleep(LOOK_S)

    def _is_together(self) -> bool:
        try:
            states = [daemon.ask("/status") for daemon in self.all]
        except MachineError:
            return False
        views = [state["stack"]["view"] for state in states if state["ready"]]
        return len(views) == len(self.all) and all(len(view["members"]) == len(self.all) for view in views)


def settings_text(daemons: list[DaemonProcess], directory: Path, limits: str) -> str:
    """The settings that a development cluster has, but for the limits; the trace at its default level."""
    lines = ["[cluster]", 'name = "bench"', f"state_directory = {json.dumps(str(directory / 'state'))}", ""]
    lines += ["[[site]]", 'name = "s1"', ""]
    for daemon in daemons:
        lines += ["[[daemon]]", f'name = "{daemon.name}"', 'site = "s1"', f'address = "{LOOPBACK}"']
        lines += [f"port = {daemon.port}", f"admin_port = {daemon.admin_port}", ""]
    lines += ["[trace]", f"directory = {json.dumps(str(directory / 'trace'))}", "", "[limits]", limits]
    return "\n".join(lines)
