"""The command as a whole: help, version, exit codes, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from isotone import __version__
from isotone.cli.command_group import CommandGroup
from isotone.cli.main import COMMANDS, SUMMARIES, commands
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from tests.cli.running import wait_until

HEAVY = ("asyncio", "rich", "cryptography", "pyarrow", "pyspark", "isotone.evs", "isotone.sim", "isotone.client")
"""Modules that only commands need, not the list of them."""


def every_command(command: click.Command, context: click.Context, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found, click.Context(found, parent=context, info_name=name), f"{path} {name}")


def test_every_command_has_help_with_examples_and_every_option_a_text() -> None:
    told = list(every_command(commands, click.Context(commands, info_name="isotone"), "isotone"))
    assert len(told) > 90
    for path, command in told:
        assert "Examples:" in (command.help or ""), path
        names = [option.opts[0] for option in command.params if isinstance(option, click.Option) and not option.help]
        assert not names, f"{path}: no help for {names}"


def test_the_list_of_commands_needs_none_of_them() -> None:
    """So that help is there in an instant, on any machine."""
    look = "import sys; from isotone.cli.main import commands; commands(['--help'], standalone_mode=False)"
    report = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
    done = subprocess.run([sys.executable, "-c", report + look], capture_output=True, text=True, check=True)
    assert "explain" in done.stdout
    modules = done.stderr.split()
    assert not [each for each in modules if each in HEAVY or each.startswith(tuple(f"{name}." for name in HEAVY))]


def test_the_list_of_commands_has_a_short_line_for_each() -> None:
    shown = CliRunner().invoke(commands, ["--help"]).stdout.partition("Commands:")[2]
    assert [line.split()[0] for line in shown.splitlines() if line.strip()] == list(COMMANDS) == list(SUMMARIES)
    assert all(len(text) <= 60 and text[-1] in ".?" for text in SUMMARIES.values())


def test_a_shell_completes_commands_and_options() -> None:
    offered = ShellComplete(commands, {}, "isotone", "_ISOTONE_COMPLETE")
    assert [each.value for each in offered.get_completions([], "st")] == ["status"]
    assert "--version" in [each.value for each in offered.get_completions([], "--")]
    assert "--links" in [each.value for each in offered.get_completions(["status"], "--")]
    assert "partition" in [each.value for each in offered.get_completions(["faults"], "")]


@pytest.mark.parametrize(
    ("words", "meant"), [(["stauts"], "status"), (["faults", "partitoin"], "partition"), (["zzzz"], "")]
)
def test_a_command_that_was_mistyped_is_named(words: list[str], meant: str) -> None:
    result = CliRunner().invoke(commands, words)
    assert result.exit_code == 2
    assert (f"Did you mean '{meant}'?" in result.output) == bool(meant)


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(commands, ["--version"])
    assert result.output == f"isotone {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["sim", "nonsense"],
        ["sim", "swarm", "--seeds", "9..1"],
        ["sim", "swarm", "--seeds", "x"],
        ["sim", "swarm", "--size", "huge"],
        ["sim", "swarm", "--system", "abacus"],
        ["sim", "swarm", "--stack", "paper"],
        ["sim", "swarm", "--nodes", "0"],
        ["sim", "swarm", "--faults", "fire"],
        ["sim", "swarm", "--workers", "0"],
        ["sim", "replay"],
        ["sim", "replay", "no/such/file.json"],
        ["check"],
        ["check", "no/such/trace.jsonl"],
        ["up", "0"],
        ["up", "3", "--sites", "4"],
        ["up", "x"],
        ["status", "--every", "0"],
        ["status", "--address", "127.0.0.1:x"],
        ["status", "--credential-file", "no/such/file"],
        ["explain"],
        ["explain", "message"],
        ["group", "send"],
        ["group", "send", "room", "x", "--service", "holy"],
        ["group", "ping", "room", "--count", "0"],
        ["trace", "on", "--level", "off"],
        ["faults", "drop", "d2", "2"],
        ["daemon", "run"],
        ["daemon", "--dev", "run", "x.toml"],
        ["daemon", "nonsense"],
        ["demo", "--seed", "x"],
        ["demo", "--seed", "1_0"],
        ["sim", "swarm", "--seeds", "1_0"],
        ["sim", "swarm", "--seeds", "٣"],
        ["sim", "replay", "٣"],
        ["sim", "replay", " 1"],
        ["sim", "replay", "9" * 5_000],
        ["sim", "replay", "1", "--trace", "run.csv"],
    ],
)
def test_wrong_usage_ends_with_2_and_one_clear_message(arguments: list[str]) -> None:
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 2
    assert result.stderr.strip()
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad file"), 2),
        (LocalProtocolError("bad name"), 2),
        (MachineError("no disk"), 3),
        (KeyboardInterrupt(), 130),
        (click.UsageError("bad option"), 2),
        (click.FileError("x", "unreadable"), 2),
        (ValueError("nobody expected this"), 3),
        (RecursionError(), 3),
        (OSError(28, "No space left on device"), 3),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    @click.group(cls=CommandGroup)
    def group() -> None: ...

    @group.command("fail")
    def fail() -> None:
        raise error

    result = CliRunner().invoke(group, ["fail"])
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_what_nobody_expected_is_told_in_one_line_with_its_place() -> None:
    @click.group(cls=CommandGroup)
    def group() -> None: ...

    @group.command("fail")
    def fail() -> None:
        raise ValueError("first line\nsecond")

    told = CliRunner().invoke(group, ["fail"]).stderr
    assert told.startswith("isotone: unexpected ValueError: first line second (fail, test_main.py:")
    assert told.count("\n") == 1


def test_an_interrupt_while_a_command_is_imported_is_one_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)

    @click.group(cls=CommandGroup, lazy={"slow": "slow_to_import:command"})
    def group() -> None: ...

    result = CliRunner().invoke(group, ["slow"])
    assert (result.exit_code, result.stderr.strip()) == (130, "isotone: interrupted")


def test_no_command_is_imported_before_it_is_asked_for() -> None:
    look = "import sys, isotone.cli.main; print([name for name in sys.modules if name.startswith('isotone.sim')])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "[]\n"


PROGRAM = """
import sys
from isotone.cli.command_group import CommandGroup
from isotone.cli.output import print_json, results
import click

