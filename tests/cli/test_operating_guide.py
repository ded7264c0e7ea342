"""docs/guide/operating.md: its commands and examples run, its tables say what the code says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from isotone.daemon.admin.metric_table import METRICS
from tests.cli.running import USUAL, Running, isotone, wait_until

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "operating.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("sh"))))
def test_commands_run(cluster: Running, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTONE_ADMIN", cluster.admin("d1"))
    monkeypatch.setenv("ISOTONE_ADDRESS", cluster.clients)
    for line in cluster.placed(blocks("sh")[number]).splitlines():
        words = shlex.split(line)
        assert words[0] == "isotone"
        result = isotone(*words[1:])
        assert result.exit_code in (0, 1) if words[1] == "explain" else result.exit_code == 0, (line, result.output)
    wait_until(cluster.is_together, "all are together again")


def test_examples_run(cluster: Running) -> None:
    examples = blocks("python")
    assert examples
    for example in examples:
        exec(compile(cluster.placed(example), "operating.md", "exec"), {})


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(isotone_\w+)` \| (\w+) \| ?(.*?) \| (.*) \|$", GUIDE, re.MULTILINE)
    expected = [(each.name, each.kind, ", ".join(each.labels), each.text) for each in METRICS]
    assert [(name, kind, labels.strip(" |"), text) for name, kind, labels, text in rows] == expected


def test_the_table_of_alerts_is_that_of_the_rules() -> None:
    alerts = (ROOT / "ops" / "alerts.yml").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Isotone\w+)` \|", GUIDE, re.MULTILINE) == re.findall(r"- alert: (\w+)", alerts)


def test_the_table_of_requests_is_that_of_the_port() -> None:
    from isotone.daemon.admin import routes

    assert routes.__doc__ is not None
    told = set(re.findall(r"(?:GET|POST|,) (/\w+)", routes.__doc__))
    assert told == set(
        re.findall(r"`(?:GET |POST )?(/\w+)[^`]*`", GUIDE.partition("## Over HTTP")[2].partition("```")[0])
    )


def test_ports_are_those_that_up_gives() -> None:
    from isotone.cli.local_cluster import PORT, places_of

    assert {place.name: (place.port, place.admin_port) for place in places_of(3, 2, PORT)} == USUAL
