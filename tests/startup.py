"""What starting something costs in processor time, told as so many bare interpreters: the same on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

TIMES = 5
FIRST_VIEW = """
import asyncio, isotone

async def main():
    async with isotone.node() as daemon, isotone.connect(daemon.address, name="alice") as me:
        group = await me.join("chat")
        assert isinstance(await group.receive(), isotone.View)

asyncio.run(main())
"""


def processor_s(command: Sequence[str | Path], cwd: Path | None = None) -> float:
    """User and system time of one run of a command, and of what it started and waited for."""
    with subprocess.Popen(
        [str(each) for each in command], cwd=cwd, env=clean_environment(), stdout=subprocess.DEVNULL
    ) as running:
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0, command
    return used.ru_utime + used.ru_stime


def clean_environment() -> dict[str, str]:
    """So that what was compiled once is not compiled again."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def in_interpreters(*arguments: str, python: str | Path = sys.executable) -> float:
    """The least of several runs of Python with these arguments, as a multiple of the least of ``-c pass``."""
    least = [min(processor_s([python, *each]) for _ in range(TIMES)) for each in (arguments, ("-c", "pass"))]
    return least[0] / least[1]


def main() -> None:
    """Measure what `results/startup.txt` tells: `PYTHONPATH=src python -m tests.startup [WHEEL]`."""
    programs = {
        "python -c pass": ("-c", "pass"),
        "import isotone": ("-c", "import isotone"),
        "import isotone; isotone.connect": ("-c", "import isotone; isotone.connect"),
        "isotone --help": ("-m", "isotone.cli", "--help"),
        "a program with a daemon inside, to its first view": ("-c", FIRST_VIEW),
    }
    print(f"{'the least of 5 runs, milliseconds':<52}processor  by the clock")
    for name, arguments in programs.items():
        _print(name, [_measured([sys.executable, *arguments]) for _ in range(TIMES)])
    for wheel in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as home:
            venv.create(home, with_pip=False, symlinks=True)
            python = Path(home, "bin", "python")
            pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-warn-script-location"]
            installing = _measured([*pip, wheel])
            _print("pip install of the wheel with what it asks for", [installing])
            _print("the same program there, the first time", [_measured([python, "-c", FIRST_VIEW])])


def _measured(command: Sequence[str | Path]) -> tuple[float, float]:
    began = time.perf_counter()
    return processor_s(command), time.perf_counter() - began


def _print(name: str, runs: Sequence[tuple[float, float]]) -> None:
    processor, clock = min(run[0] for run in runs), min(run[1] for run in runs)
    print(f"{name:<52}{1000 * processor:9.0f}  {1000 * clock:12.0f}")


if __name__ == "__main__":
    main()
