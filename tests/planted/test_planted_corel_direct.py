"""Faults planted in COReL that seeds meet too rarely: tests that drive servers by hand, or explore, must find each.

``Options`` names the tests; they pass without the fault.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.harness import ROOT, Planted, copy_source, planted_in

PLANTED = planted_in(Path(__file__).parent / "corel_direct")
FAILED = 1  # pytest ran, and tests failed


def names(planted: Planted) -> str:
    return planted.name


@pytest.mark.parametrize("planted", PLANTED, ids=names)
def test_the_fault_is_found(planted: Planted, tmp_path: Path) -> None:
    source = copy_source(tmp_path, planted.diff)
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *planted.options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == FAILED, done.stdout
    assert "ImportError" not in done.stdout
