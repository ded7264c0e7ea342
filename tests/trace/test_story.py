"""The story of a run: lanes, clocks brought together, words."""

from __future__ import annotations

from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.trace.events import (
    STOPPED,
    Crashed,
    DaemonViewDelivered,
    Entry,
    FaultsSet,
    Recovered,
    Row,
    Sent,
    Truncated,
    ViewDelivered,
)
from isotone.trace.record import NOT_CLOSED, STILL_WRITTEN
from isotone.trace.story import SENTENCES_MAX, Stay, signs, story_of

SECOND = 1_000_000


def record(node: str, *entries: tuple[float, Entry], incarnation: int = 1, clock: float = 0) -> list[Row]:
    return [
        Row(node, incarnation, index, int((at + clock) * SECOND), entry) for index, (at, entry) in enumerate(entries)
    ]


def sview(epoch: int, *members: str) -> DaemonViewDelivered:
    daemons = tuple(f"{name}#1" for name in members)
    return DaemonViewDelivered(daemons[0], DaemonViewId(epoch, DaemonId(members[0], 1)), daemons, daemons)


def test_a_view_lasts_until_the_next_one_or_the_crash() -> None:
    rows = record(
        "a", (0, Recovered("a#1")), (1, sview(1, "a", "b")), (3, sview(2, "a")), (6, FaultsSet("a#1", ""))
    ) + record("b", (0, Recovered("b#1")), (1.1, sview(1, "a", "b")), (2, Crashed("b#1")))
    story = story_of(rows)
    assert story.subject == "the daemons"
    assert [view.members for view in story.views] == [("a", "b"), ("a",)]
    assert sorted(story.stays, key=lambda stay: (stay.node, stay.begin)) == [
        Stay("a", SECOND, 3 * SECOND, 0),
        Stay("a", 3 * SECOND, 6 * SECOND, 1),
        Stay("b", 1_100_000, 2 * SECOND, 0),
    ]
    assert [text for _, text in story.sentences()] == [
        "a starts",
        "b starts",
        "a, b: view of a, b",
        "b crashes",
        "a: view of a",
    ]


def test_clocks_that_began_elsewhere_are_brought_together() -> None:
    """c shares views with b alone, and b with a: its clock is found through b."""
    rows = (
        record("a", (1, sview(1, "a", "b")), (9, sview(4, "a")))
        + record("b", (1.01, sview(1, "a", "b")), (5, sview(2, "b", "c")), clock=1000)
        + record("c", (5.02, sview(2, "b", "c")), (7, sview(3, "c")), clock=-3000)
    )
    story = story_of(rows)
    begins = {(stay.node, stay.view): stay.begin for stay in story.stays}
    assert abs(begins["a", 0] - begins["b", 0]) < SECOND / 10
    assert abs(begins["b", 1] - begins["c", 1]) < SECOND / 10
    assert abs(begins["c", 1] - begins["a", 0] - 4 * SECOND) < SECOND / 10
    assert story.length_us < 9 * SECOND


def test_a_group_is_shown_where_it_is_asked_for_or_no_daemon_view_is_there() -> None:
    client = "#x#a#1#1"
    view = GroupViewId(DaemonViewId(1, DaemonId("a", 1)))
    joined = ViewDelivered((client,), "chat", view, (client,), (client,), "join")
    rows = record("a", (0, sview(1, "a")), (1, joined), (2, Sent(client, 1, Service.AGREED, ("chat",), (1, 1), (7, 8))))
    assert story_of(rows).subject == "the daemons"
    for story in (story_of(rows, "chat"), story_of(rows[1:])):
        assert story.subject == "the group chat"
        assert [view.members for view in story.views] == [("x@a",)]
        assert [count for _, count in story.sends["a"]] == [2]


def test_injected_faults_last_until_they_are_taken_back() -> None:
    rows = record("a", (0, sview(1, "a")), (1, FaultsSet("a#1", "cut b")), (2, FaultsSet("a#1")), (3, sview(2, "a")))
    rows += record("b", (0, sview(3, "b")), (1, FaultsSet("b#1", "cut a")), (3, sview(4, "b")))
    assert sorted(story_of(rows).faults, key=lambda stay: stay.node) == [
        Stay("a", SECOND, 2 * SECOND, 0),
        Stay("b", SECOND, 3 * SECOND, 1),
    ]
    told = [text for _, text in story_of(rows).sentences()]
    assert "the injected faults at a end" in told and "the injected faults at b end" not in told


def test_a_stop_is_no_crash_and_a_record_that_is_still_written_has_no_end() -> None:
    ends = (Crashed("a#1", STOPPED), Crashed("b#1"), Truncated(NOT_CLOSED), Truncated(STILL_WRITTEN))
    rows = [
        row
        for name, end in zip("abcd", ends, strict=True)
        for row in record(name, (0, Recovered(f"{name}#1")), (1, sview(1, *"abcd")), (2, end))
    ]
    story = story_of(rows)
    assert [text for at, text in story.sentences() if at == 2 * SECOND] == [
        "a stops",
        "b crashes",
        "c was killed, or lost its record",
    ]
    assert [signs(story, node, 10)[-1] for node in "abcd"] == ["|", "x", "x", "A"]


def test_a_run_without_rows_has_an_empty_story_and_a_long_one_bounded_words() -> None:
    assert story_of([]).sentences() == []
    rows = record("a", *((at, sview(at + 1, "a")) for at in range(2 * SENTENCES_MAX)))
    assert len(story_of(rows).sentences()) == SENTENCES_MAX
