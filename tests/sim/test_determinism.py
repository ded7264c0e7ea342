"""Same seed, same trace, byte for byte, in processes with different hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from isotone.sim.replay import plan_of, replay
from isotone.sim.plan import Size
from isotone.sim.system import Setting
from isotone.trace.jsonl import jsonl_lines
rows = []
result = replay(plan_of(sys.argv[1], Setting(size=Size(sys.argv[2]))), sink=rows.append)
for line in jsonl_lines("run", rows):
    sys.stdout.buffer.write(line)
print(result.verdicts, result.choices, result.events)
"""


def trace(seed: int, size: str, hash_seed: str) -> bytes:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PROGRAM, str(seed), size]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


@pytest.mark.parametrize(("seed", "size"), [(3, "small"), (11, "standard")])
def test_the_same_seed_gives_the_same_bytes(seed: int, size: str) -> None:
    first, second = trace(seed, size, "0"), trace(seed, size, "4242")
    assert len(first.splitlines()) > 100
    assert first == second
    assert first != trace(seed + 1, size, "0")
