"""Commands of guides that are run as a reader would: a replicated log on one machine, flows between processes, keys."""

from __future__ import annotations

import json
import re
import shlex
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.running import isotone, process, wait_until
from tests.cli.test_guides import ROOT, commands_of, guide
from tests.ports import free_ports


def typed(name: str, beginning: str) -> str:
    """The first command of a guide that begins so, without what a shell would take."""
    return next(
        re.split(r"\s[#>|]\s", line)[0].strip()
        for line in commands_of(ROOT / "docs" / "guide" / f"{name}.md")
        if line.startswith(beginning)
    )


def run(line: str, *, code: int = 0) -> str:
    """A command as it is typed; what it prints."""
    done = isotone(*shlex.split(line)[1:])
    assert done.exit_code == code, f"{line}: {done.output}"
    return done.stdout


def test_a_replicated_log_on_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guide/replica.md, `try.toml`: three servers start and order; they are asked, stopped, verified, copied."""
    monkeypatch.chdir(tmp_path)
    text = next(text for kind, text in guide("replica") if kind == "toml")
    ports = sorted(set(re.findall(r"port = (\d+)", text)))
    mine = dict(zip(ports, free_ports(len(ports)), strict=True))
    Path("try.toml").write_text(re.sub(r"port = (\d+)", lambda found: f"port = {mine[found[1]]}", text))
    run(typed("replica", "isotone replica quorum try.toml"))
    start = shlex.split(typed("replica", "isotone replica start try.toml --name a --dev"))[1:]
    status = typed("replica", "isotone replica status try.toml")
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                process(*(name if each == "a" else each for each in start), log=tmp_path / f"{name}.log")
            )
            for name in "abc"
        ]
        wait_until(lambda: isotone(*shlex.split(status)[1:]).exit_code == 0, "there is a primary component")
        assert run(status).count("regular") >= 3
        run("isotone explain primary try.toml")
        for server in servers:
            server.send_signal(signal.SIGTERM)
        assert [server.wait(60) for server in servers] == [0, 0, 0]
    run("isotone replica log verify try.toml --name a")
    run("isotone replica backup try.toml monday.backup --name a")
    assert Path("monday.backup").exists()


def test_flows_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guide/flows.md: an authority, a node with its invitation, and what it says of itself."""
    monkeypatch.chdir(tmp_path)
    shown = run(typed("flows", "isotone flow show phases"))
    (program,) = (text for _, text in guide("flows") if text.startswith("program phases"))
    assert set(program.splitlines()) <= set(shown.splitlines())
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    authority = typed("flows", "isotone flow authority").replace("10.0.0.1:4810", first)
    authority = authority.replace("--nodes 32 --fan-out 4", "--nodes 2 --fan-out 2")
    assert "--nodes 2" in authority and first in authority
    node = typed("flows", "isotone flow node").replace("10.0.0.2:4811", second).replace("r.1.1", "r")
    with process(*shlex.split(authority)[1:], log=tmp_path / "authority.log") as serving:
        assert serving.stdout is not None
        ready = json.loads(serving.stdout.readline())
        assert ready["invitations"] == ["r"]
        words = shlex.split(node.replace("KEY", ready["key"]))[1:]
        with process(*words, "--versions", "1", log=tmp_path / "node.log"):
            status = typed("flows", "isotone flow status").replace("10.0.0.2:4811", second)
            wait_until(lambda: " leads " in isotone(*shlex.split(status)[1:]).output, "the node leads its ring")
            assert "runs phases" in run(status) and "ms between tokens" in run(status)
            assert run(status.replace(second, first)).split()[:6] == [
                "ring",
                "view",
                "members",
                "the",
                "leader",
                "first",
            ]


def test_keys_of_data_centres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guide/data-centres.md: a key for a process, and one for an operator, with what goes into the file."""
    monkeypatch.chdir(tmp_path)
    for line in commands_of(ROOT / "docs" / "guide" / "data-centres.md"):
        if line.startswith("isotone site keygen"):
            assert "key = " in run(line)
    for name in ("state/berlin1/centre.key", "state/madrid/centre.key", "anna.key"):
        assert Path(name).stat().st_mode & 0o077 == 0, "for its owner alone"
