"""Run the simulator over ever new seeds, for hours, and go on where the last call stopped.

HOURS is the total for one version of the source: a soak that was stopped after three of eight hours runs five more when
it is called again. Changed source starts a new campaign: failed seeds first, then seeds never tried.

Each chunk of seeds is one process of one task (tools/soak_tasks.py); tasks take turns. It exits with 0 (all hold) or 1
(violations); anything else is a broken chunk. Simulations are sweeps of the pipeline.

State: soak/state.json. Report: soak/report.txt, renewed after each chunk; it counts the simulated events of each
release. Results of simulations, and traces of those that failed: soak/sweeps/, by source. One soak at a time has the
directory, and its chunks end with it.
Exit codes: 0 no violation, 1 violations, 2 wrong usage or unreadable state, 3 the simulator cannot be run or the
state cannot be written, or another soak has the directory.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import soak_state
from soak_state import Campaign, Chunk
from soak_tasks import TASKS

ROOT = Path(__file__).resolve().parent.parent
CHUNK_SEEDS_MAX = 10_000
BROKEN_IN_A_ROW_MAX = 3
POLL_SECONDS = 0.2
REASON_CHARACTERS_MAX = 500
PR_SET_PDEATHSIG = 1  # of Linux


class OtherSoakError(Exception):
    """Another process has the directory."""


class SwarmBrokenError(Exception):
    """Chunk after chunk ended without a result: the simulator itself cannot be run."""


@dataclass
class Running:
    chunk: Chunk
    process: subprocess.Popen[str]
    output: IO[str]
    errors: IO[str]
    started: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0, help="in total for this version of the source; default: 1")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    parser.add_argument("--directory", type=Path, default=ROOT / "soak", help="of state and report; default: soak/")
    parser.add_argument("--task", action="append", choices=sorted(TASKS), help="only this one; may be repeated")
    parser.add_argument("--fresh", action="store_true", help="forget the stored state and begin with the first seed")
    arguments = parser.parse_args()
    if not (math.isfinite(arguments.hours) and arguments.hours > 0) or arguments.processes < 1:
        parser.error("--hours and --processes must be positive numbers")  # exits with 2
    try:
        with alone_in(arguments.directory):
            return soak_into(arguments)
    except OtherSoakError:
        print(f"soak: another one is at work in {arguments.directory}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"soak: cannot keep state in {arguments.directory}: {error.strerror or error}", file=sys.stderr)
        return 3


def soak_into(arguments: argparse.Namespace) -> int:
    """Go on with the campaign of the directory; says how it ended."""
    state = arguments.directory / "state.json"
    if arguments.fresh:
        state.unlink(missing_ok=True)
    try:
        campaign = soak_state.load(state, soak_state.source_digest(ROOT))
    except ValueError as error:
        print(f"soak: {error}; --fresh begins anew", file=sys.stderr)
        return 2
    soak_state.save(state, campaign)  # what cannot be written is found before the first chunk
    soak = Soak(campaign, state, arguments.hours, arguments.processes, arguments.task or sorted(TASKS))
    code = 0
    try:
        with terminate_as_interrupt():
            soak.run()
    except KeyboardInterrupt:
        print("\nsoak: stopped; call again to go on")
    except SwarmBrokenError as error:
        print(f"soak: {error}", file=sys.stderr)
        code = 3
    print(soak.store(), end="")
    return code or (1 if campaign.failures_total or campaign.broken_chunks else 0)


class Soak:
    def __init__(self, campaign: Campaign, state: Path, hours: float, processes: int, tasks: list[str]) -> None:
        self.campaign = campaign
        self._state = state
        self._hours = hours
        self._processes = processes
        self._spent_before = campaign.seconds_spent
        self._started = time.monotonic()
        self._running: list[Running] = []
        self._waiting = [chunk for chunk in campaign.handed_out if chunk.task in tasks]  # begun by an earlier call
        self._chunk_seeds = dict.fromkeys(tasks, 8)  # adapted to CHUNK_SECONDS
        self._turns = deque(tasks)
        self._broken: list[tuple[Chunk, str]] = []  # in a row; the next chunk with a result confirms them

    def run(self) -> None:
        spent = f"{self._spent_before / 3600:.2f} of {self._hours:g} hours"
        print(f"soak of source {self.campaign.source}, {spent}; chunks of {', '.join(sorted(self._turns))}", flush=True)
        try:
            while self._time_left() or self._running:
                while self._time_left() and len(self._running) < self._processes:
                    self._running.append(self._start(self._next_chunk()))
                    soak_state.save(self._state, self.campaign)
                self._collect()
                time.sleep(POLL_SECONDS)
            self._confirm_broken()
        finally:
            for running in self._running:
                running.process.kill()
                running.process.wait()

    def store(self) -> str:
        """Save the state, write the report, return its text."""
        self.campaign.seconds_spent = self._spent_before + time.monotonic() - self._started
        soak_state.save(self._state, self.campaign)
        text = soak_state.report(self.campaign, self._hours)
        soak_state.replace_text(self._state.with_name("report.txt"), text)
        return text

    def _time_left(self) -> bool:
        return self._hours_spent() < self._hours

    def _hours_spent(self) -> float:
        """By this campaign."""
        return (self._spent_before + time.monotonic() - self._started) / 3600

    def _next_chunk(self) -> Chunk:
        if self._waiting:
            return self._waiting.pop(0)
        task = self._turns[0]
        self._turns.rotate(-1)
        chunk = Chunk(task, self.campaign.next_seed.get(task, 1), self._chunk_seeds[task])
        self.campaign.next_seed[task] = chunk.first + chunk.count
        self.campaign.handed_out.append(chunk)
        return chunk

    def _start(self, chunk: Chunk) -> Running:
        # Files, not pipes: a chunk that talks much must not stop because nobody listens.
        output, errors = (tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2))  # noqa: SIM115
        process = subprocess.Popen(
            self._command(chunk),
            cwd=ROOT,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            preexec_fn=end_with_parent,  # noqa: PLW1509  no other thread is there that could hold a lock
        )
        return Running(chunk, process, output, errors, time.monotonic())

    def _command(self, chunk: Chunk) -> list[str]:
        task = TASKS[chunk.task]
        name = f"{chunk.task}-{chunk.first}-{chunk.count}"
        place = self._state.parent.absolute() / "sweeps" / self.campaign.source / name
        return [*task.command(chunk), *(["--out", str(place)] if task.keeps else [])]

    def _collect(self) -> None:
        for running in [running for running in self._running if running.process.poll() is not None]:
            self._running.remove(running)
            self._finish(running)
            self.store()
            if len(self._broken) >= BROKEN_IN_A_ROW_MAX:  # they stay handed out, for when it has been repaired
                _, reason = self._broken[-1]
                raise SwarmBrokenError(
                    f"{len(self._broken)} chunks in a row ended without a result; the last: {reason}"
                )

    def _finish(self, running: Running) -> None:
        chunk, code = running.chunk, running.process.returncode
        seconds = time.monotonic() - running.started
        output, errors = read_all(running.output), read_all(running.errors)
        try:
            if code not in {0, 1}:
                raise ValueError(f"exit code {code}")
            verdicts, failures = TASKS[chunk.task].read(chunk, code, output)
            events = TASKS[chunk.task].events(output)
        except (LookupError, TypeError, ValueError) as error:
            self._broken.append((chunk, f"{error}: {errors.strip()[-REASON_CHARACTERS_MAX:]}"))
            return
        self._confirm_broken()
        self.campaign.finish(chunk, verdicts, failures, events)
        wanted = int(chunk.count * TASKS[chunk.task].seconds / max(seconds, 0.001))
        self._chunk_seeds[chunk.task] = max(1, min(wanted, 4 * self._chunk_seeds[chunk.task], CHUNK_SEEDS_MAX))
        simulated = f", {events:,} events" if events else ""
        failed = f", {len(failures)} FAILED" if failures else ""
        told = f"{chunk.task} {chunk.first}..{chunk.first + chunk.count - 1}: {seconds:.0f} s{simulated}{failed}"
        print(f"{self._hours_spent():6.2f} of {self._hours:g} h  {told}", flush=True)

    def _confirm_broken(self) -> None:
        """The simulator can be run, so these chunks broke by themselves."""
        while self._broken:
            self.campaign.give_up(*self._broken.pop())


def read_all(file: IO[str]) -> str:
    with file:
        file.seek(0)
        return file.read()


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Two soaks would overwrite each other's state; the lock of one that was killed is gone with it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OtherSoakError from None
        yield


def end_with_parent() -> None:
    """Before a chunk begins: it ends when the soak is killed, or the next one would find its table taken."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """A terminated soak ends in order, as an interrupted one does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
