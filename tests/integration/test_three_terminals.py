"""A replicated dict as the README has it, and a bank: real processes, `kill -9`, and their return."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "shop" / "shop.py"
BANK = ROOT / "examples" / "bank" / "bank.py"


class Terminal:
    """One of the three."""

    def __init__(self, name: str, directory: Path, port: int, program: Path = PROGRAM) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(
            [sys.executable, str(program), name, str(port)],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert self.line() == f"{name} is up"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def type(self, text: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        return self.line()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def port() -> int:
    """The first of three in a row that are free."""
    while True:
        first, second, third = sorted(free_ports(3))
        if (second, third) == (first + 1, first + 2):
            return first


@pytest.fixture
def terminals(tmp_path: Path, port: int) -> Iterator[dict[str, Terminal]]:
    opened = {name: Terminal(name, tmp_path, port) for name in "abc"}
    yield opened
    for each in opened.values():
        each.end()


@pytest.fixture
def bank(tmp_path: Path, port: int) -> Iterator[dict[str, Terminal]]:
    opened = {name: Terminal(name, tmp_path, port, BANK) for name in "abc"}
    yield opened
    for each in opened.values():
        each.end()


def test_a_bank_keeps_its_total_through_kills(bank: dict[str, Terminal], tmp_path: Path, port: int) -> None:
    assert bank["a"].type("alice bob 30") == "alice has 70 left"
    assert "CHECK constraint failed" in bank["b"].type("alice bob 300")
    assert bank["b"].type("alice nobody 3") == "transfer: raised ValueError: nobody has no account"
    bank["c"].kill()
    assert bank["b"].type("bob carol 100") == "bob has 30 left"
    bank["c"].end()
    bank["c"] = Terminal("c", tmp_path, port, BANK)
    assert bank["c"].type("") == "('alice', 70) ('bob', 30) ('carol', 200) together 300"


def test_the_readme_shows_the_example() -> None:
    assert f"```python\n{PROGRAM.read_text()}```" in (ROOT / "README.md").read_text()


def test_two_go_on_and_the_third_comes_back_with_everything(
    terminals: dict[str, Terminal], tmp_path: Path, port: int
) -> None:
    assert terminals["a"].type("apples 3").startswith("revision ")
    assert terminals["b"].type("apples") == "3"
    assert terminals["c"].type("apples") == "3"
    terminals["c"].kill()
    assert terminals["a"].type("pears 5").startswith("revision ")
    assert terminals["b"].type("pears") == "5"
    terminals["c"].end()
    terminals["c"] = Terminal("c", tmp_path, port)
    assert terminals["c"].type("") == "{'apples': '3', 'pears': '5'}"


def test_all_are_killed_and_nothing_acknowledged_is_lost(
    terminals: dict[str, Terminal], tmp_path: Path, port: int
) -> None:
    for number in range(5):
        assert terminals["abc"[number % 3]].type(f"key{number} {number}").startswith("revision ")
    for each in terminals.values():
        each.kill()
    for name in "abc":
        terminals[name].end()
        terminals[name] = Terminal(name, tmp_path, port)
    wanted = str({f"key{number}": str(number) for number in range(5)})
    assert [terminals[name].type("") for name in "abc"] == [wanted] * 3
