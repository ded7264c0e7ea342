"""Data centres of real processes on loopback: SIGKILL of the whole primary under load, a declaration by two operators,
a take-over, the return as a backup. Every acknowledged write is there once, in one order, at all centres, and the
checkers find no promise broken.

``ISOTONE_CENTRE_SIZE`` processes in each centre (1); ``ISOTONE_CENTRE_KILLS`` disasters (1).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotone.spec.check import check
from isotone.spec.hab_properties import hab_labels
from isotone.spec.verdicts import State
from isotone.trace.events import Truncated
from isotone.trace.reader import read_runs
from tests.host.centres import Centres

ROOT = Path(__file__).parents[2]
SIZE, KILLS = int(os.environ.get("ISOTONE_CENTRE_SIZE", "1")), int(os.environ.get("ISOTONE_CENTRE_KILLS", "1"))
WITHIN_S = 120.0
CENTRES = "abc"


class Process:
    """`centre_process`, and what it said."""

    def __init__(self, centres: Centres, name: str) -> None:
        traces = centres.directory / "traces" / name
        traces.mkdir(parents=True, exist_ok=True)
        words = [str(centres.path), name, str(centres.directory / name), str(traces)]
        self.name = name
        self.said: list[dict[str, Any]] = []
        self._errors = (centres.directory / f"{name}.log").open("a")
        self.running = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.centre_process", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.running.stdout is not None
        for line in self.running.stdout:
            if line.endswith("\n") and line.startswith("{"):
                self.said.append(json.loads(line))

    def tell(self, line: str) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(line + "\n")
        self.running.stdin.flush()

    def all_of(self, key: str) -> list[Any]:
        return [each[key] for each in list(self.said) if key in each]

    def wait_for(self, key: str, count: int = 1) -> dict[str, Any]:
        """The last that says this, once there are so many."""
        until(lambda: len(self.all_of(key)) >= count or self.running.poll() is not None)
        found = [each for each in self.said if key in each]
        assert len(found) >= count, f"{self.name} ended with {self.running.poll()} and said {self.said[-3:]}"
        return found[-1]

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.running.kill()
        else:
            self.tell("stop")
        self.running.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        assert self.running.stdin is not None and self.running.stdout is not None
        self.running.stdin.close()
        self.running.stdout.close()
        self._errors.close()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


class Play:
    """A run: processes by name, and all that any of them acknowledged."""

    def __init__(self, directory: Path) -> None:
        self.centres = Centres(directory, dict.fromkeys(CENTRES, SIZE), head="confirmations = 2")
        self.processes: dict[str, Process] = {}
        self.ended: list[Process] = []

    def start(self, centre: str) -> None:
        for name in self.centres.of(centre):
            self.processes[name] = Process(self.centres, name)
        for name in self.centres.of(centre):
            self.processes[name].wait_for("started")

    def kill(self, centre: str) -> None:
        for name in self.centres.of(centre):
            self.processes[name].running.kill()
        for name in self.centres.of(centre):
            process = self.processes.pop(name)
            process.end(kill=True)
            self.ended.append(process)

    def all_of(self, key: str) -> list[Any]:
        return [each for process in (*self.ended, *self.processes.values()) for each in process.all_of(key)]

    def command(self, *words: str, operator: str = "") -> subprocess.CompletedProcess[str]:
        key = ["--operator", operator, "--key", str(self.centres.directory / f"{operator}.key")] if operator else []
        whole = [sys.executable, "-m", "isotone.cli", "site", *words[:1], *words[1:], str(self.centres.path), *key]
        return subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def act(self, *words: str, operator: str) -> subprocess.CompletedProcess[str]:
        """Again until it is done: another change may be under way."""
        end = time.monotonic() + WITHIN_S
        while (done := self.command(*words, operator=operator)).returncode == 1 and time.monotonic() < end:
            time.sleep(0.2)
        assert done.returncode == 0, f"{done}\n{self.command('status', '--json').stdout}"
        return done

    def primary(self) -> str:
        """As most say."""
        shown = self.command("status", "--json")
        assert shown.returncode in (0, 1), shown
        leaders = [each["leader"] for each in json.loads(shown.stdout)["processes"] if each["role"] == "primary"]
        assert leaders, shown.stdout
        return str(leaders[0])

    def end(self) -> None:
        for process in self.processes.values():
            process.end()
            self.ended.append(process)
        self.processes.clear()


def disaster(play: Play) -> None:
    """The primary is killed while all write; two operators declare it; it comes back."""
    lost = play.primary()
    before = len(play.all_of("acked"))
    until(lambda: len(play.all_of("acked")) >= before + 12)
    play.kill(lost)
    first = play.command("declare-lost", lost, operator="anna")
    assert first.returncode == 1 and "1 more operator says the same" in first.stdout, first
    assert play.command("suspects").returncode == 1
    play.act("declare-lost", lost, operator="ben")
    before = len(play.all_of("acked"))
    until(lambda: len(play.all_of("acked")) >= before + 12)
    assert play.primary() != lost
    play.start(lost)
    play.act("rejoin", lost, operator="anna")
    for name in play.centres.of(lost):
        play.processes[name].tell("load")
        play.processes[name].wait_for("acked")


@pytest.fixture
def play(tmp_path: Path) -> Any:
    found = Play(tmp_path)
    yield found
    for process in found.processes.values():
        process.end(kill=True)


def test_every_acknowledged_write_survives_the_primary(play: Play) -> None:
    for centre in CENTRES:
        play.start(centre)
    play.act("found", operator="anna")
    for process in play.processes.values():
        process.tell("load")
    for _ in range(KILLS):
        disaster(play)
    for process in play.processes.values():
        process.tell("rest")
    count = max(process.wait_for("rested")["rested"] for process in play.processes.values())
    for process in play.processes.values():
        process.tell(f"dump {count}")
    dumps = {name: process.wait_for("items") for name, process in play.processes.items()}
    play.end()
    judge_states(dumps, play)
    judge_traces(play)


def judge_states(dumps: dict[str, dict[str, Any]], play: Play) -> None:
    one = next(iter(dumps.values()))
    for dumped in dumps.values():
        assert (dumped["items"], dumped["total"]) == (one["items"], one["total"])
        first = max(dumped["first"], one["first"])
        assert dumped["order"][first - dumped["first"] :] == one["order"][first - one["first"] :]
    acked, doubtful = play.all_of("acked"), play.all_of("doubtful")
    assert len(acked) > 24 * KILLS and not set(acked) - one["items"].keys()
    counted = len(play.all_of("counted"))
    killed = KILLS * SIZE  # each may have had one write under way of which nobody heard
    assert counted <= one["total"] <= counted + len(doubtful) + killed


def judge_traces(play: Play) -> None:
    runs = read_runs([play.centres.directory / "traces" / name for name in play.centres.file.processes])
    rows = [row for _, found in runs for row in found if not isinstance(row.entry, Truncated)]
    verdicts = check(rows).verdicts
    for label in hab_labels():
        assert verdicts[label].state is not State.VIOLATED, verdicts[label]
    assert verdicts["HAB-ORDER"].state is State.HOLDS
