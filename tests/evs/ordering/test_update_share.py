"""Line updates keep to their share of a link, however many sites send them."""

from __future__ import annotations

from isotone.evs.ordering.updates import SHARE, UPDATE_PACKET_BYTES, delta_us

SLOW = 10_000  # bytes in a second


def test_the_wait_grows_with_every_other_site() -> None:
    waits = [delta_us(sites=sites, rate_bytes_per_second=SLOW) for sites in (2, 3, 4, 11)]
    assert waits == [waits[0], 2 * waits[0], 3 * waits[0], 10 * waits[0]]


def test_all_updates_together_keep_to_their_share() -> None:
    for sites in (2, 3, 20):
        per_second = 1_000_000 / delta_us(sites=sites, rate_bytes_per_second=SLOW)
        assert per_second * (sites - 1) * UPDATE_PACKET_BYTES <= SLOW / SHARE
