"""The pytest plug-in that shows mutants to tests: everything is imported and collected once, each mutant is a fork.

Mutations are all inside functions, so in the fork the functions of the mutated module get the code of the mutant; no
test has run before. Then the tests that can tell run in the order given until one fails. What is found is written
line by line to the file descriptor ``MUTANT_OUT``. A value that was made at import stays as the source made it.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import msgspec
import pytest

MEMORY_BYTES_MAX = 4 << 30  # a mutant that only ever grows shall not take the machine with it
SECONDS_MORE, TIMES_MORE = 5.0, 10.0
"""How much longer than on the source itself a test may take on a mutant, in time of the processor."""
WALL_SECONDS_MAX = 3600.0
"""A last resort, for who waits without doing anything."""
SURVIVED, KILLED = 0, 1


class Prey(msgspec.Struct):
    """A mutant, and who can tell: tests with the seconds that they take."""

    name: str
    module: str
    source: str
    tests: dict[str, float]


class Found(msgspec.Struct):
    """The test that failed, or nothing."""

    name: str
    killer: str


class Hunt(msgspec.Struct):
    """What is to be done."""

    prey: list[Prey]
    workers: int


def pytest_configure(config: pytest.Config) -> None:
    if hunt := os.environ.get("MUTANT_HUNT"):
        told = msgspec.json.decode(Path(hunt).read_bytes(), type=Hunt)
        config.pluginmanager.register(Hunter(told, int(os.environ["MUTANT_OUT"])))


class Hunter:
    """Takes the place of the loop over all tests."""

    def __init__(self, hunt: Hunt, out: int) -> None:
        self._hunt = hunt
        self._out = out
        self._running: dict[int, tuple[Prey, float]] = {}
        self._functions: dict[str, list[FunctionType]] = {}
        self._name = self._test = ""  # in a fork: of the mutant, and of the test that runs

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._functions = functions_of({prey.module for prey in self._hunt.prey})
        gc.freeze()  # what is shared with the forks stays shared
        tests = {item.nodeid: item for item in session.items}
        for prey in self._hunt.prey:
            pid = os.fork()
            if not pid:
                self._show(prey, [tests[test] for test in prey.tests if test in tests])
            self._running[pid] = prey, time.monotonic()
            while len(self._running) >= self._hunt.workers:
                self._reap()
        while self._running:
            self._reap()
        return True

    def _reap(self) -> None:
        """Wait for a fork to end. Who ends without a word was killed by what the mutant did."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            prey, _ = self._running.pop(pid)
            if os.waitstatus_to_exitcode(status) not in (SURVIVED, KILLED):
                self._say(prey.name, "the process that ended")
            return
        for pid, (_, since) in self._running.items():
            if time.monotonic() - since > WALL_SECONDS_MAX:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)

    def _show(self, prey: Prey, items: Sequence[pytest.Item]) -> None:
        """In the fork: become the mutant, run the tests, never return."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        self._name = prey.name
        signal.signal(signal.SIGPROF, self._out_of_time)
        plant(prey, self._functions)
        for item, following in zip(items, [*items[1:], None]):
            self._test = item.nodeid
            signal.setitimer(signal.ITIMER_PROF, SECONDS_MORE + TIMES_MORE * prey.tests[item.nodeid])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        self._end("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._end(report.nodeid)

    def _out_of_time(self, number: int, frame: FrameType | None) -> None:
        self._end(f"{self._test}: it does not end")

    def _end(self, killer: str) -> None:
        self._say(self._name, killer)
        os._exit(KILLED if killer else SURVIVED)

    def _say(self, name: str, killer: str) -> None:
        os.write(self._out, msgspec.json.encode(Found(name, killer)) + b"\n")


def functions_of(modules: Iterable[str]) -> dict[str, list[FunctionType]]:
    """All functions that came from the files of these modules, wherever they are held."""
    found: dict[str, list[FunctionType]] = {str(importlib.import_module(name).__file__): [] for name in modules}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in found:
            found[each.__code__.co_filename].append(each)
    return found


def plant(prey: Prey, functions: dict[str, list[FunctionType]]) -> None:
    """Give the functions of a module the code that they have in the mutant."""
    file = str(sys.modules[prey.module].__file__)
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(compile(prey.source, file, "exec"))}
    for each in functions[file]:
        code = codes.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
        if code is not None and code != each.__code__:
            each.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Of functions, and of functions inside of them."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if not inner.co_name.startswith("<"):
                yield inner
            yield from _codes(inner)
