"""Real daemons for tests of commands: one cluster by ``isotone up``, and the command in this process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from click.testing import CliRunner, Result

from isotone.cli.admin_client import AdminClient
from isotone.cli.main import commands
from isotone.core.errors import IsotoneError

WITHIN_S = 60.0
# The ports that the guides name: those that ``isotone up`` gives, for clients and for the administration.
USUAL = {"d1": (4803, 4810), "d2": (4813, 4820), "d3": (4823, 4830)}


def isotone(*arguments: str, stdin: str = "") -> Result:
    """One command."""
    return CliRunner().invoke(commands, list(arguments), input=stdin)


def told(*arguments: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    result = isotone(*arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def wait_until(reached: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Look until the condition holds."""
    deadline = time.monotonic() + within_s
    pause = Event()
    while not reached():
        assert time.monotonic() < deadline, f"not within {within_s:g} seconds: {what}"
        pause.wait(0.02)


@contextmanager
def process(*arguments: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    """``isotone`` with these arguments; ended when the block ends."""
    with log.open("w") as errors:
        command = [sys.executable, "-m", "isotone.cli", *arguments]
        # In a directory of its own: a cluster leaves a file where it is started, by which other commands find it.
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=log.parent)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()
        if running.stdout is not None:
            running.stdout.close()
        running.wait()


def first_object(running: subprocess.Popen[str], log: Path) -> Any:
    """The JSON object that it prints first; it ends with a brace in the first column."""
    assert running.stdout is not None
    lines: list[str] = []
    for line in running.stdout:
        lines.append(line)
        if line == "}\n":
            return json.loads("".join(lines))
    raise AssertionError(f"it ended: {log.read_text()}")


def answers(address: str) -> bool:
    """Whether a daemon's administration answers there."""
    try:
        return bool(AdminClient(address).get("/health")["healthy"])
    except IsotoneError:
        return False


class Running:
    """The cluster, as ``isotone up --json`` describes it."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description
        self.daemons = {each["name"]: each for each in description["daemons"]}
        self.clients = self.daemons["d1"]["address"]
        self.started_in = Path(description.get("directory", "")).parent

    def admin(self, name: str) -> str:
        return str(self.daemons[name]["admin"])

    def client(self, name: str) -> AdminClient:
        return AdminClient(self.admin(name))

    def at(self, name: str) -> tuple[str, str]:
        return ("--address", self.admin(name))

    def members(self, name: str) -> list[str]:
        status = self.client(name).get("/status")
        return list(status["stack"]["view"]["members"]) if status["ready"] else []

    def is_together(self) -> bool:
        """Whether all are in one daemon view, as each of them says."""
        return all(self.members(name) == sorted(self.daemons) for name in self.daemons)

    def placed(self, text: str) -> str:
        """A text of the guides with this cluster's ports; all at once, for one of these may begin as one of theirs."""
        mine: dict[str, str] = {}
        for name, (port, admin) in USUAL.items():
            mine[f"127.0.0.1:{port}"] = self.daemons[name]["address"]
            mine[f"127.0.0.1:{admin}"] = self.admin(name)
        return re.sub(r"127\.0\.0\.1:\d+", lambda place: mine.get(place[0], place[0]), text)
