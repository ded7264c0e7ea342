"""The pytest plug-in that measures: what each test executes, and what it costs.

The file ``MUTANT_MAP`` gets, for every test, its seconds, its verdict and the lines below ``MUTANT_PACKAGE`` that it
executed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import msgspec
import pytest

IMPORTED = "import"
"""The name of what is executed outside of all tests."""


class Measured(msgspec.Struct):
    """One test on the unchanged source; `executed` has lines by file."""

    seconds: float = 0.0
    passed: bool = True
    executed: dict[str, list[int]] = {}


def pytest_configure(config: pytest.Config) -> None:
    if out := os.environ.get("MUTANT_MAP"):
        config.pluginmanager.register(Mapper(Path(out), Path(os.environ["MUTANT_PACKAGE"])))


class Mapper:
    """Measures every test in a context of its own."""

    def __init__(self, out: Path, package: Path) -> None:
        self._out = out
        self._root = package.parents[2]
        self._tests = {IMPORTED: Measured()}
        self._coverage = coverage.Coverage(data_file=None, source=[str(package)], config_file=False)
        self._coverage.start()
        self._coverage.switch_context(IMPORTED)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        test = self._tests[item.nodeid] = Measured()
        self._coverage.switch_context(item.nodeid)
        started = time.process_time()
        result = yield
        test.seconds = round(time.process_time() - started, 4)
        self._coverage.switch_context(IMPORTED)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid].passed &= not report.failed

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        for file in sorted(data.measured_files()):
            path = Path(file).relative_to(self._root).as_posix()
            for line, tests in data.contexts_by_lineno(file).items():
                for test in tests:
                    if test:
                        self._tests[test].executed.setdefault(path, []).append(line)
        self._out.write_bytes(msgspec.json.encode(self._tests))
