"""The file by which commands find the cluster of their directory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.admin_client import clients_of
from isotone.cli.context import CONTEXT_FILE, Context, ContextDaemon, kept_context, read_context
from isotone.cli.faults import parse_parts
from isotone.cli.local_cluster import Place, refuse_taken_ports
from isotone.cli.main import commands
from isotone.core.errors import InputError, MachineError

NAMES = ("d1", "d2", "d3")


def context(process: int | None = None) -> Context:
    daemons = tuple(
        ContextDaemon(name=name, site="s1", address=f"127.0.0.1:{4803 + 10 * i}", admin=f"127.0.0.1:{4810 + 10 * i}")
        for i, name in enumerate(NAMES)
    )
    return Context(process=process or os.getpid(), settings="isotone.toml", trace="trace", daemons=daemons)


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_commands_know_all_daemons_while_the_cluster_is_up() -> None:
    assert read_context() is None
    with kept_context(context()):
        assert read_context() == context()
        assert [each.address for each in clients_of((), None)] == [each.admin for each in context().daemons]
        assert [each.address for each in clients_of(("127.0.0.1:9",), None)] == ["127.0.0.1:9"]
    assert not Path(CONTEXT_FILE).exists()
    assert [each.address for each in clients_of((), None)] == ["127.0.0.1:4810"]


def test_the_file_of_a_process_that_ended_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with kept_context(context(ended.pid)):
        assert read_context() is None
        assert "of a cluster that ended" in capsys.readouterr().err


def test_a_second_cluster_in_the_directory_leaves_the_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with kept_context(context()):
        before = Path(CONTEXT_FILE).read_bytes()
        with kept_context(context(os.getppid())):
            assert Path(CONTEXT_FILE).read_bytes() == before
        assert Path(CONTEXT_FILE).read_bytes() == before
    assert "for this one commands need --address" in capsys.readouterr().err


def test_a_file_that_is_something_else_is_an_error_with_its_name() -> None:
    Path(CONTEXT_FILE).write_text("[]")
    result = CliRunner().invoke(commands, ["status"])
    assert result.exit_code == 2
    assert CONTEXT_FILE in result.stderr
    assert "--address" in result.stderr


def test_a_fault_names_daemons_of_the_cluster() -> None:
    with kept_context(context()):
        result = CliRunner().invoke(commands, ["faults", "cut", "d9"])
        assert (result.exit_code, "has no daemon 'd9'; it has d1, d2, d3" in result.stderr) == (2, True)
        result = CliRunner().invoke(commands, ["faults", "cut", *NAMES])
        assert (result.exit_code, "not all" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("d1,d2", "/", "d3"), [("d1", "d2"), ("d3",)]),
        (("d1,", "d2/d3"), [("d1", "d2"), ("d3",)]),
        (("d2",), [("d2",), ("d1",), ("d3",)]),
        (("d1/d3",), [("d1",), ("d3",), ("d2",)]),
    ],
)
def test_parts_of_a_partition(words: tuple[str, ...], parts: list[tuple[str, ...]]) -> None:
    assert parse_parts(words, NAMES) == parts


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("d1", "/", "d4"), "no daemon 'd4'"),
        (("d1", "/", "d1"), "one part only"),
        (("d1,d2,d3",), "all daemons are in one part"),
        (("d1", "/"), "a part without daemons"),
    ],
)
def test_what_is_no_partition(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_parts(words, NAMES)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_that_is_taken_is_named_at_once(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        port = other.getsockname()[1]
        with pytest.raises(MachineError, match=rf"d1 cannot have port {port} .*; is another cluster up\? --port 0"):
            refuse_taken_ports([Place(name="d1", site="s1", port=port, admin_port=port)])
