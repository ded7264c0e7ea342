"""The check of every message: what is lost, doubled, moved or altered must be found, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.bench.lan.latency import Echoes, percentiles
from isotone.bench.lan.traffic import Heard, OrderBroken, Pace, batch_of, circle, end_of, is_end

SIZE = 64


def test_the_bodies_of_a_circle_differ_and_have_their_size() -> None:
    for size in (17, 64, 8192, 65_536):
        bodies = circle(0, size)
        assert len(set(bodies)) == len(bodies)
        assert {len(body) for body in bodies} == {size}
        assert len(bodies) % batch_of(size) == 0 or batch_of(size) > len(bodies)
        assert not any(map(is_end, bodies))
    assert not set(circle(0, SIZE)) & set(circle(1, SIZE))


def test_what_was_sent_is_accepted_in_any_portions_and_around_the_circle() -> None:
    bodies = circle(0, SIZE)
    heard = Heard([0], SIZE)
    whole = bodies * 2 + bodies[:7]
    start = 0
    for portion in (1, 3, len(bodies) + 5, len(whole)):
        heard.take(0, whole[start : start + portion])
        start += portion
    heard.end(end_of(0, len(whole)))
    assert heard.is_over
    assert heard.total == len(whole)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda bodies: bodies[:3] + bodies[4:], id="lost"),
        pytest.param(lambda bodies: bodies[:4] + bodies[3:], id="doubled"),
        pytest.param(lambda bodies: [*bodies[:3], bodies[4], bodies[3], *bodies[5:]], id="moved"),
        pytest.param(lambda bodies: [*bodies[:3], b"x" * SIZE, *bodies[4:]], id="altered"),
    ],
)
def test_a_stream_that_is_not_what_was_sent_is_found(broken: object) -> None:
    bodies = circle(0, SIZE)[:20]
    assert callable(broken)
    with pytest.raises(OrderBroken, match="sender 0"):
        Heard([0], SIZE).take(0, broken(bodies))


def test_a_lost_end_of_the_stream_is_found() -> None:
    heard = Heard([0], SIZE)
    heard.take(0, circle(0, SIZE)[:9])
    with pytest.raises(OrderBroken, match="sent 10 messages, 9 came"):
        heard.end(end_of(0, 10))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=40))
def test_the_digest_is_of_the_order_and_not_of_the_portions(order: list[int]) -> None:
    one, other = Heard([0, 1, 2], SIZE), Heard([0, 1, 2], SIZE)
    counts = [0, 0, 0]
    circles = [circle(sender, SIZE) for sender in range(3)]
    run: list[tuple[int, list[bytes]]] = []
    for sender in order:
        body = circles[sender][counts[sender]]
        counts[sender] += 1
        one.take(sender, [body])
        if run and run[-1][0] == sender:
            run[-1][1].append(body)
        else:
            run.append((sender, [body]))
    for sender, bodies in run:
        other.take(sender, bodies)
    assert one.digest == other.digest


def test_another_order_of_the_same_messages_has_another_digest() -> None:
    first, second = circle(0, SIZE)[0], circle(1, SIZE)[0]
    one, other = Heard([0, 1], SIZE), Heard([0, 1], SIZE)
    one.take(0, [first])
    one.take(1, [second])
    other.take(1, [second])
    other.take(0, [first])
    assert one.digest != other.digest


def test_a_pace_makes_good_what_it_is_behind_and_a_gap_does_not() -> None:
    pace = Pace(1000.0, 0.0, 64, began=10.0)
    assert [pace.due(10.0), pace.due(10.0035), pace.due(10.0036), pace.due(11.0)] == [0, 3, 0, 64]
    gap = Pace(0.0, 0.001, 64, began=10.0)
    assert [gap.due(10.0), gap.due(10.0005), gap.due(10.5), gap.due(10.5)] == [1, 0, 1, 0]
    assert Pace(0.0, 0.0, 64, began=10.0).due(10.0) == 64


def test_what_was_handed_over_is_timed_until_all_of_it_is_back() -> None:
    echoes = Echoes()
    echoes.given(3)
    echoes.came(2)
    assert echoes.taken_ns == []
    echoes.given(2)
    echoes.came(2)
    assert len(echoes.taken_ns) == 1
    echoes.came(1)
    assert len(echoes.sorted_us()) == 2


def test_percentiles_are_by_the_nearest_rank() -> None:
    assert percentiles([float(place) for place in range(1000)]) == {"p50": 500.0, "p99": 990.0, "p999": 999.0}
    assert percentiles([7.0]) == {"p50": 7.0, "p99": 7.0, "p999": 7.0}
