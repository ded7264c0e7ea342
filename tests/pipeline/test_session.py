"""How a session starts, and how its start is broken off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "traces" / "2.12.2" / "good-clients.jsonl"
INTERRUPTED_AT_ITS_START = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from pyspark import java_gateway
from isotone.cli.main import main

number, is_there, trace = sys.argv[1:]

def wait(_):
    if Path(is_there).exists():
        signal.raise_signal(int(number))

java_gateway.time = SimpleNamespace(sleep=wait)
sys.argv = ["isotone", "check", trace, "--engine", "spark"]
main()
"""


def _program(place: Path, words: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{words}\n")
    place.chmod(0o755)


def _stand_in(place: Path, submit: str) -> dict[str, str]:
    """An environment in which these words stand in for Spark."""
    _program(place / "bin" / "spark-submit", submit)
    _program(place / "java" / "bin" / "java", "echo 'version \"17.0.1\"' >&2")
    return {**os.environ, "SPARK_HOME": str(place), "JAVA_HOME": str(place / "java")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_spark_starts_leaves_no_process_behind(tmp_path: Path, number: int) -> None:
    is_there = tmp_path / "is there"
    submit = f"echo noise >&2; echo $$ > '{is_there}.1'; mv '{is_there}.1' '{is_there}'; exec tail -f /dev/null"
    environment = _stand_in(tmp_path / "spark", submit)
    command = [sys.executable, "-c", INTERRUPTED_AT_ITS_START, str(int(number)), str(is_there), str(TRACE)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stdout, told.stderr.strip()) == (130, "", "isotone: interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(int(is_there.read_text()), 0)
