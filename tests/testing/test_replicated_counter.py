"""A user's counter that forgets the transitional signal is found out and replayed; the right one passes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from examples.replicated_counter import test_counter

from tests.testing import plugin

ROOT = Path(__file__).resolve().parents[2]
FORGETFUL = "examples/replicated_counter/test_forgetful.py"
REPLAY = re.compile(r"^(pytest \S+test_forgetful.py::\S+ --isotone-seed=(\d+))$", re.MULTILINE)


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin.arguments(), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


def test_the_counter_passes_a_hundred_seeds() -> None:
    test_counter.test_no_confirmed_increment_is_lost()


def test_the_forgetful_counter_is_found_out_and_replayed() -> None:
    found = run_pytest(FORGETFUL)
    assert found.returncode == 1, found.stdout + found.stderr
    line, seed = REPLAY.findall(found.stdout)[0]
    lost = re.findall(r"AssertionError: confirmed, and lost: .*", found.stdout)
    assert lost
    again = run_pytest(*shlex.split(line)[1:])
    assert again.returncode == 1
    assert re.findall(r"AssertionError: confirmed, and lost: .*", again.stdout) == lost
    assert f"seed {seed} fails" in again.stdout
