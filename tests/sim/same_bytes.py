"""One run in processes of their own, with different hashing of texts: the bytes of its trace."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import sys
from isotone.sim.plan import Size
from isotone.sim.replay import plan_of, replay
from isotone.sim.system import Setting
from isotone.trace.jsonl import jsonl_lines
rows = []
replay(plan_of("8", Setting(stack=sys.argv[1], size=Size.SMALL)), sink=rows.append)
for line in jsonl_lines("run", rows):
    sys.stdout.buffer.write(line)
"""


def traces_of(stack: str) -> set[bytes]:
    """All different traces of the same small run on this stack; there should be one."""
    return {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, stack],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "77")
    }
