"""The figure of [ISIS 5.4], small: asynchronous updates cost their work alone, synchronous ones a round trip each."""

from __future__ import annotations

from isotone.sim.figures.isis_concurrency import LATENCY_US, WORK_US, FileTrial


def answers(sites: int, *, synchronous: bool, view_synchronous: bool = False) -> list[int]:
    trial = FileTrial(sites, synchronous=synchronous, view_synchronous=view_synchronous)
    return [trial.operation(updates)[0] for updates in (1, 3)]


def test_asynchronous_updates_cost_their_work_alone_wherever_copies_are() -> None:
    one, three = answers(2, synchronous=False)
    assert abs(three - one - 2 * WORK_US) < LATENCY_US // 2
    assert abs(answers(3, synchronous=False)[0] - one) < LATENCY_US


def test_synchronous_updates_wait_for_all_copies() -> None:
    one, three = answers(2, synchronous=True)
    assert three - one >= 2 * (WORK_US + 2 * LATENCY_US) - LATENCY_US // 2


def test_so_it_is_on_a_view_synchronous_group() -> None:
    one, three = answers(3, synchronous=False, view_synchronous=True)
    assert abs(three - one - 2 * WORK_US) < LATENCY_US // 2
    one, three = answers(3, synchronous=True, view_synchronous=True)
    assert three - one >= 2 * (WORK_US + 2 * LATENCY_US) - LATENCY_US // 2
