"""Clocks side by side: as they are where no message contradicts them, else in the middle of what messages allow."""

from __future__ import annotations

import random
from collections.abc import ItemsView

from isotone.pipeline.metrics.clocks import Record, errors, offsets

A, B, C = ("a", 1), ("b", 1), ("c", 1)


def test_clocks_that_contradict_nothing_are_taken_as_they_are() -> None:
    assert offsets({(A, B): 900, (B, A): 20}) == {A: 0, B: 0}


def test_a_clock_that_is_ahead_is_set_back_by_the_middle() -> None:
    ahead, there, back = 5_000_000, 300, 500
    found = offsets({(A, B): ahead + there, (B, A): back - ahead})
    assert abs(found[B] - found[A] - ahead) <= abs(there - back)


def test_bounds_reach_over_records_that_never_spoke_to_each_other() -> None:
    found = offsets({(A, B): 1_000_100, (B, A): -999_900, (B, C): -2_999_900, (C, B): 3_000_100})
    assert found == {A: 0, B: 1_000_000, C: -2_000_000}


def test_one_way_alone_gives_a_bound_and_no_middle() -> None:
    assert offsets({(A, B): -700}) == {A: 0, B: -700}
    assert offsets({(B, A): -700}) == {A: 0, B: 700}


def test_a_single_sender_sets_all_that_hear_it() -> None:
    """Machines that were started on different days: only the differences of their uptimes are in the times."""
    day = 86_400_000_000
    found = offsets({(B, A): 2 * day + 300, (B, C): 5 * day + 900})
    assert (found[A] - found[B], found[C] - found[B]) == (2 * day + 300, 5 * day + 900)
    assert offsets({(B, A): 3_000_000, (B, C): 900}) == {A: 0, B: 0, C: 0}  # slow, or clocks apart: who knows


def test_clocks_that_drift_are_set_between_and_their_error_is_told() -> None:
    """Four seconds a day: what was sent there in the morning and back in the evening cannot both be right."""
    drifting = {(A, B): 200, (B, A): 300 - 4_000_000}
    found = offsets(drifting)
    assert found == {A: 0, B: 2_000_000 - 50}
    assert errors(drifting, found) == {A: 1_999_750, B: 1_999_750}


class Looked(dict[tuple[Record, Record], int]):
    """Counts how often all of it is gone through."""

    times = 0

    def items(self) -> ItemsView[tuple[Record, Record], int]:  # type: ignore[override]
        self.times += 1
        return super().items()


def test_drift_among_many_records_is_seen_soon_and_does_not_add_up() -> None:
    records = [(f"n{place:02}", 1) for place in range(40)]
    drift = 1_000_000
    least = Looked({(here, there): 500 - drift for here in records for there in records if here != there})
    found = offsets(least)
    assert least.times <= 5
    assert max(map(abs, found.values())) <= drift
    assert set(errors(least, found).values()) == {drift - 500}


def test_drift_behind_a_record_that_only_sends_ends_the_search() -> None:
    least = Looked({(A, B): 5, (B, C): -10, (C, B): 3})
    found = offsets(least)
    assert least.times <= 3 + 2  # as many passes as records, and a look or two before
    assert errors(least, found)[C] <= 7


def test_offsets_that_suit_all_messages_have_no_error() -> None:
    least = {(A, B): 5_000_301, (B, A): -5_000_000 + 500, (B, C): -70_000_000, (C, A): 65_000_900}
    assert set(errors(least, offsets(least)).values()) == {0}


def test_clocks_that_only_stand_apart_are_always_found() -> None:
    """Whoever spoke with whom: of clocks that do not drift no message is early."""
    for seed in range(200):
        draw = random.Random(seed)
        records = [(f"n{place}", 1) for place in range(draw.randint(2, 7))]
        ahead = {record: draw.randrange(-(10**9), 10**9) for record in records}
        least = {
            (here, there): ahead[there] - ahead[here] + draw.randrange(10**5)
            for here in records
            for there in records
            if here != there and draw.random() < 0.3
        }
        found = offsets(least)
        assert set(errors(least, found).values()) <= {0}, seed
        for here, there in least:
            if (there, here) in least:
                assert abs(found[there] - found[here] - ahead[there] + ahead[here]) <= 2 * 10**5, seed
