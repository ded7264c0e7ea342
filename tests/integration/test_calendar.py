"""The calendar on three real processes: any one is killed while two people edit; no confirmed entry is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("a", "b", "c")
DEADLINE_S = 120.0
BEFORE, AFTER = 8, 8  # entries of each person that are confirmed before and after the kill


@dataclass
class Machines:
    """Three processes, and their ports for people."""

    addresses: dict[str, str]
    ports: dict[str, int]
    states: Path
    options: tuple[str, ...]
    stack: ExitStack
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        peers = [f"{each}={address}" for each, address in self.addresses.items()]
        own = [*self.options, "--state", str(self.states / name), name, self.addresses[name], str(self.ports[name])]
        command = [sys.executable, "-m", "examples.calendar.serve", *own, *peers]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self.stack.callback(process.stdout.close)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.processes[name] = process

    def wait_for(self, name: str) -> None:
        said = self.processes[name].stdout
        assert said is not None and said.readline().startswith(f"{name} serves")

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextmanager
def machines(states: Path, *options: str) -> Iterator[Machines]:
    numbers = free_ports(6)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, numbers[:3], strict=True)}
    ports = dict(zip(NAMES, numbers[3:], strict=True))
    with ExitStack() as stack:
        running = Machines(addresses, ports, states, options, stack)
        for name in NAMES:
            running.start(name)
        for name in NAMES:
            running.wait_for(name)
        yield running


@dataclass
class Person:
    """Edits through one machine, and through another one when that is gone; every entry until it is confirmed."""

    name: str
    machines: Machines
    first: str
    confirmed: list[str] = field(default_factory=list)
    _talk: socket.socket | None = None

    def say(self, line: str, until: float) -> object:
        """A command, repeated over whatever machine is there."""
        turn = NAMES.index(self.first)
        while time.monotonic() < until:
            try:
                if self._talk is None:
                    self._talk = socket.create_connection(("127.0.0.1", self.machines.ports[NAMES[turn % 3]]), 30)
                self._talk.sendall(line.encode() + b"\n")
                with self._talk.makefile("rb") as lines:
                    said = lines.readline()
                if said and not said.startswith(b'"not known'):
                    return json.loads(said)
            except OSError:
                pass
            self.hang_up()
            turn += 1
            time.sleep(0.05)
        raise AssertionError(f"{line!r} was not answered")

    def hang_up(self) -> None:
        """Close what is open."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None

    def edit(self, count: int) -> None:
        """Enter so many more."""
        until = time.monotonic() + DEADLINE_S
        for _ in range(count):
            id = f"{self.name}{len(self.confirmed)}"
            said = self.say(f"enter {id} monday {id} of {self.name}", until)
            assert isinstance(said, int)
            self.confirmed.append(id)


@pytest.mark.parametrize(
    ("victim", "options"), [("a", ()), ("b", ()), ("c", ()), ("a", ("--view-synchronous",))], ids=str
)
def test_no_confirmed_entry_is_lost_or_doubled(victim: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """And who was killed has all of it when it is started again."""
    with machines(tmp_path, *options) as running:
        people = [Person("x", running, "a"), Person("y", running, "c")]
        for person in people:
            person.edit(BEFORE)
        threads = [threading.Thread(target=person.edit, args=(AFTER,)) for person in people]
        for thread in threads:
            thread.start()
        running.kill(victim)
        for thread in threads:
            thread.join(DEADLINE_S)
        confirmed = sorted(id for person in people for id in person.confirmed)
        assert len(confirmed) == 2 * (BEFORE + AFTER)
        until = time.monotonic() + DEADLINE_S
        running.start(victim)
        running.wait_for(victim)
        witness = Person("z", running, victim)
        assert witness.say("ids", until) == confirmed
        assert witness.say("page monday", until) == sorted(f"{id} of {id[0]}" for id in confirmed)
        for person in (*people, witness):
            person.hang_up()
