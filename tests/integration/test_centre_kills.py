"""Data centres of real processes on loopback: SIGKILL of a whole primary under load, a declaration by two operators, a
take-over, the return as a backup. Every acknowledged write to a dict, a counter and a database is there once, in one
order, in all copies, and the checkers find every promise kept that the run put to the test.

Three processes in each of three centres (``ISOTONE_CENTRE_SIZE``), one disaster (``ISOTONE_CENTRE_KILLS``). Many:

    python -m tests.integration.test_centre_kills --kills 20 --out results/centre-disasters.txt
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isotone.spec.check import check
from isotone.spec.hab_properties import HAB_PROPERTIES
from isotone.spec.properties import Form, Property
from isotone.spec.verdicts import State, Verdict
from isotone.trace.events import Ended, Row, Stabilised, Truncated
from isotone.trace.hab import HaDisaster
from isotone.trace.reader import read_runs
from tests.host.centres import Centres
from tests.integration.centre_process import ORDERS

ROOT = Path(__file__).parents[2]
SIZE, KILLS = int(os.environ.get("ISOTONE_CENTRE_SIZE", "3")), int(os.environ.get("ISOTONE_CENTRE_KILLS", "1"))
WITHIN_S = 300.0
"""For anything that must come: reached by no machine that gets on at all."""
CENTRES = "abc"
WRITES = 12
NOT_TRIED = {
    "HAB-AHEAD": "the primary waits for the others",
    "HAB-ASSUME-COMPLETE": "whoever was lost is back at the end",
    "HAB-ASSUME-SUSPICION": "all processes run at the end",
}
LOCAL_DETECTOR = "HAB-ASSUME-DETECTOR"  # of a busy machine nothing is asked
RETRIED = (1, 3)  # of `isotone site`: not yet, nobody answered


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
    """A run: processes by name, and all that any of them said."""

    def __init__(self, directory: Path, kills: int = KILLS) -> None:
        self.kills = kills
        self.centres = Centres(directory, dict.fromkeys(CENTRES, SIZE), head="confirmations = 2")
        self.processes: dict[str, Process] = {}
        self.ended: list[Process] = []
        self.disasters: list[tuple[int, str]] = []  # when, in microseconds of this machine, and which centre
        self.take_overs: list[float] = []  # seconds from the second operator's word to the first write in the new order

    # --- processes -------------------------------------------------------------------------------------------------

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
        self.disasters.append((time.monotonic_ns() // 1_000, centre))

    def all_of(self, key: str) -> list[Any]:
        return [each for process in (*self.ended, *self.processes.values()) for each in process.all_of(key)]

    def told(self, line: str, key: str) -> dict[str, dict[str, Any]]:
        """What each process says to this line."""
        before = {name: len(process.all_of(key)) for name, process in self.processes.items()}
        for process in self.processes.values():
            process.tell(line)
        return {name: process.wait_for(key, before[name] + 1) for name, process in self.processes.items()}

    def await_writes(self) -> None:
        """As many as count as load, of the processes that run now."""
        before = len(self.all_of("placed"))
        until(lambda: len(self.all_of("placed")) >= before + WRITES)

    def end(self) -> None:
        for process in self.processes.values():
            process.end()
            self.ended.append(process)
        self.processes.clear()

    # --- operators -------------------------------------------------------------------------------------------------

    def command(self, *words: str, operator: str = "") -> subprocess.CompletedProcess[str]:
        key = ["--operator", operator, "--key", str(self.centres.directory / f"{operator}.key")] if operator else []
        whole = [sys.executable, "-m", "isotone.cli", "site", *words[:1], *words[1:], str(self.centres.path), *key]
        return subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def act(self, *words: str, operator: str, until_told: str = "") -> None:
        """Again until it is done, or until it says this: another change may be under way, a process may be busy."""
        end = time.monotonic() + WITHIN_S
        while True:
            done = self.command(*words, operator=operator)
            if done.returncode == 0 or (until_told and until_told in done.stdout):
                break
            told = f"{done}\n{self.command('status', '--json').stdout}"
            assert done.returncode in RETRIED and time.monotonic() < end, told
            time.sleep(0.2)
        assert (done.returncode == 0) is not bool(until_told), done

    def status(self) -> dict[str, dict[str, Any]]:
        shown = self.command("status", "--json")
        assert shown.returncode in (0, *RETRIED), shown
        return {each["process"]: each for each in json.loads(shown.stdout or '{"processes": []}')["processes"]}

    def primary(self, *, other_than: str = "") -> str:
        """The centre that leads, by the word of a process there, once there is one."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [each["centre"] for each in self.status().values() if each["role"] == "primary"]
            return any(each != other_than for each in found)

        until(is_there)
        return next(each for each in found if each != other_than)

    def suspected(self) -> dict[str, int]:
        """The centres that `isotone site suspects` names, with the number of processes that do not answer."""
        shown = self.command("suspects", "--json")
        return {each["centre"]: each["silent_processes"] for each in json.loads(shown.stdout)["suspects"]}


