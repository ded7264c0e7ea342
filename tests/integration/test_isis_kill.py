"""Three sites in processes of their own, of which one is ended by SIGKILL and begins anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.isis_site import NAMES
from tests.ports import free_ports

WITHIN_S = 150.0
ROOT = Path(__file__).parents[2]


def start(name: str, path: Path, ports: list[int]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.integration.isis_site", name, str(path / name), *map(str, ports)]
    with (path / f"{name}.out").open("ab") as out, (path / f"{name}.err").open("ab") as err:
        return subprocess.Popen(words, stdout=out, stderr=err, cwd=ROOT, env=os.environ)


def lines(path: Path, name: str) -> list[str]:
    """Whole lines only."""
    return (path / f"{name}.out").read_text().split("\n")[:-1]


def until(path: Path, names: str, wanted: str, behind: int = 0) -> None:
    """Each of these has said something with that in it."""
    end = time.monotonic() + WITHIN_S
    while not all(any(wanted in line for line in lines(path, name)[behind:]) for name in names):
        errors = "".join((path / f"{name}.err").read_text()[-2_000:] for name in NAMES)
        assert time.monotonic() < end, f"{names} never said {wanted!r}: {errors}"
        time.sleep(0.1)  # real processes


def story(path: Path, name: str) -> list[str]:
    """From the first view of all three on, up to the failure: ABCASTs and views, in their order."""
    told = [line for line in lines(path, name) if not line.startswith("cbcast")]
    first = next(place for place, line in enumerate(told) if line.startswith("view") and line.count("/") == 3)
    last = next(place for place, line in enumerate(told) if "failed c.1" in line)
    return told[first : last + 1]


def test_a_site_that_is_killed_is_heard_no_more_and_comes_back(tmp_path: Path) -> None:
    ports = free_ports(3)
    running = {name: start(name, tmp_path, ports) for name in NAMES}
    try:
        until(tmp_path, "abc", " c20")
        running["c"].send_signal(signal.SIGKILL)
        running["c"].wait()
        until(tmp_path, "ab", "failed c.1")
        assert story(tmp_path, "a") == story(tmp_path, "b")
        for name in "ab":
            told = lines(tmp_path, name)
            place = next(place for place, line in enumerate(told) if "failed c.1" in line)
            assert not any(" c.1/" in line for line in told[place + 1 :] if not line.startswith("view"))
        running["c"] = start("c", tmp_path, ports)
        until(tmp_path, "abc", "c.2/")
    finally:
        for process in running.values():
            process.kill()
            process.wait()
