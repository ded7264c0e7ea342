"""SIGKILL of programs under a mixed load of replicated objects: nothing acknowledged is lost, all replicas are equal.

``python -m tests.integration.object_kills --kills 500 --state DIRECTORY --results FILE`` kills a random server, two, or
all at once, and starts them again. After each round everything stops, and is checked: recorded histories by the
checkers, what was inserted against the rows of every replica, fences, and the digests of all replicas. A line of the
results says what was found; called again with the same files it goes on with the next round.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from isotone.bench.measure import this_machine
from isotone.cli.check import check_traces
from isotone.cli.replica_verify import SESSIONS
from isotone.host.log_client import RemoteLog
from isotone.replicated.records import DigestWanted, encode
from tests.integration.object_program import SERVERS, opened
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
WITHIN_S = 120.0
ROUND_KILLS = 20
LINE = re.compile(r"round (\d+): (\d+) kills")


class Program:
    """One process; ``told`` counts its lines."""

    def __init__(self, name: str, directory: Path, first_port: int, round: int, seed: int) -> None:
        self.name = name
        self._out = directory / f"{name}.out"
        words = [name, str(directory), str(first_port), str(round), str(seed)]
        with self._out.open("w") as out, (directory / f"{name}.err").open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.object_program", *words],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": f"{ROOT}/src"},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
            )
        self._errors = directory / f"{name}.err"

    def lines(self) -> list[str]:
        """All that it said."""
        assert self.process.poll() is None, f"{self.name} ended: {self._errors.read_text()[-2000:]}"
        return self._out.read_text().splitlines()

    def until(self, count: int, what: str = "") -> None:
        """It has said so many lines, and this one."""
        deadline = time.monotonic() + WITHIN_S
        while len(lines := self.lines()) < count or (what and what not in lines):
            assert time.monotonic() < deadline, f"{self.name} does not go on: {lines[-3:]}"
            time.sleep(0.02)

    def failed(self) -> str:
        """It ends by itself; what it says."""
        assert self.process.wait(WITHIN_S) == 1
        self._close()
        return self._errors.read_text()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self._close()

    def line(self) -> None:
        """Type Enter."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Let it close by itself."""
        self.line()
        self._close()

    def _close(self) -> None:
        self.process.wait(WITHIN_S)
        assert self.process.stdin is not None
        self.process.stdin.close()


class Kills:
    """A run of rounds in a directory."""

    def __init__(self, directory: Path, first_port: int, names: Sequence[str] = (*SERVERS, "client")) -> None:
        self._directory, self._first_port, self._names = directory, first_port, names
        directory.mkdir(parents=True, exist_ok=True)

    def round(self, number: int, kills: int) -> str:
        """So many kills, then everything is checked; what was found, in a line."""
        chance = random.Random(number)
        programs = {name: self.start(name, number, 0) for name in self._names}
        killed = together = 0
        try:
            for each in programs.values():
                each.until(2, "up")
            while killed < kills:
                time.sleep(chance.random() * 0.5)
                victims = chance.sample(self._names, chance.choice((1, 1, 1, 2, len(self._names))))
                together += len(victims) == len(self._names)
                for name in victims:
                    programs[name].kill()
                killed += len(victims)
                for name in victims:
                    programs[name] = self.start(name, number, killed)
                for each in programs.values():  # all work again
                    each.until(2 if each.name in victims else len(each.lines()) + 1, "up")
            found = self.stop(programs.values(), number)
        except BaseException:
            for each in programs.values():
                each.kill()
            raise
        return f"round {number}: {killed} kills, {together} times all at once: {found}"

    def start(self, name: str, number: int, killed: int) -> Program:
        """A program works."""
        return Program(name, self._directory, self._first_port, number, killed)

    def stop(self, programs: Collection[Program], number: int) -> str:
        """All finish what they have begun; then everything is checked, and they end."""
        for each in programs:
            each.line()
        for each in programs:
            each.until(2, "stopped")
        found = asyncio.run(self._check(number))
        for each in programs:
            each.end()
        return found

    async def _check(self, number: int) -> str:
        """Everything is quiet, and all servers are there."""
        clients = [f"127.0.0.1:{self._first_port + 2 * place + 1}" for place in range(len(SERVERS))]
        async with RemoteLog(clients) as log:
            position = await log.append(encode(DigestWanted()), within_s=WITHIN_S)
        digests = []
        for address in clients:
            async with RemoteLog([address]) as log:
                answer = await log.ask("digests", str(position))
            assert not answer["problems"], answer
            digests.append({name or SESSIONS: digest for name, digest in answer["digests"].items()})
        assert digests[0] and digests[0] == digests[1] == digests[2], digests
        async with opened("check", self._directory, self._first_port) as objects:
            rows = {row for (row,) in await objects.database("table").read("SELECT row FROM inserted")}
        inserted = self._notes("inserted")
        assert (lost := set(inserted) - rows) == set(), f"acknowledged, and not there: {sorted(lost)[:5]}"
        fences = self.check_fences()
        summary = check_traces([self._directory / f"history{number}"])
        assert not summary.violations, summary.failures
        assert summary.properties["REP-LINEAR"].get("holds"), summary.properties["REP-LINEAR"]
        return f"{len(inserted)} rows and {fences} fences since the beginning, histories hold, replicas are equal"

    def _notes(self, kind: str) -> list[str]:
        return [
            line for path in (self._directory / "notes").glob(f"*.{kind}") for line in path.read_text().split("\n")[:-1]
        ]

    def check_fences(self) -> int:
        """None twice; one that was held after another had ended is higher; no two were held at once."""
        held = sorted((int(begin), int(end), int(fence)) for fence, begin, end in map(str.split, self._notes("held")))
        assert len({fence for _, _, fence in held}) == len(held)
        for earlier, later in pairwise(held):
            assert earlier[2] < later[2], (earlier, later)
            assert earlier[1] <= later[0], (earlier, later)
        return len(held)


def ports_in_a_row() -> int:
    """The first of as many free ports as the servers need."""
    while True:
        found = sorted(free_ports(2 * len(SERVERS)))
        if found[-1] - found[0] == len(found) - 1:
            return found[0]


def head() -> str:
    """What stands above the rounds: the command, the commit, the machine."""
    machine = this_machine()
    return (
        "# python -m tests.integration.object_kills\n"
        f"# commit {machine.commit}; real processes, files and syncs; {machine.python}, {machine.processor}, "
        f"{machine.cores} cores, {machine.system}\n"
        "# SIGKILL under a mixed load of objects\n\n"
    )


def main(words: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=500, help="in all, those of earlier calls counted")
    parser.add_argument("--state", type=Path, required=True, help="a directory for logs, histories and notes")
    parser.add_argument("--results", type=Path, required=True, help="where a line for each round is added")
    options = parser.parse_args(words)
    text = options.results.read_text() if options.results.exists() else ""
    done = [(int(number), int(kills)) for number, kills in LINE.findall(text)]
    killed, number = sum(kills for _, kills in done), max((number for number, _ in done), default=0)
    first_port = ports_in_a_row()
    ports = options.state / "first_port"
    if ports.exists():
        first_port = int(ports.read_text())
    run = Kills(options.state, first_port)
    ports.write_text(str(first_port))
    if not text:
        options.results.write_text(head())
    while killed < options.kills:
        number += 1
        line = run.round(number, min(ROUND_KILLS, options.kills - killed))
        killed += int(LINE.findall(line)[0][1])
        with options.results.open("a") as results:
            results.write(f"{line}\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