def disaster(play: Play) -> None:
    """The primary is killed while all write; two operators declare it; it comes back."""
    lost = play.primary()
    play.await_writes()
    play.kill(lost)
    assert play.suspected().get(lost) == SIZE
    play.act("declare-lost", lost, operator="anna", until_told="1 more operator says the same")
    play.act("declare-lost", lost, operator="ben")
    declared = time.monotonic()
    play.primary(other_than=lost)
    play.await_writes()
    play.take_overs.append(time.monotonic() - declared)
    play.start(lost)
    play.act("rejoin", lost, operator="anna")
    for name in play.centres.of(lost):
        play.processes[name].tell("load")
        play.processes[name].wait_for("placed")


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    found = Play(tmp_path)
    yield found
    for process in found.processes.values():
        process.end(kill=True)


def test_every_acknowledged_write_survives_the_primary(play: Play) -> None:
    run(play)


def run(play: Play) -> dict[str, Verdict]:
    """The whole of it; what the checkers say at the end."""
    for centre in CENTRES:
        play.start(centre)
    play.act("found", operator="anna")
    for process in play.processes.values():
        process.tell("load")
    for _ in range(play.kills):
        disaster(play)
    count = max(each["rested"] for each in play.told("rest", "rested").values())
    dumps = play.told(f"dump {count}", "items")
    end = max(each["closed"] for each in play.told("close", "closed").values())
    play.told(f"reach {end}", "reached")
    judge_messages(play.status())
    verdicts = judge_promises(play, at_rest=True)
    play.end()
    judge_promises(play, at_rest=False)
    judge_states(dumps, play)
    judge_files(dumps, play)
    return verdicts


def judge_states(dumps: dict[str, dict[str, Any]], play: Play) -> None:
    one = next(iter(dumps.values()))
    for dumped in dumps.values():
        assert (dumped["items"], dumped["total"], dumped["rows"]) == (one["items"], one["total"], one["rows"])
        first = max(dumped["first"], one["first"])
        assert dumped["order"][first - dumped["first"] :] == one["order"][first - one["first"] :]
    assert len(play.all_of("acked")) > 2 * WRITES * play.kills and not set(play.all_of("acked")) - one["items"].keys()
    counted = len(play.all_of("counted"))
    killed = play.kills * SIZE  # each may have had one write under way of which nobody heard
    assert counted <= one["total"] <= counted + len(play.all_of("doubtful")) + killed
    names = [name for _, name in one["rows"]]
    assert [number for number, _ in one["rows"]] == [*range(1, len(names) + 1)] and len(names) == len(set(names))
    said = {each["placed"]: each["number"] for p in play.ended for each in p.said if "placed" in each}
    assert all(names[number - 1] == name for name, number in said.items())


def judge_files(dumps: dict[str, dict[str, Any]], play: Play) -> None:
    """The files on disk, as any other program sees them."""
    for name, dumped in dumps.items():
        (file,) = (play.centres.directory / name / "databases").glob(f"life-*/{ORDERS}.sqlite")
        with sqlite3.connect(file) as connection:
            found = connection.execute("SELECT number, name FROM placed ORDER BY number").fetchall()
        connection.close()
        assert [list(row) for row in found] == dumped["rows"], name


def judge_messages(status: dict[str, dict[str, Any]]) -> None:
    """What crossed, as status says it: every centre that stored anything answered, and each kind has its direction."""
    crossed = Counter[str]()
    for each in status.values():
        crossed.update(each["crossed"])
    assert crossed["Store"] and crossed["OkStored"] and crossed["Send"] and crossed["OkSent"]
    assert crossed["SendState"] and crossed["OkState"] and crossed["Welcome"]  # of the last take-over, and return
    followers = [each for each in status.values() if each["role"] == "backup"]
    assert followers and any(each["crossed"].get("OkStored") for each in followers)


