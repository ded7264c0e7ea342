"""Figures 3.4 and 3.5 of the thesis as files: what the report of the pipeline reads of them."""

from __future__ import annotations

from isotone.bench.lan.exhibits import exhibit_cells, exhibit_files
from isotone.bench.measure import this_machine
from isotone.pipeline.report.exhibits import read_rows


def figures(**without: int) -> dict[str, dict[int, dict[str, float]]]:
    found = {}
    for name, cell in exhibit_cells().items():
        slow = 100.0 + cell.groups + cell.idle_clients
        found[name] = {place: {"p50": slow + place, "p99": 2 * slow, "rate": 1000.0} for place in range(3)}
    return {name: each for name, each in found.items() if name not in without}


def test_a_figure_is_a_table_that_the_report_reads() -> None:
    files = exhibit_files("isotone bench lan", this_machine(), figures())
    assert sorted(files) == ["figure-3.4.txt", "figure-3.5.txt"]
    assert read_rows(files["figure-3.4.txt"]) == [
        {"groups": 1.0, "p50 us": 102.0, "p99 us": 202.0},
        {"groups": 10.0, "p50 us": 111.0, "p99 us": 220.0},
        {"groups": 100.0, "p50 us": 201.0, "p99 us": 400.0},
        {"groups": 1000.0, "p50 us": 1101.0, "p99 us": 2200.0},
    ]
    assert list(read_rows(files["figure-3.5.txt"])[0]) == ["groups and connections", "p50 us", "p99 us"]
    assert "commit" in files["figure-3.5.txt"]


def test_a_figure_with_a_point_that_is_missing_is_none() -> None:
    assert [*exhibit_files("", this_machine(), figures(**{"figure-3.5/100": 0}))] == ["figure-3.4.txt"]
    assert exhibit_files("", this_machine(), {}) == {}


def test_the_figures_are_those_of_two_daemons() -> None:
    cells = exhibit_cells().values()
    assert {(cell.daemons, cell.member_count, cell.service) for cell in cells} == {(2, 2, "reliable")}
    assert [cell.groups for cell in cells if not cell.idle_clients] == [1, 10, 100, 1000]
    assert [cell.idle_clients for cell in cells if cell.idle_clients] == [1, 10, 100, 1000]
    assert len({(cell.groups, cell.idle_clients) for cell in cells}) == len(cells)
