from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isotone.core.bundles import MESSAGES_MAX
from isotone.core.codec.bundle import ENTRY_BYTES
from isotone.evs.sessions.submission import cuts


def dumb_cuts(sizes: list[int], bundle_bytes_max: int, packed_bytes_max: int) -> list[tuple[int, int]]:
    """One by one: a piece ends before the message that has no place in it."""
    out: list[tuple[int, int]] = []
    start = payload = 0
    for place, size in enumerate(sizes):
        count = place - start + 1
        full = payload + size > bundle_bytes_max or payload + size + ENTRY_BYTES * count > packed_bytes_max
        if place > start and (full or count > MESSAGES_MAX):
            out.append((start, place))
            start, payload = place, 0
        payload += size
    return [*out, (start, len(sizes))]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 500), st.integers(ENTRY_BYTES + 1, 700))
def test_the_cut_by_search_is_the_cut_one_by_one(
    sizes: list[int], bundle_bytes_max: int, packed_bytes_max: int
) -> None:
    found = list(cuts(sizes, bundle_bytes_max=bundle_bytes_max, packed_bytes_max=packed_bytes_max))
    assert found == dumb_cuts(sizes, bundle_bytes_max, packed_bytes_max)


def test_no_piece_has_more_messages_than_a_bundle_may() -> None:
    found = list(cuts([0] * (2 * MESSAGES_MAX + 5), bundle_bytes_max=100, packed_bytes_max=1 << 30))
    assert [end - start for start, end in found] == [MESSAGES_MAX, MESSAGES_MAX, 5]