@click.group(cls=CommandGroup)
def group(): ...

@group.command("show")
@click.option("--json", "as_json", is_flag=True)
@click.option("--code", type=int, default=0)
def show(as_json, code):
    for _ in range(300):
        print_json({"a": 1}) if as_json else results().print("a line")
    return code

group()
"""


def show(options: str, redirection: str) -> subprocess.CompletedProcess[str]:
    command = f'exec "$0" -c "$1" show {options} {redirection}'
    shell = ["bash", "-c", command, sys.executable, PROGRAM]
    return subprocess.run(shell, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", ["", "--json", "--code 1"])
def test_output_that_cannot_be_written_is_the_machines_fault(options: str) -> None:
    for redirection in (">/dev/full", ">&-"):
        done = show(options, redirection)
        assert done.returncode == 3
        assert done.stderr.startswith("isotone: ") and done.stderr.count("\n") == 1
        assert show(options, f"{redirection} 2>/dev/full").returncode == 3


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("code", [0, 1])
def test_a_reader_that_has_gone_changes_no_exit_code(code: int, options: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, "show", "--code", str(code), *options]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1)])
def test_what_a_command_returns_is_its_exit_code(returned: int | None, code: int) -> None:
    @click.group(cls=CommandGroup)
    def group() -> None: ...

    @group.command("end")
    def end() -> int | None:
        return returned

    assert CliRunner().invoke(group, ["end"]).exit_code == code


def test_the_module_runs_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "isotone.cli", "sim", "swarm", "--seeds", "1..2", "--size", "small"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 runs, no violation" in done.stdout


HEARING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests in the background has it ignored
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_workers_and_leaves_no_stack_trace(number: signal.Signals, tmp_path: Path) -> None:
    """From a terminal the interrupt goes to the whole process group; a termination goes to the command alone."""
    command = [sys.executable, "-m", "isotone.cli", "sim", "swarm", "--seeds", "1..5000", "--workers", "2"]
    with (tmp_path / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", HEARING, *command],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _wait_for_workers(process.pid)
            (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
            assert process.wait(60) == 130
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        assert errors.read().strip() == "isotone: interrupted"
    _wait_until_none_is_left(process.pid)


def _wait_for_workers(parent: int) -> None:
    """Until both workers have used some CPU time, which they do only when they run plans."""

    def are_there() -> bool:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return sum(_cpu_ticks(child) > 60 for child in children) >= 2

    wait_until(are_there, "both workers run plans")


def _wait_until_none_is_left(group: int) -> None:
    """The helper process of multiprocessing ends by itself soon after; workers must not stay."""

    def is_none_left() -> bool:
        states = [_status(name) for name in os.listdir("/proc") if name.isdigit()]
        return not any(fields[2] == str(group) and fields[0] != "Z" for fields in states if fields)

    wait_until(is_none_left, "no worker outlives the command")


def _cpu_ticks(pid: str) -> int:
    fields = _status(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _status(pid: str) -> list[str]:
    """State, parent, group and so on, as the kernel tells them; nothing of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
