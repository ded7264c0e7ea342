"""When a hop link may send: what is left in the leaky bucket is for copies and fresh messages, not for bulk."""

from __future__ import annotations

from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.regulator import Permission, Regulator
from isotone.evs.links.hop.settings import HopSettings

SETTINGS = HopSettings(packet_bytes=1_000, rate_bytes_per_second=1_000_000, burst_bytes=3_000)


def spent(packets: float) -> Regulator:
    """So much of the bucket is used, and the pace is no obstacle."""
    regulator = Regulator(SETTINGS, Timing(SETTINGS))
    regulator.refill(0, idle=True)
    assert regulator._limit is not None
    regulator._limit.take(int(packets * SETTINGS.packet_bytes))
    return regulator


def test_the_last_packet_of_the_bucket_is_for_copies_and_fresh_messages() -> None:
    regulator = spent(2)
    assert regulator.copy() is Permission.ANYTHING
    assert regulator.fresh(0, urgent=True) is Permission.WHOLE_FRAMES
    assert regulator.fresh(0, urgent=False) is Permission.WAIT_FOR_PACE
    assert regulator.wait_us == 1_000, "until there are two"


def test_without_a_whole_packet_nothing_leaves() -> None:
    regulator = spent(2.5)
    assert regulator.copy() is Permission.WAIT_FOR_PACE and regulator.wait_us == 500
