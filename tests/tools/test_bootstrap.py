"""When the environment is made, and when its stamp says that nothing is to do."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

import bootstrap


class Machine:
    """Stands for the virtual environment: remembers what was done to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.usable = False
        self.done: list[str] = []
        self.root = root
        (root / "pyproject.toml").write_text("one")
        (root / "constraints.txt").write_text("one")
        monkeypatch.setattr(bootstrap, "ROOT", root)
        monkeypatch.setattr(bootstrap, "STAMP", root / "stamp.json")
        monkeypatch.setattr(bootstrap, "environment_works", lambda: self.usable)
        monkeypatch.setattr(bootstrap, "create_environment", self.create)
        monkeypatch.setattr(bootstrap, "install", lambda extras: self.done.append(",".join(extras)))

    def create(self) -> None:
        self.usable = True
        self.done.append("create")

    def ensure(self, *extras: str) -> list[str]:
        self.done = []
        bootstrap.ensure_installed(set(extras))
        return self.done


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_a_second_call_does_nothing(machine: Machine) -> None:
    assert machine.ensure("dev") == ["create", "dev"]
    assert machine.ensure("dev") == []
    assert machine.ensure() == []


def test_further_extras_are_added_to_those_there(machine: Machine) -> None:
    machine.ensure("trace")
    assert machine.ensure("dev") == ["dev,trace"]
    assert machine.ensure("trace", "dev") == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_install_again_with_what_was_there(machine: Machine, name: str) -> None:
    machine.ensure("trace")
    (machine.root / name).write_text("two")
    assert machine.ensure() == ["trace"]


@pytest.mark.parametrize("stamp", ["", "[]", "{}", '{"key": 1}', '{"key": "x", "extras": 5}', "\x00"])
def test_an_unreadable_stamp_counts_as_none(machine: Machine, stamp: str) -> None:
    machine.ensure("dev")
    (machine.root / "stamp.json").write_text(stamp)
    assert machine.ensure("trace") == ["trace"]


def test_a_broken_environment_is_made_anew(machine: Machine) -> None:
    machine.ensure("dev")
    machine.usable = False
    assert machine.ensure("trace") == ["create", "trace"], "what was in it is gone"


def test_what_the_machine_lacks_is_told_with_exit_code_3(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(extras: list[str]) -> None:
        raise bootstrap.CannotInstallError("no network")

    monkeypatch.setattr(bootstrap, "install", refuse)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--extras", "dev"])
    assert bootstrap.main() == 3
    assert "isotone: no network" in capsys.readouterr().err
    assert not (machine.root / "stamp.json").exists()


def test_what_is_not_needed_may_fail(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(extras: list[str]) -> None:
        if "pipeline" in extras:
            raise bootstrap.CannotInstallError("no wheel for this machine")
        machine.done.append(",".join(extras))

    monkeypatch.setattr(bootstrap, "install", refuse)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--extras", "trace", "--if-possible", "pipeline"])
    assert bootstrap.main() == 0
    assert machine.done == ["create", "trace"]
    assert "without the extra pipeline, for no wheel for this machine" in capsys.readouterr().err


def test_with_everything_for_development_nothing_is_missing(machine: Machine) -> None:
    machine.ensure("dev")
    assert machine.ensure("pipeline") == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PIP = [
    "Collecting pyspark==4.0.1\n",
    "  Downloading https://files.example/packages/pyspark-4.0.1.tar.gz (434.2 MB)\n",
    "Requirement already satisfied: click\n",
    "Installing collected packages: py4j, pyspark\n",
]


def heard(out: io.StringIO) -> list[str]:
    progress = bootstrap.Progress(out)
    for line in PIP:
        progress.hear(line)
        progress.show()
    progress.end()
    return re.sub(r" +[0-9]+ s ", " N s ", out.getvalue().replace(bootstrap.CLEAR, "\n")).split("\n")


def test_progress_on_a_terminal_is_one_line_that_changes() -> None:
    lines = heard(Terminal())
    assert lines[1:] == [
        "isotone: N s  collecting pyspark==4.0.1",
        "isotone: N s  downloading pyspark-4.0.1.tar.gz (434.2 MB)",
        "isotone: N s  downloading pyspark-4.0.1.tar.gz (434.2 MB)",
        "isotone: N s  writing 2 packages",
        "isotone: N s in all",
        "",
    ]


def test_progress_elsewhere_is_a_line_for_each_download() -> None:
    assert heard(io.StringIO()) == [
        "isotone: N s  downloading pyspark-4.0.1.tar.gz (434.2 MB)",
        "isotone: N s  writing 2 packages",
        "isotone: N s in all",
        "",
    ]


def test_a_command_that_fails_says_what_it_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    out = io.StringIO()
    program = "import sys; print('Downloading a/b.whl (1 MB)'); print('why', file=sys.stderr); sys.exit(4)"
    finished = bootstrap.run([sys.executable, "-u", "-c", program], bootstrap.Progress(out))
    assert finished.returncode == 4 and finished.stdout.splitlines() == ["Downloading a/b.whl (1 MB)", "why"]
    assert "downloading b.whl (1 MB)" in out.getvalue()
