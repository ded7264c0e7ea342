"""One chunk of a soak as a sweep of the pipeline, on one core: `isotone pipeline sweep` with a file made for it.

Becomes that command: output and exit code are its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

MASTER = "local[1]"  # the soak has a process for each core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", required=True)
    parser.add_argument("--stack", required=True)
    parser.add_argument("--seeds", required=True, metavar="A..B")
    parser.add_argument("--out", type=Path, required=True, help="of results, and of the traces of failures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    spec = arguments.out / "sweep.toml"
    spec.write_text(spec_text(arguments.system, arguments.stack, arguments.seeds))
    command = ["-m", "isotone.cli", "pipeline", "sweep", str(spec), "--out", str(arguments.out), "--master", MASTER]
    os.execv(sys.executable, [sys.executable, *command, "--json"])


def spec_text(system: str, stack: str, seeds: str) -> str:
    """A sweep of these seeds with all faults."""
    return f'seeds = "{seeds}"\nsystem = ["{system}"]\nstack = ["{stack}"]\nfaults = ["all"]\n'


if __name__ == "__main__":
    main()
