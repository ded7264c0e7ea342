"""The picture of views over time."""

from __future__ import annotations

from isotone.cli.lanes import colour, draw, legend, picture_of
from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId
from isotone.trace.events import Crashed, Entry, Recovered, Row, SignalDelivered, ViewDelivered

FIRST = GroupViewId(DaemonViewId(1, DaemonId("d1", 1)))
SECOND = GroupViewId(DaemonViewId(2, DaemonId("d1", 1)))
ME = "#c#d1#1#1"


def rows(*entries: tuple[int, Entry]) -> list[Row]:
    return [Row("d1", 1, index, at, entry) for index, (at, entry) in enumerate(entries)]


def view(id: GroupViewId, group: str = "g") -> ViewDelivered:
    return ViewDelivered((ME,), group, id, (ME,), (ME,), "join")


def test_a_lane_shows_views_signals_crashes_and_restarts() -> None:
    picture = picture_of(
        rows(
            (0, Recovered("d1#1")),
            (100, view(FIRST)),
            (300, SignalDelivered((ME,), "g", FIRST)),
            (400, view(SECOND)),
            (450, view(SECOND, "other")),
            (600, Crashed("d1#1")),
            (800, Recovered("d1#2")),
        ),
        "g",
    )
    (*_, lane) = draw(picture, [], end=1000, columns=10)
    assert lane.plain == "d1 -AAaBBx.--"


def test_marks_stand_over_their_moments_and_do_not_overlap() -> None:
    picture = picture_of(rows((0, view(FIRST))), "g")
    lines = [line.plain for line in draw(picture, [(0, "partition"), (300, "crash")], end=1000, columns=10)]
    assert lines[:3] == ["   partition", "      crash", "   v  v      "]


def test_the_legend_names_the_daemons_of_each_view() -> None:
    picture = picture_of(rows((0, view(FIRST)), (1, view(SECOND))), "g")
    assert [line.plain.split() for line in legend(picture)] == [
        ["A", "d1", "join", "1!d1#1"],
        ["B", "d1", "join", "2!d1#1"],
    ]


def test_a_view_after_its_signal_has_the_same_colour_dimmed() -> None:
    assert colour("A").split()[1] == colour("a").split()[1]
    assert colour("A") != colour("B")