def judge_promises(play: Play, *, at_rest: bool) -> dict[str, Verdict]:
    """By the record of all processes. ``at_rest``: they still run, and nothing is under way: what is owed is there now.

    Their files are not closed then, which the reader marks by a `Truncated` at the end of each; but at level full each
    row is in the file before its effect leaves the process, so for a process at rest nothing is missing.
    """
    paths = [play.centres.directory / "traces" / name for name in play.centres.file.processes]
    rows = [row for _, found in read_runs(paths) for row in found]
    marks = [Row("", 0, index, at, HaDisaster(centre)) for index, (at, centre) in enumerate(play.disasters)]
    if at_rest:
        assert {row.node for row in rows if isinstance(row.entry, Truncated)} <= play.processes.keys()
        rows = [row for row in rows if not isinstance(row.entry, Truncated)]
        ending = (Stabilised((tuple(play.processes),)), Ended(quiet=True))
        marks += [Row("", 0, len(marks) + index, 0, entry) for index, entry in enumerate(ending)]
    report = check([*rows, *marks])
    assert not report.missing, report.missing
    found = {each.id: report.verdicts[each.id] for each in HAB_PROPERTIES}
    wanted = {each.id: expected(each, at_rest=at_rest) for each in HAB_PROPERTIES if each.id != LOCAL_DETECTOR}
    assert {label: found[label].state for label in wanted} == wanted, found
    return found


def expected(each: Property, *, at_rest: bool) -> State:
    """Everything holds but what this run does not put to the test."""
    owed_later = each.form is Form.LIVENESS and not at_rest  # a stop breaks off what was to come
    one_alone = each.id == "HAB-LOCAL" and SIZE == 1  # nobody is there to agree with
    is_untried = each.id in NOT_TRIED or owed_later or one_alone
    return State.NOT_EXERCISED if is_untried else State.HOLDS


def main() -> None:
    """Many disasters, and what came of them, as text."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help="how many disasters")
    parser.add_argument("--out", type=Path, help="where the text goes, if not to the standard output")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        play = Play(Path(directory), arguments.kills)
        try:
            verdicts = run(play)
        finally:
            for process in play.processes.values():
                process.end(kill=True)
        lines = report_of(play, verdicts, time.monotonic() - began)
    text = "\n".join(lines) + "\n"
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.write_text(text)


def report_of(play: Play, verdicts: dict[str, Verdict], seconds: float) -> list[str]:
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    version, machine, cores = platform.python_version(), platform.machine(), os.cpu_count()
    lost, waits = Counter(centre for _, centre in play.disasters), sorted(play.take_overs)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [
        f"# python -m tests.integration.test_centre_kills --kills {play.kills}",
        f"# commit {commit.stdout.strip()}; real processes, files and syncs on loopback; CPython {version}, {machine}, "
        f"{cores} cores, shared with others",
        "",
        f"{play.kills} times all {SIZE} processes of the primary of {len(CENTRES)} data centres were killed (SIGKILL)",
        "while all processes wrote to a dict, a counter and a database; two operators declared the centre lost,",
        "another one took over, and the lost one came back as a backup. At the end every acknowledged write was",
        "there, once, in one order, in the memory of every process and in its SQLite file.",
        "",
        f"the primary was lost at     {', '.join(f'{name} {count} times' for name, count in sorted(lost.items()))}",
        f"acknowledged writes         {len(play.all_of('acked'))} dict, {len(play.all_of('counted'))} counter, "
        f"{len(play.all_of('placed'))} database",
        f"answered with a doubt       {len(play.all_of('doubtful'))}",
        f"declared to {WRITES} new writes   {waits[0]:.1f} to {waits[-1]:.1f} s, half of them within "
        f"{waits[len(waits) // 2]:.1f} s",
        f"the whole run               {seconds:.0f} s, {cpu.ru_utime + cpu.ru_stime:.0f} CPU seconds",
        "",
        *(f"{label:<21}{verdict.state.value.replace('_', ' ')}" for label, verdict in verdicts.items()),
    ]


if __name__ == "__main__":
    main()
