"""``isotone timeline``: a recorded run as a picture, in the terminal, as SVG and as a page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.trace.jsonl import write_jsonl
from tests.browser import looks_at
from tests.trace.test_story import Crashed, Recovered, record, sview


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = record("d1", (0, Recovered("d1#1")), (1, sview(1, "d1", "d2")), (5, sview(2, "d1")), (8, sview(3, "d1")))
    rows += record("d2", (0, Recovered("d2#1")), (1, sview(1, "d1", "d2")), (4, Crashed("d2#1")))
    write_jsonl(tmp_path / "run.jsonl", "run & <one>", rows)
    return tmp_path / "run.jsonl"


def test_lanes_and_words(trace: Path) -> None:
    result = CliRunner().invoke(commands, ["timeline", str(trace)])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    (first,) = (line for line in lines if line.startswith("d1 >"))
    (second,) = (line for line in lines if line.startswith("d2 >"))
    assert "A" in first and "B" in first
    assert "B" not in second and second.rstrip(".").endswith("x")
    assert any(line.endswith("d2 crashes") for line in lines)


def test_picture_and_page_need_nothing_but_themselves(trace: Path, tmp_path: Path) -> None:
    svg, page = tmp_path / "t.svg", tmp_path / "t.html"
    result = CliRunner().invoke(commands, ["timeline", str(trace), "--svg", str(svg), "--html", str(page)])
    assert result.exit_code == 0, result.stderr
    root = xml.fromstring(svg.read_text())
    assert len(root.findall(".//{*}rect")) == 3
    text = page.read_text()
    assert "run &amp; &lt;one&gt;" in text
    assert "src=" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_browser_shows_the_page(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "t.html"
    assert CliRunner().invoke(commands, ["timeline", str(trace), "--html", str(page)]).exit_code == 0
    for look in looks_at(page.as_uri(), "timeline"):
        look.check()
        assert "d2 crashes" in look.html


def test_as_json(trace: Path) -> None:
    found = json.loads(CliRunner().invoke(commands, ["timeline", str(trace), "--json"]).stdout)
    assert found["story"]["nodes"] == ["d1", "d2"]
    assert found["sentences"][-1][1] == "d1: view of d1"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no trace: name a file or a directory"),
        (["TRACE", "--run", "other"], "no run 'other'"),
        (["TRACE", "--group", "chat"], "no view of the group 'chat'"),
    ],
)
def test_what_cannot_be_drawn(
    arguments: list[str], told: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        commands, ["timeline", *(str(trace) if each == "TRACE" else each for each in arguments)]
    )
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
