"""docs/guide/quickstart.md and services.md: their commands run on a real cluster, their programs run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import WITHIN_S, Running, isotone, wait_until

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and text of each."""
    text = (GUIDE / f"{name}.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def is_cut(cluster: Running) -> bool:
    return cluster.members("d1") == ["d1", "d2"] == cluster.members("d2") and cluster.members("d3") == ["d3"]


def test_the_quickstart(cluster: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(cluster.started_in)  # as the guide says: commands find the cluster there
    kinds = [kind for kind, _ in blocks("quickstart")]
    assert kinds == ["text", "sh", "python", "sh", "sh"], "every block is of a kind that runs here"
    for kind, text in blocks("quickstart"):
        if kind == "text":
            assert text == "isotone up 3 --sites 2\n", "what the fixture runs"
        elif kind == "python":
            exec(compile(cluster.placed(text), "quickstart.md", "exec"), {"__name__": "quickstart"})
            assert "alice: good-bye" in capsys.readouterr().out
        else:
            for line in cluster.placed(text).splitlines():
                words = shlex.split(line)
                result = isotone(*words[1:])
                expected = 1 if words[1] == "explain" else 0  # the answer is: it is excluded
                assert (words[0], result.exit_code) == ("isotone", expected), (line, result.output)
            if "faults partition" in text:
                wait_until(lambda: is_cut(cluster), "the sites are apart")
    wait_until(cluster.is_together, "all are together again")


def test_the_program_twenty_times_in_a_row(cluster: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """The two greetings race for their places; none is ever lost, and both programs hear the same."""
    (program,) = (cluster.placed(text) for kind, text in blocks("quickstart") if kind == "python")
    compiled = compile(program, "quickstart.md", "exec")
    for _ in range(20):
        exec(compiled, {"__name__": "quickstart"})
        said = capsys.readouterr().out.splitlines()[-1]
        greetings = "'alice: hello from alice'", "'bob: hello from bob'"
        assert said in {f"[{one}, {other}, 'alice: good-bye']" for one, other in (greetings, greetings[::-1])}


def test_the_program_loses_no_line_when_it_starts_during_a_cut(cluster: Running) -> None:
    """It waits until both are in one view; before that each would speak to itself."""
    (program,) = (cluster.placed(text) for kind, text in blocks("quickstart") if kind == "python")
    addresses = [part for name in cluster.daemons for part in cluster.at(name)]
    assert isotone("faults", "partition", "d1,d2", "/", "d3", *addresses).exit_code == 0
    wait_until(lambda: is_cut(cluster), "the sites are apart")
    with subprocess.Popen([sys.executable, "-uc", program], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        told = [running.stdout.readline(), running.stdout.readline()]
        assert sorted(told) == ["alice sees ['alice']\n", "bob sees ['bob']\n"], "each alone on its side"
        assert isotone("faults", "heal", *addresses).exit_code == 0
        rest, _ = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 0
    for line in ("alice: hello from alice", "bob: hello from bob", "alice: good-bye"):
        assert line in rest.splitlines()[-1]
    wait_until(cluster.is_together, "all are together again")


def test_the_program_of_the_services(capsys: pytest.CaptureFixture[str]) -> None:
    programs = [text for kind, text in blocks("services") if kind == "python"]
    for text in programs:
        exec(compile(text, "services.md", "exec"), {"__name__": "services"})
    told = capsys.readouterr().out
    assert len(programs) == 2 and "b'pay 10'" in told and "['alice', 'bob']" in told


def test_the_table_of_services_has_each_of_them() -> None:
    from isotone.core.services import Service

    page = (GUIDE / "services.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z]+)` \| [^|]+ \| [^|]+ \| [^|]+ \|", page, re.MULTILINE) == [s.name for s in Service]
