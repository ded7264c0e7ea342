"""Commands of ``isotone`` as processes that need not import everything first: they are forked, see `fork_server`."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOOK_S = 0.02


class ForkServer:
    """The process that forks; one for a whole run of tests, begun when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def ask(self, question: dict[str, Any]) -> Any:
        with self._lock:
            if self._process is None:
                command = [sys.executable, "-m", "tests.integration.fork_server"]
                root = Path(__file__).parents[2]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
                )
                atexit.register(self._end, self._process)
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        """Its input ends, and so does it, with all that it started."""
        process.communicate()


SERVER = ForkServer()


class Forked:
    """A process, with as much of `subprocess.Popen` as tests need."""

    def __init__(self, words: list[str], out: Path, err: Path | None = None) -> None:
        self.pid: int = SERVER.ask({"words": words, "out": str(out), "err": str(err or out)})["pid"]
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = SERVER.ask({"pid": self.pid})["code"]
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("isotone", timeout or 0.0)
            time.sleep(LOOK_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)
