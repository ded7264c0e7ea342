"""The same seed is the same run: the same bytes of the trace, the same steps of the same tasks in the same order."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.testing import course

SEED = 2


def in_a_process(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, course.__file__, str(SEED)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout


def test_a_run_is_the_same_again_whatever_the_hash_seed() -> None:
    here = course.course(SEED)
    assert here[2] > 100
    assert course.course(SEED) == here
    assert {tuple(in_a_process(hash_seed).split()) for hash_seed in ("1", "4242")} == {tuple(map(str, here))}


def test_another_seed_is_another_run() -> None:
    assert course.course(SEED) != course.course(SEED + 1)
