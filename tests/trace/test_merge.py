from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from isotone.core.services import Service
from isotone.trace.events import (
    DaemonDelivered,
    DaemonSent,
    Delivered,
    Ended,
    Entry,
    Gap,
    NetworkReceived,
    NetworkSent,
    Row,
    Sent,
)
from isotone.trace.merge import Stream, merge
from tests.trace.rows import delivered, sends, sent


def streams(*records: Iterable[Row]) -> list[Stream]:
    lists = [list(record) for record in records]
    return [Stream(frozenset(row.node for row in rows), iter(rows)) for rows in lists]


def places(rows: Iterable[Row]) -> list[tuple[str, int]]:
    return [(row.node, row.index) for row in rows]


def test_by_time() -> None:
    first = [sent("d1", 0, at=10), sent("d1", 1, at=30)]
    second = [sent("d2", 0, at=20), sent("d2", 1, at=40)]
    assert places(merge(streams(first, second))) == [("d1", 0), ("d2", 0), ("d1", 1), ("d2", 1)]
    assert places(merge(streams(first))) == [("d1", 0), ("d1", 1)]
    assert places(merge([])) == []


def test_a_delivery_waits_for_its_send_whatever_the_clocks_say() -> None:
    receiver = [delivered("d1", 0, "d2", 1, at=5), sent("d1", 1, 1, at=6)]
    sender = [sent("d2", 0, 1, at=1000), sent("d2", 1, 2, at=1001)]
    assert places(merge(streams(receiver, sender))) == [("d2", 0), ("d1", 0), ("d1", 1), ("d2", 1)]


def test_a_delivery_at_the_senders_own_node_waits_for_nothing() -> None:
    assert places(merge(streams([delivered("d1", 0, "d1", 1)], sends(1, "d2")))) == [("d1", 0), ("d2", 0)]


def test_nobody_waits_for_a_record_with_a_gap_or_that_ended() -> None:
    gap = [Row("d2", 1, 0, 1, Gap(1)), sent("d2", 1, 2, at=1000)]
    assert places(merge(streams([delivered("d1", 0, "d2", 1, at=5)], gap))) == [("d2", 0), ("d1", 0), ("d2", 1)]
    short = [sent("d2", 0, 1, at=1000)]
    assert places(merge(streams([delivered("d1", 0, "d2", 9, at=5)], short))) == [("d2", 0), ("d1", 0)]
    assert places(merge(streams([delivered("d1", 0, "d9", 1)], sends(1, "d2")))) == [("d1", 0), ("d2", 0)]


def test_records_that_wait_for_each_other_come_out_all_the_same() -> None:
    first = [delivered("d1", 0, "d2", 1, at=5), sent("d1", 1, 1, at=6)]
    second = [delivered("d2", 0, "d1", 1, at=4), sent("d2", 1, 1, at=6)]
    assert places(merge(streams(first, second))) == [("d2", 0), ("d2", 1), ("d1", 0), ("d1", 1)]


def test_the_driver_of_faults_speaks_last_at_its_time() -> None:
    driver = [Row("", 0, 0, 10, Ended(True))]
    assert places(merge(streams(driver, [sent("d1", 0, at=10)]))) == [("d1", 0), ("", 0)]


def test_a_delivery_of_a_later_message_waits_on() -> None:
    receiver = [delivered("d1", 0, "d2", 2, at=5)]
    sender = [sent("d2", 0, 1, at=10), sent("d2", 1, 2, at=20), sent("d2", 2, 3, at=30)]
    assert places(merge(streams(receiver, sender))) == [("d2", 0), ("d2", 1), ("d1", 0), ("d2", 2)]


def test_daemons_and_the_network() -> None:
    one = (Service.FIFO, (1,), (1,))
    pairs: list[tuple[Entry, Entry]] = [
        (DaemonSent("d2#1", 1, *one), DaemonDelivered("d1#1", "d2#1", 1, *one, 1, "d2#1")),
        (NetworkSent("d2#1", "n", 1, 7), NetworkReceived("d1#1", "n", "d2#1", 1, 7)),
    ]
    for sending, receiving in pairs:
        merged = merge(streams([Row("d1", 1, 0, 0, receiving)], [Row("d2", 1, 0, 1000, sending)]))
        assert places(merged) == [("d2", 0), ("d1", 0)]


@st.composite
def runs(draw: st.DrawFn) -> list[list[Row]]:
    """A run of three nodes with clocks that have nothing to do with each other; deliveries follow their sends."""
    records: dict[str, list[Row]] = {"d1": [], "d2": [], "d3": []}
    clocks = {node: draw(st.integers(0, 500)) for node in records}
    count = dict.fromkeys(records, 0)
    for node, other in draw(st.lists(st.tuples(st.sampled_from(sorted(records)), st.sampled_from(sorted(records))))):
        clocks[node] += draw(st.integers(0, 50))
        index = len(records[node])
        if node == other or not count[other]:
            count[node] += 1
            records[node].append(sent(node, index, count[node], at=clocks[node]))
        else:
            sequence = draw(st.integers(1, count[other]))
            records[node].append(delivered(node, index, other, sequence, at=clocks[node]))
    return [record for record in records.values() if record]


@given(runs())
def test_every_row_once_in_its_nodes_order_and_sends_first(records: list[list[Row]]) -> None:
    merged = list(merge(streams(*records)))
    for record in records:
        assert [row for row in merged if row.node == record[0].node] == record
    seen: set[tuple[str, int]] = set()
    for row in merged:
        if isinstance(row.entry, Sent):
            seen.add((row.entry.client, row.entry.first_sequence))
        elif isinstance(row.entry, Delivered):
            assert (row.entry.sender, row.entry.first_sequence) in seen
