"""The report: whole in itself, every figure there, and a browser has nothing to complain about."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import nullcontext
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from isotone.bench.lan.exhibits import exhibit_cells, exhibit_files
from isotone.bench.measure import Machine
from isotone.cli.main import commands
from isotone.core.errors import MachineError
from isotone.pipeline.metrics.form import METRICS as METRICS_FORM
from isotone.pipeline.metrics.form import QUANTILES
from isotone.pipeline.report import measures, tally, views
from isotone.pipeline.report import page as report
from isotone.pipeline.report.charts import latency_picture
from isotone.pipeline.report.exhibits import read_rows
from isotone.pipeline.report.page import Built, build
from isotone.pipeline.report.tally import Tally
from isotone.pipeline.report.views import lanes
from isotone.pipeline.schema import VERDICTS as VERDICTS_FORM
from isotone.pipeline.stages import METRICS, TIMELINE, VERDICTS
from isotone.pipeline.tables import write_runs
from isotone.pipeline.timeline import TIMELINE as TIMELINE_FORM
from isotone.sim.summary import Summary
from isotone.trace.events import STOPPED
from tests.browser import looks_at

ROOT = Path(__file__).parents[2]
MEASURED = tuple(name for name in ("figure-3.4", "figure-3.5") if (ROOT / "results" / f"{name}.txt").is_file())
FIGURES = (
    *("views-0", "latency-0", "throughput-0", "figure-4-5", "figure-5-4"),
    *(name.replace(".", "-") for name in MEASURED),
)
EXHIBITS = ("figure-3.4", "figure-3.5", "table-4.1", "table-4.2", "figure-4.5", "table-5.1", "figure-5.4")


def _metric(metric: str, dimension: str, key: str, **other: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"run": "demo <run>", "metric": metric, "unit": "us", "dimension": dimension, "key": key}
    row |= {"place": 0.0, "width": None, "count": 40, "total": 8000.0, "mean": 200.0, "least": 10.0, "p50": 150.0}
    row |= {"p90": 300.0, "p99": 900.0, "p999": 1000.0, "most": 1200.0}
    row["quantiles"] = [10.0 + 1190 * share for share in QUANTILES]
    return row | other


def _metrics() -> list[dict[str, Any]]:
    rows = [_metric("latency", "all", ""), _metric("sent", "all", ""), _metric("delivered", "all", "")]
    rows += [_metric("latency", "service", service) for service in ("FIFO", "AGREED", "SAFE")]
    for step in range(12):
        rows.append(_metric("sent", "time", f"{step}", place=float(step), width=1.0, count=10 + step % 3))
        rows.append(_metric("delivered", "time", f"{step}", place=float(step), width=1.0, count=30 + 9 * (step % 3)))
    return [*rows, _metric("view change", "phase", "signal to view"), _metric("carried", "link", "d1 → d2")]


def _moment(at: float, node: str, kind: str, **other: Any) -> dict[str, Any]:
    row = {"run": "demo <run>", "node": node, "incarnation": 1, "index": 0, "at": int(at * 1e6), "kind": kind}
    return row | {"group": None, "view": None, "members": None, "reason": None} | other


def _timeline() -> list[dict[str, Any]]:
    rows = [_moment(0, f"d{n}", "sview", view="1!d1", members=["d1", "d2", "d3"]) for n in (1, 2, 3)]
    rows += [_moment(3, f"d{n}", "sview", view="2!d1", members=["d1", "d2"]) for n in (1, 2)]
    rows += [
        _moment(3, "d3", "crash"),
        _moment(4, "d1", "faults", reason="cut d2"),
        _moment(6, "d1", "faults", reason=""),
    ]
    rows += [_moment(5, "d2", "linkfailed", reason="silent"), _moment(7, "d3", "recover")]
    rows += [_moment(8, f"d{n}", "sview", view="3!d1", members=["d1", "d2", "d3"]) for n in (1, 2, 3)]
    return rows + [_moment(12, f"d{n}", "last") for n in (1, 2, 3)]


def _verdicts() -> list[dict[str, Any]]:
    states = {"EVS-2.2": "holds", "EVS-2.5": "violated", "EVS-2.7": "not_exercised", "EVS-2.13.2@S": "not_judged"}
    witness = [{"node": "d1", "incarnation": 1, "index": 7}]
    return [
        {"run": "demo <run>", "label": label, "state": state, "place": place,
         "witness": witness if state == "violated" else None}
        for place, (label, state) in enumerate(states.items())
    ]  # fmt: skip


def _tally() -> Tally:
    rows = _verdicts()
    [run] = {row["run"] for row in rows}
    return Tally(
        runs=(run,),
        drawn=(run,),
        states={row["label"]: Counter([row["state"]]) for row in rows},
        broken=[row for row in rows if row["state"] == "violated"],
        beside={(run, row["label"]): row["state"] for row in rows},
        messages={"sent": 40, "delivered": 40},
    )


def _page(*told: Any) -> str:
    return build(*told).markup


@pytest.fixture(scope="module")
def page() -> str:
    return _page(_tally(), _metrics(), _timeline(), ROOT / "results")


def test_the_page_needs_nothing_but_itself(page: str) -> None:
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)""", page)
    assert "demo <run>" not in page  # escaped
    assert "demo &lt;run&gt;" in page


