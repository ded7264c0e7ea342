"""Packets that were read in one wake-up, and what becomes one event."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isotone.daemon.sockets import _Runs

SOURCES = [("127.0.0.1", 1), ("127.0.0.1", 2)]
Read = tuple[tuple[str, int], int, int]
"""Who sent it, how many packets of one size the kernel joined, their size; of several the last may be shorter."""


def packets(read: Read) -> list[int]:
    _, count, size = read
    return [size] * (count - 1) + [max(1, size // 2)] if count > 1 else [size]


@given(st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(1, 3), st.integers(1, 3).map(lambda n: 100 * n))))
def test_every_packet_is_found_again_with_its_sender_and_its_size(reads: list[Read]) -> None:
    runs = _Runs()
    for read in reads:
        sizes = packets(read)
        runs.add(read[0], sum(sizes), sizes[0])
    found = []
    for source, start, end, width in runs.found:
        found += [(source, min(width, end - at)) for at in range(start, end, width)]
    assert found == [(read[0], size) for read in reads for size in packets(read)]
    assert runs.datagrams == len(found) and runs.reads == len(reads)


def test_a_train_and_the_token_behind_it_are_one_event() -> None:
    runs = _Runs()
    for size in (60_000, 60_000, 60_000, 90):
        runs.add(SOURCES[0], size, size)
    runs.add(SOURCES[1], 60_000, 60_000)
    assert runs.found == [(SOURCES[0], 0, 180_090, 60_000), (SOURCES[1], 180_090, 240_090, 60_000)]


def test_an_empty_packet_says_nothing() -> None:
    runs = _Runs()
    runs.add(SOURCES[0], 0, 0)
    assert (runs.found, runs.datagrams, runs.reads) == ([], 1, 1)
