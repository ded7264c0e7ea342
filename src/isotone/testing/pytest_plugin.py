"""The pytest plug-in: options for the seeds of `isotone.testing.seeds`, progress, and the line that replays a failure.

Without ``seeds`` in a test suite it does nothing and imports nothing of Isotone.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from isotone.testing.seeding import Chosen

PROGRESS_S = 5.0
REPLAY = "isotone_replay"
BLOCK = "isotone_seed_block"


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many seeds, or which one."""
    group = parser.getgroup("isotone", "tests over many seeds (isotone.testing.seeds)")
    group.addoption("--isotone-seeds", type=_natural, metavar="N", help="run every such test with the seeds 0 … N-1")
    group.addoption("--isotone-seed", type=_natural, metavar="K", help="run every such test with seed K only")
    group.addoption(
        "--isotone-shrink",
        action="store_true",
        help="when a seed fails, find the fewest faults of its storms it needs",
    )


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(f"a number from 0, not {text}")
    return value


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Many seeds are several test items: blocks that pytest-xdist spreads over its workers."""
    count = getattr(metafunc.function, "isotone_seeds", None)
    if count is None:
        return
    chosen: Chosen = sys.modules["isotone.testing.seeding"].Chosen(
        count=metafunc.config.getoption("--isotone-seeds"), seed=metafunc.config.getoption("--isotone-seed")
    )
    blocks = chosen.blocks(count)
    if blocks:
        metafunc.fixturenames.append(BLOCK)
        names = [f"seeds{block.start}-{block.stop - 1}" for block in blocks]
        metafunc.parametrize(BLOCK, blocks, ids=names)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Hand the block to the test, which does not name it among its arguments."""
    block = pyfuncitem.callspec.params.get(BLOCK) if hasattr(pyfuncitem, "callspec") else None
    if block is not None:
        pyfuncitem.obj = functools.partial(pyfuncitem.obj, **{BLOCK: block})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tell `seeds` what was chosen for this test."""
    module = sys.modules.get("isotone.testing.seeding")  # imported by whoever uses it
    if module is None:
        return (yield)
    chosen: Chosen = module.chosen
    before = dict(vars(chosen))
    teller = _Teller(item)
    chosen.count = item.config.getoption("--isotone-seeds")
    chosen.seed = item.config.getoption("--isotone-seed")
    chosen.shrink = item.config.getoption("--isotone-shrink")
    chosen.progress, chosen.replay, chosen.failed = teller.progress, teller.replay, teller.failed
    try:
        return (yield)
    finally:
        vars(chosen).update(before)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The lines that replay what failed."""
    lines = [
        value
        for report in terminalreporter.stats.get("failed", ())
        for name, value in getattr(report, "user_properties", ())
        if name == REPLAY
    ]
    if lines:
        terminalreporter.section("isotone: replay the failing seeds")
        for line in lines:
            terminalreporter.write_line(line)


class _Teller:
    """What one test tells."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._told_at = time.monotonic()

    def replay(self, seed: int) -> str:
        """The command, from where pytest was called."""
        here = os.path.relpath(self._item.path, self._item.config.invocation_params.dir)
        _, mark, inner = self._item.nodeid.partition("::")
        inner = re.sub(r"\[seeds\d+-\d+\]$|-seeds\d+-\d+(?=[\]-])|(?<=\[)seeds\d+-\d+-", "", inner)
        return f"pytest {shlex.quote(here + mark + inner)} --isotone-seed={seed}"

    def failed(self, seed: int, line: str) -> None:
        """Keep the line for the end, also across processes."""
        self._item.user_properties.append((REPLAY, line))

    def progress(self, done: int, count: int) -> None:
        """A line now and then when a test takes long."""
        now = time.monotonic()
        if not done or now - self._told_at < PROGRESS_S:
            return
        self._told_at = now
        plugins = self._item.config.pluginmanager
        reporter, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")
        if reporter is None or capture is None:
            return
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"\nisotone: {self._item.name}: {done} of {count} seeds")
