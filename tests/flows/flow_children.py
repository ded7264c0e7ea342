"""``isotone flow`` processes that speak JSON lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from threading import Thread
from typing import Any

LONG_S = 120  # a bound for hangs only: nothing is measured


class Child:
    """One process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "isotone.cli", "flow", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

        self.reader: Thread | None = None  # who reads its lines, if that is not the test itself

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, "it ended"
        found: dict[str, Any] = json.loads(text)
        return found

    def until_phase(self, phase: int) -> None:
        """Read until one of its nodes may enter this phase."""
        while self.line().get("outputs", {}).get("N", 0) < phase:
            pass

    def end(self, sign: int = signal.SIGTERM) -> None:
        """End it, if it runs."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        self.process.wait(timeout=LONG_S)
        if self.reader is not None:
            self.reader.join(LONG_S)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
