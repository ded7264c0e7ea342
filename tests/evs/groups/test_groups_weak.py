"""RELIABLE, FIFO and CAUSAL bundles that overtake a join [Spread 2.17]."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.services import Service
from tests.evs.groups.bench import A1, A2, B1, D1, D2, Bench, started


def joining() -> tuple[Bench, object]:
    """a2 is in g; a1 asked to join, its join is stamped and not delivered here yet."""
    bench = started(A1, B1, members=(D1, D2))
    bench.units(bench.joining(A2))
    bench.ask(A1, b4.Join("g"))
    return bench, bench.stamp("join")


def test_what_its_sender_sent_behind_the_join_waits_for_it() -> None:
    bench, join = joining()
    early = bench.sending(A2, "early", Service.RELIABLE, before=(4, 0))  # a2 had seen the join at time 4
    assert bench.units(early) == []
    assert bench.units(join) == ["a1: view g 1@4d1 [a1 a2 | a1] join a1", "a1: early from a2 at 5"]


def test_what_was_sent_before_it_does_not_wait() -> None:
    bench, join = joining()
    bench.units(bench.sending(A2, "h", Service.FIFO, ("#b#d1",), before=(3, 1)))
    assert bench.actions
    bench.units(join)


def test_later_bundles_of_the_sender_do_not_overtake_the_one_that_waits() -> None:
    bench, join = joining()
    one = bench.sending(A2, "one", Service.RELIABLE, before=(4, 0))
    two = bench.sending(A2, "two", Service.FIFO, ("#b#d1", "g"), before=(4, 0))
    assert bench.units(one, two) == []
    assert bench.units(join)[1:] == ["a1: one from a2 at 5", "b1 a1: two from a2 at 6"]


def test_without_a_join_under_way_nothing_waits() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A1))
    assert bench.units(bench.sending(A2, "x", Service.CAUSAL, before=(99, 0))) == ["a1: x from a2 at 4"]


def test_unreliable_bundles_do_not_wait() -> None:
    bench, _ = joining()
    assert bench.units(bench.sending(A2, "x", Service.UNRELIABLE, ("#b#d1",), before=(4, 0))) == ["b1: x from a2 at 5"]


def test_what_waits_is_delivered_before_anything_agreed_behind_it() -> None:
    """The agreed past is lost behind the signal: the bundle keeps its place in the order."""
    bench = started(A1, B1, members=(D1, D2))
    bench.units(bench.joining(B1))
    bench.ask(A1, b4.Join("h"))
    early = bench.sending(A2, "early", Service.RELIABLE, before=(4, 1))
    bench.units(early)
    bench.signal(2, D1)
    assert bench.units(bench.sending(A2, "late", Service.RELIABLE, before=(9, 1)), bench.sending(B1, "agreed")) == [
        "b1: early from a2 at 4",
        "b1: late from a2 at 5",
        "b1: signal g 1@3d1",
        "b1: agreed from b1 at 6",
    ]


def test_what_still_waits_at_the_end_of_a_daemon_view_is_delivered_in_it() -> None:
    bench = started(A1, B1, members=(D1, D2))
    bench.units(bench.joining(B1))
    bench.ask(A1, b4.Join("h"))
    bench.units(bench.sending(A2, "early", Service.RELIABLE, before=(9, 1)))
    bench.signal(2, D1)
    assert bench.view(2, D1) == ["b1: early from a2 at 4"]