def test_every_figure_is_there(page: str) -> None:
    for name in FIGURES:
        assert re.search(rf'<figure id="{name}"[^>]*><svg', page), name
    for name in EXHIBITS:
        assert f'<section id="{name}"' in page, name
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_violation_is_told_with_its_witness(page: str) -> None:
    assert "No duplication (EVS-2.5) is violated in demo &lt;run&gt;" in page
    assert "d1#1 event 7" in page


def test_the_story_stands_before_the_verdicts_and_violated_ones_are_open(page: str) -> None:
    assert page.index('<section id="views"') < page.index('<section id="verdicts"')
    assert "d1, d2: view 2!d1 with 2 members" in page and "faults are injected at d1" in page
    clients, daemons = page.index("<b>Groups of clients</b>"), page.index("<b>Between daemons</b>")
    assert clients < daemons and page.count("<details open>") == 1
    assert page.rindex("<details open>", 0, daemons) < clients, "the group with the violation"


def test_a_percentile_needs_samples_and_a_table_lines() -> None:
    rows = [_metric("latency", "all", "")]
    rows += [_metric("latency", "service", "SAFE", count=count) for count in (9, 10, 100, 1000)]
    told = measures.latency_section(("demo <run>",), rows)
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in re.findall(r"<tr><td.*?</tr>", told)]
    assert [[cell == "–" for cell in line[4:7]] for line in cells] == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]
    assert told.count("<table") == 1, "nothing is known by distance, size and load"


