"""The check of every message: what is lost, doubled, moved or altered must be found, and nothing else."""

from __future__ import annotations

import select
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.bench.lan.latency import Echoes, percentiles
from isotone.bench.lan.schedule import TICK_NS, Pace, Ticks
from isotone.bench.lan.traffic import Heard, OrderBroken, batch_of, circle, end_of, is_end, window_of

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


def test_a_rate_has_one_moment_in_a_millisecond_and_makes_good_what_it_is_behind() -> None:
    pace = Pace(1500.0, 64, 10 * TICK_NS)
    assert [pace.due(now * TICK_NS) for now in (10, 10, 11)] == [0, 0, 1]
    assert pace.due(11 * TICK_NS + TICK_NS // 2) == 1, "nothing more is due before the next moment"
    assert pace.take(1, 11 * TICK_NS + 7) == [(1, 11 * TICK_NS)], "timed from when it was due, not from now"
    assert pace.due(11 * TICK_NS + 9) == 0
    assert pace.due(14 * TICK_NS + 1) == 5
    assert pace.take(2, 14 * TICK_NS + 1) == [(3, 12 * TICK_NS), (4, 13 * TICK_NS), (6, 14 * TICK_NS)]
    assert pace.due(14 * TICK_NS + 2) == 3, "what was not taken stays due"
    assert pace.take(3, 14 * TICK_NS + 2) == []
    assert pace.due(1000 * TICK_NS) == 64, "a batch at a time"


def test_a_gap_of_a_millisecond_is_one_message_at_every_moment() -> None:
    pace = Pace(1 / 0.001, 64, 0)
    for tick in range(1, 2000):
        assert pace.due(tick * TICK_NS) == 1
        assert pace.take(1, tick * TICK_NS) == [(tick, tick * TICK_NS)]


def test_without_a_rate_a_batch_is_due_whenever_it_is_asked_for() -> None:
    pace = Pace(0.0, 64, 0)
    assert pace.due(5) == 64
    assert pace.take(60, 5) == [(60, 5)]
    assert pace.take(64, 9) == [(124, 9)]


def test_ticks_are_readable_when_a_moment_came_and_not_again_before_the_next() -> None:
    ticks = Ticks(time.monotonic_ns() - 5 * TICK_NS)
    try:
        poll = select.poll()
        poll.register(ticks.descriptor, select.POLLIN)
        for _ in range(3):
            assert poll.poll(10_000), "a moment came"
            ticks.clear()
    finally:
        ticks.close()


def test_what_was_due_is_timed_from_then_until_all_of_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100, 200, 300])
    monkeypatch.setattr("isotone.bench.lan.latency.time.monotonic_ns", lambda: next(clock))
    echoes = Echoes()
    echoes.expect([(3, 10)])
    echoes.came(2)
    assert echoes.taken_ns == []
    echoes.expect([(4, 20), (5, 30)])
    echoes.came(2)
    assert echoes.taken_ns == [190, 180]
    echoes.came(1)
    assert echoes.sorted_us() == [0.18, 0.19, 0.27]


def test_a_window_is_bounded_by_messages_and_by_bytes() -> None:
    assert window_of(64) == 131_072
    assert window_of(8192) == 1024
    assert window_of(65_536) * 65_536 == 8 * 1024 * 1024
    assert all(window_of(size) >= 2 * batch_of(size) for size in (64, 1024, 8192, 65_536))


def test_without_order_messages_may_overtake_each_other_but_none_is_lost_or_made_up() -> None:
    bodies = circle(0, SIZE)[:10]
    heard = Heard([0], SIZE, ordered=False)
    heard.take(0, [bodies[4], bodies[1]])
    heard.end(end_of(0, 3))
    before = heard.is_over
    heard.take(0, [bodies[0]])
    assert (before, heard.is_over) == (False, True), "one was still on its way"
    for false in (b"x" * SIZE, b"x", bodies[0][:-1] + b"!"):
        with pytest.raises(OrderBroken, match="never sent"):
            heard.take(0, [false])


def test_percentiles_are_by_the_nearest_rank() -> None:
    assert percentiles([float(place) for place in range(1000)]) == {"p50": 500.0, "p99": 990.0, "p999": 999.0}
    assert percentiles([7.0]) == {"p50": 7.0, "p99": 7.0, "p999": 7.0}
