"""The figure of [ISIS 5.4], small: asynchronous updates cost their work alone, synchronous ones a round trip each."""

from __future__ import annotations

from functools import cache
from io import StringIO

from rich.console import Console

from isotone.cli.figure import print_figure
from isotone.sim.figures import Figure
from isotone.sim.figures.isis_concurrency import LATENCY_US, LIGHT_WORK_US, WORK_US, FileTrial, answer_rows, load_row


@cache
def trial(sites: int, view_synchronous: bool) -> FileTrial:
    """Settled once; what an update costs, and whether the coordinator waits behind it, is up to each measurement."""
    return FileTrial(sites, view_synchronous=view_synchronous)


def answers(sites: int, *, synchronous: bool, work_us: int = WORK_US, view_synchronous: bool = False) -> list[int]:
    file = trial(sites, view_synchronous)
    for name in file.names:
        file.node(name).synchronous, file.node(name).work_us = synchronous, work_us
    return [file.operation(updates)[0] for updates in (1, 3)]


def test_asynchronous_updates_cost_their_work_alone_wherever_copies_are() -> None:
    one, three = answers(2, synchronous=False)
    assert abs(three - one - 2 * WORK_US) < LATENCY_US // 2
    assert abs(answers(3, synchronous=False)[0] - one) < LATENCY_US


def test_an_answer_takes_far_less_for_each_update_than_if_it_waits_for_all_copies() -> None:
    one, three = answers(3, synchronous=True)
    assert three - one >= 2 * (WORK_US + 2 * LATENCY_US) - LATENCY_US // 2
    (one, three), (first, third) = (answers(3, synchronous=each, work_us=LIGHT_WORK_US) for each in (False, True))
    assert 5 * (three - one) < third - first


def test_so_it_is_on_a_view_synchronous_group() -> None:
    one, three = answers(3, synchronous=False, view_synchronous=True)
    assert abs(three - one - 2 * WORK_US) < LATENCY_US // 2
    one, three = answers(3, synchronous=True, view_synchronous=True)
    assert three - one >= 2 * (WORK_US + 2 * LATENCY_US) - LATENCY_US // 2


def test_under_load_messages_share_frames() -> None:
    answers(3, synchronous=False, work_us=1_000)
    calm, loaded = (trial(3, False).load(*load) for load in ((2, 1_000_000), (6, 20_000)))
    assert loaded < 0.7 * calm


def test_the_table_is_printed_beside_the_papers_figures() -> None:
    answers(3, synchronous=False)
    rows = [*answer_rows(trial(3, False), "asynchronous", 2), load_row("load", 1_000_000, 195.0)]
    printed = StringIO()
    print_figure(Console(file=printed, width=200), Figure("isis-5.4", {}, rows))
    assert "paper answer s" in printed.getvalue() and "195.0" in printed.getvalue()
    assert [row["paper_answer_s"] for row in rows] == [0.3, 0.4, None]