def test_the_page_is_for_light_and_dark(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    pictures = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "var(--ink)" in pictures and ": #1f2933" not in pictures


def test_thesis_values_stand_beside_ours(page: str) -> None:
    for stated in ("487.3", "578.8", "136.3", "311.6", "2 D + delta"):
        assert stated in page, stated


def test_what_is_not_measured_is_said(page: str, tmp_path: Path) -> None:
    bare = _page(_tally(), _metrics(), _timeline(), tmp_path)
    assert bare.count("Not yet measured") == len(EXHIBITS)


def test_the_same_tables_give_the_same_page(page: str) -> None:
    assert _page(_tally(), _metrics(), _timeline(), ROOT / "results") == page


def test_lanes_show_who_was_in_which_view_and_when() -> None:
    shown = lanes(_timeline())
    assert [(bar.begin, bar.end, bar.view) for bar in shown.bars if bar.node == "d3"] == [
        (0.0, 3.0, "1!d1"),
        (8.0, 12.0, "3!d1"),
    ]
    assert (shown.crashes, shown.stops) == ([("d3", 3.0)], [])
    stopped = lanes([*_timeline(), _moment(13, "d1", "crash", reason=STOPPED)])
    assert (stopped.crashes, stopped.stops) == ([("d3", 3.0)], [("d1", 13.0)])
    assert (13.0, "d1 stops") in views.moments_of(stopped) and (3.0, "d3 crashes") in views.moments_of(stopped)
    assert shown.cuts == [("d1", 4.0, 6.0)]


@pytest.mark.parametrize("name", ["$x_{$q$", "$$", r"$\frac$", "a$b"])
def test_names_are_no_mathematics(name: str) -> None:
    rows = [row | {"run": name, "node": row["node"].replace("d1", name)} for row in _timeline()]
    rows = [row | ({"view": f"1!{name}"} if row["view"] else {}) for row in rows]
    assert escape(name) in views.picture("views-0", lanes(rows))
    metrics = [row | {"run": name} for row in _metrics()]
    whole = _page(_tally()._replace(runs=(name,), drawn=(name,), beside={}), metrics, rows, None)
    assert f"<h3>{escape(name)}</h3>" in whole


def test_runs_of_any_name_have_ids_of_their_own() -> None:
    runs = ("", "..", "東京", "大阪", "a b", "a-b")
    metrics = [row | {"run": run} for run in runs for row in _metrics()]
    timeline = [row | {"run": run} for run in runs for row in _timeline()]
    broken = [row | {"run": ""} for row in _tally().broken]
    whole = _page(_tally()._replace(runs=runs, drawn=runs, broken=broken, beside={}), metrics, timeline, None)
    ids = re.findall(r'\bid="([^"]+)"', whole)
    assert len(ids) == len(set(ids)) > 3 * len(runs)
    assert set(re.findall(r"""(?:href="|url\()#([^")]+)""", whole)) <= set(ids)
    assert "<h3></h3>" not in whole
    assert whole.count("<h3>(no name)</h3>") == 4
    for told in ("Runs: (no name), ..", "is violated in (no name).", "in run (no name)."):
        assert told in whole


def test_ticks_are_plain_numbers(page: str) -> None:
    """On a logarithmic axis of less than one power of ten, too."""
    near = [_metric("latency", "service", "FIFO", quantiles=[2000.0 + 5000 * share for share in QUANTILES])]
    shown = latency_picture("latency-0", near)
    for number in ("3", "4", "6"):
        assert f">{number}</text>" in shown
    assert not re.findall(r"mathdefault|\$", shown + page)


def test_the_verdicts_are_printed_before_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MachineError("no room for the page")

    summary = Summary(runs=1, violations=0, properties={}, failures=(), bounds={})
    done = SimpleNamespace(present=(), problems=(), notes=())
    parts = {
        "stages": SimpleNamespace(STEPS=1, refresh=lambda *_, **__: done),
        "checking": SimpleNamespace(
            require_traces=list, session_for=lambda *_, **__: None, summary_of=lambda *_: summary
        ),
        "report.page": SimpleNamespace(write_report=fails),
        "tables": SimpleNamespace(writing=lambda _: nullcontext(SimpleNamespace(share=lambda: None))),
    }
    monkeypatch.setattr("isotone.cli.pipeline._pipeline", parts.__getitem__)
    told = CliRunner().invoke(commands, ["pipeline", "run", str(tmp_path), "--out", str(tmp_path / "out")])
    assert told.exit_code == 3
    assert "1 run, no violation" in told.stdout
    assert "no room for the page" in told.stderr


def test_what_was_written_is_told_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built("", 3, ("Figure 3.4",))
    monkeypatch.setattr(report, "write_report", lambda *_, **__: built)
    monkeypatch.setattr("isotone.pipeline.session.session", lambda *_, **__: None)
    monkeypatch.setattr("isotone.pipeline.tables.manifests", lambda path: {"run": None})
    told = CliRunner().invoke(commands, ["pipeline", "report", str(tmp_path), "--json"])
    assert (told.exit_code, told.stderr) == (0, "")
    assert json.loads(told.stdout) == {"page": str(tmp_path / "report.html"), "runs": 3, "missing": ["Figure 3.4"]}


def test_printed_results_are_read_back() -> None:
    rows = read_rows("# command\n\nsites 4, probes 2\nservice   load  median ms\nSAFE      –     1.5     \n")
    assert rows == [{"service": "SAFE", "load": None, "median ms": 1.5}]


def test_results_of_the_bench_are_drawn(tmp_path: Path) -> None:
    machine = Machine("a processor", 2, "a system", "3.11", "0", "0000000")
    points = {1: {"p50": 120.0, "p99": 300.0}, 2: {"p50": 130.0, "p99": 280.0}}
    for name, told in exhibit_files("the command", machine, dict.fromkeys(exhibit_cells(), points)).items():
        (tmp_path / name).write_text(told)
    drawn = _page(_tally(), _metrics(), _timeline(), tmp_path)
    for name in ("figure-3-4", "figure-3-5"):
        assert re.search(rf'<figure id="{name}"[^>]*><svg', drawn), name
    assert drawn.count("Not yet measured") == len(EXHIBITS) - 2


def test_a_foreign_file_where_a_result_is_looked_for_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "figure-4.1.txt").write_text("shopping list\nmilk\nbread\n")
    (tmp_path / "figure-3.4.json").write_text('{"rows": [{"milk": 2}]}')
    (tmp_path / "figure-5.4.json").write_text("[]")
    (tmp_path / "figure-5.1.txt").write_bytes(b"\xff\xfe")
    built = build(_tally(), _metrics(), _timeline(), tmp_path)
    assert built.markup.count("is not a result of this") == 4
    assert built.markup.count("Not yet measured") == len(EXHIBITS) - 4
    assert [name.lower().replace(" ", "-") for name in built.missing] == list(EXHIBITS)


