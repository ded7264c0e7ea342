"""What all tests share: options, Hypothesis profiles, and the rule that CI skips nothing for want of root."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

# The same examples in every run and no time limit per example: a red test is red for everyone.
# To look for new examples: pytest --hypothesis-profile=explore
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("ci")

NEEDS_ROOT = "needs root"
PIPELINE, PIPELINE_BUDGET_S = "tests/pipeline", 240
TOGETHER = (f"{PIPELINE}/", "tests/architecture/")  # one Spark session; one reading of the whole source
SPREAD_OUT = (
    "tests/sim/test_swarm_full",
    "tests/sim/test_swarm_oracle",
    "tests/sim/test_swarm_transport",
    "tests/planted/",
    "tests/model/",
)
LONGEST = (f"{PIPELINE}/", "tests/sim/", "tests/planted/", "tests/model/", "tests/integration/", "tests/spec/")

# A shell starts what runs in the background with SIGINT ignored, and children inherit that: no test could interrupt
# one of its own.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="rewrite the expected part of scenario files with what happened; review the diff afterwards",
    )


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadscope``, a file is a unit: its tests may share runs. A few are spread out or joined."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # the order is that of the items below

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            whole = nodeid if nodeid.startswith(SPREAD_OUT) else nodeid.partition("::")[0]
            return next((directory for directory in TOGETHER if nodeid.startswith(directory)), whole)

    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest units must not be the last to begin."""
    items.sort(
        key=lambda item: next((n for n, part in enumerate(LONGEST) if item.nodeid.startswith(part)), len(LONGEST))
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the tests of the pipeline took, beside what they may take; a busy machine needs longer."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    mine = [report for report in reports if getattr(report, "nodeid", "").startswith(PIPELINE)]
    seconds = sum(getattr(report, "duration", 0.0) for report in mine)
    if seconds >= 1:
        terminalreporter.write_line(f"{PIPELINE}: {seconds:.0f} s; the budget is {PIPELINE_BUDGET_S} s on two cores")


@pytest.fixture(scope="session")
def rewrite(pytestconfig: pytest.Config) -> bool:
    """Whether to write expected traces anew instead of comparing with them."""
    return bool(pytestconfig.getoption("--rewrite"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid_skip_for_want_of_root(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip_for_want_of_root(report)
    return report


def _forbid_skip_for_want_of_root(report: pytest.TestReport | pytest.CollectReport) -> None:
    """CI runs as root: there, a test that skips itself for want of root has found out wrongly, and nothing ran it."""
    if not report.skipped or os.environ.get("CI") != "true":
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if NEEDS_ROOT in reason:
        report.outcome = "failed"
        report.longrepr = f"in CI nothing may be skipped that {NEEDS_ROOT}: {reason}"
