"""How a session starts, and how its start is broken off."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import NoReturn
from unittest.mock import MagicMock

import pytest

from isotone.core.errors import InputError
from isotone.pipeline import checking, gateway, session

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
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (told.returncode, told.stdout, told.stderr.strip()) == (130, "", "isotone: interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(int(is_there.read_text()), 0)


@pytest.fixture
def handlers() -> Iterator[None]:
    """What is done about signals is as it was afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    gateway.speak(None)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """As PySpark does it: by words to Java first."""
    del number, frame
    told = logging.LogRecord("root", logging.ERROR, "py4j/java_gateway.py", 1, "traceback", (), None)
    logging.getLogger().handle(told)
    raise KeyboardInterrupt


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_java_says_is_shown_from_its_start_to_an_interrupt(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, number: int
) -> None:
    words = gateway.Words()
    os.write(words.end, b"WARNING: incubator\n")
    assert words.held() == "WARNING: incubator\n"
    signal.signal(number, _interrupt)
    gateway.speak(words)
    os.write(words.end, b"ERROR a task failed\n")
    words.settle()
    assert capfd.readouterr().err == "ERROR a task failed\n"
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    os.write(words.end, b"ERROR a task was cancelled\n")
    words.settle()
    assert (capfd.readouterr().err, caplog.messages) == ("", [])
    gateway.speak(None)
    os.write(words.end, b"ERROR another task failed\n")
    words.settle()
    assert capfd.readouterr().err == "ERROR another task failed\n"


@pytest.mark.parametrize("master", ["foo", "", "local[0]", "local[two]", "spark://", "mesos://host:5050", "locally"])
def test_a_place_that_is_none_is_wrong_input(master: str) -> None:
    with pytest.raises(InputError, match=r"spark://HOST:PORT"):
        session.session(master)


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[*,3]", "spark://h:7077,i:7077", "k8s://https://h:443", "yarn"]
)
def test_places_for_spark(master: str) -> None:
    assert session._MASTER.fullmatch(master)


def test_why_spark_does_not_start_is_told_in_one_line() -> None:
    error = RuntimeError("An error occurred while calling None.org.X.\n: java.lang.Y: a stopped SparkContext\n\tat z")
    assert session._reason(error, "ERROR: All masters are unresponsive! Giving up.\n").startswith("no Spark master")
    ended = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    said = 'WARNING: x\nException in thread "main" org.apache.spark.SparkException: Bad port\n\tat org.apache.z\n'
    assert session._reason(ended, said).endswith("org.apache.spark.SparkException: Bad port")
    assert session._reason(ended, "WARNING: x\nspark-class: java: not found\n") == "spark-class: java: not found"
    assert session._reason(ended, "") == str(ended)


def test_a_java_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    environment = _stand_in(tmp_path / "spark", "echo 'no room for Java' >&2; exit 1")
    command = [sys.executable, "-m", "isotone.cli", "check", str(TRACE), "--engine", "spark"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert told.stderr == "isotone: Spark does not start at local[*]: no room for Java\n"
    assert (told.returncode, told.stdout) == (3, "")


def test_a_check_says_what_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins do the work."""
    rows = MagicMock()
    rows.drop().localCheckpoint().groupBy().count().collect.return_value = [{"run": "a", "count": 3}]
    stand_ins = {
        "session_for": MagicMock(),
        "read_bronze": MagicMock(),
        "kept": MagicMock(),
        "problems": lambda bronze: (),
        "sources": lambda notes: SimpleNamespace(isEmpty=lambda: False),
        "counted_silver": lambda *_: SimpleNamespace(rows=rows, expected=lambda: {"a": 3}),
        "judge": MagicMock(),
        "summarise": lambda *_: checking.NOTHING,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(checking, name, stand_in)
    notes: list[str] = []
    checking.check_traces([TRACE], advance=notes.append)
    assert notes == ["Spark is there", "1 runs read", "1 runs judged"]
    assert len(notes) == checking.STEPS