def test_a_picture_has_so_many_bars_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "BARS_MAX", 4)
    monkeypatch.setattr(views, "LANES_MAX", 2)
    rows = [_moment(time, "d1", "sview", view=f"{time}!d1", members=["d1"]) for time in (0, 1, 3, 4, 9, 20)]
    rows += [_moment(21, node, "last") for node in ("d1", "d2", "d3")]
    shown = lanes(rows)
    assert [bar.begin for bar in shown.bars] == [0.0, 1.0, 4.0, 9.0]  # of bars of one length the first
    assert (shown.nodes, shown.left) == (["d1", "d2"], "1 of the nodes; 2 of the bars, the shortest")
    assert "Not drawn: 1 of the nodes; 2 of the bars, the shortest." in _page(_tally(), _metrics(), rows, None)


def test_clocks_that_drift_are_warned_of(page: str) -> None:
    drifting = _page(_tally(), [*_metrics(), _metric("clock error", "all", "", most=75_000.0)], _timeline(), None)
    assert "up to 75 ms before they were sent" in drifting
    assert "before they were sent" not in page


def test_no_more_is_read_than_the_page_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a foreign file in the working directory changes nothing but one note."""
    two = [("other", "holds"), ("demo <run>", "violated")]
    judged = [
        {"run": run, "label": label, "state": state, "witness": None, "place": place}
        for run, state in two
        for place, label in enumerate(("EVS-2.4.1", "EVS-2.5"))
    ]
    write_runs(tmp_path / VERDICTS, spark.createDataFrame(judged, VERDICTS_FORM))
    metrics = [row | {"run": run} for run, _ in two for row in _metrics()]
    write_runs(tmp_path / METRICS, spark.createDataFrame(metrics, METRICS_FORM))
    moments = [*_timeline(), *(_moment(5, "d1", kind, group="g") for kind in ("view", "connect", "transsig"))]
    write_runs(tmp_path / TIMELINE, spark.createDataFrame(moments, TIMELINE_FORM))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "figure-4.1.txt").write_text("shopping list\nmilk\nbread\n")
    monkeypatch.chdir(tmp_path)
    for bound in ("RUNS_DRAWN_MAX", "RUNS_BESIDE_MAX", "BROKEN_MAX"):
        monkeypatch.setattr(tally, bound, 1)
    read: list[Any] = []

    def noted(*tables: Any) -> Built:
        read.extend(tables)
        return build(*tables)

    monkeypatch.setattr(report, "build", noted)
    notes: list[str] = []
    told = report.write_report(spark, tmp_path, tmp_path / "report.html", advance=notes.append)
    assert (told.runs, len(told.missing)) == (2, len(EXHIBITS))
    assert len(notes) == report.STEPS
    assert (read[0].drawn, read[0].beside) == (("demo <run>",), {})  # one with violations before others
    assert [(row["run"], row["label"]) for row in read[0].broken] == [("demo <run>", "EVS-2.4.1")]
    assert len(read[1]) == len(_metrics())
    assert len(read[2]) == len(_timeline())
    page = (tmp_path / "report.html").read_text()
    assert "<b>80</b><span>messages sent by clients" in page  # of both runs
    assert "… and 1 more in the tables." in page  # of the violations
    assert "1 more runs are in the tables." in page
    assert "<b>2</b><span>properties violated" in page
    assert "is not a result of this" in page


def test_a_browser_shows_it_without_complaint(page: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    for look in looks_at((tmp_path / "report.html").as_uri(), "report"):
        look.check()
        for name in FIGURES:
            assert f'id="{name}"' in look.html
