"""What a path says about its queues."""

from __future__ import annotations

from isotone.evs.links.hop.congestion import Congestion
from isotone.evs.links.hop.pacing import Bucket, Timing
from isotone.evs.links.hop.path import PathSigns
from isotone.evs.links.hop.regulator import Permission, Regulator
from isotone.evs.links.hop.settings import HopSettings

BASE = 50_000
PACKET_US = 2_000.0


def after_rounds(*rounds: tuple[int, ...]) -> PathSigns:
    """Round trips of several rounds of a base time each."""
    signs = PathSigns()
    for number, samples in enumerate(rounds):
        for sample in samples:
            signs.sampled(sample, number * BASE)
        signs.end_round((number + 1) * BASE)
    return signs


def test_a_queue_stands_when_even_the_fastest_packet_of_a_round_waited() -> None:
    assert not after_rounds((BASE, BASE + 20_000)).queue_stands(1.0, PACKET_US)
    signs = after_rounds((BASE,), (BASE + 5_000, BASE + 20_000))
    assert signs.queue_us == 5_000 and signs.queue_stands(1.0, PACKET_US)
    assert not signs.queue_stands(2.0, PACKET_US)
    assert not after_rounds((BASE,), (BASE + 3_000,)).queue_stands(1.0, PACKET_US), "a sixteenth is noise"
    assert not after_rounds((BASE,), ()).queue_stands(1.0, PACKET_US), "nothing was measured"


def test_a_loss_beside_a_full_queue_is_an_overflow_and_others_are_chance() -> None:
    full = after_rounds((BASE,), (BASE, BASE + 20_000))
    assert full.judge_loss(PACKET_US)
    empty = after_rounds((BASE,), (BASE, BASE + 1_000))
    assert not empty.judge_loss(PACKET_US)
    half_full = after_rounds((BASE, BASE + 20_000), (BASE,), (BASE, BASE + 10_000))
    assert not half_full.judge_loss(PACKET_US), "it was fuller, and did not overflow"
    assert PathSigns().judge_loss(PACKET_US), "nothing is known"


def test_where_losses_come_without_a_queue_too_all_are_chance() -> None:
    signs = after_rounds((BASE,), (BASE, BASE + 20_000))
    assert signs.judge_loss(PACKET_US)
    for number in range(2, 6):
        signs.sampled(BASE, number * BASE)
        signs.end_round((number + 1) * BASE)
        assert number == 2 or not signs.judge_loss(PACKET_US)
    signs.sampled(BASE + 20_000, 6 * BASE)
    signs.end_round(7 * BASE)
    assert not signs.judge_loss(PACKET_US)


def test_what_the_path_holds_follows_what_is_delivered_unless_losses_are_frequent() -> None:
    signs = PathSigns()
    for number in range(6):
        signs.sampled(BASE, number * BASE)
        signs.delivered(10_000)
        signs.end_round((number + 1) * BASE)
    assert signs.held_bytes == 10_000
    signs.lost()
    assert signs.held_bytes == 0


def test_a_standing_queue_slows_the_leaky_bucket_and_bulk_leaves_a_packet_in_it() -> None:
    settings = HopSettings(rate_bytes_per_second=1_000_000)
    timing = Timing(settings)
    timing.take(BASE, 0)
    regulator = Regulator(settings, timing)
    assert settings.bucket_bytes == 4 * 1_400
    for _ in range(3):
        regulator.refill(0, idle=True)
        assert regulator.fresh(0, urgent=False) is Permission.ANYTHING
        regulator.spend(1_400, 0)
    regulator.refill(0, idle=True)
    assert regulator.fresh(0, urgent=False) is Permission.WAIT_FOR_PACE and regulator.wait_us == 1_400
    assert regulator.fresh(0, urgent=True) is Permission.WHOLE_FRAMES
    congestion = regulator.congestion
    for number, sample in enumerate((BASE, 2 * BASE)):
        congestion.sampled(sample, number)
        congestion.progressed(0, 0, highest_known=number + 1, highest_sent=number + 1, at=number)
    assert congestion.draining
    regulator.refill(0, idle=True)
    assert regulator.fresh(0, urgent=False) is Permission.WAIT_FOR_PACE and regulator.wait_us == 1_556


def test_the_default_burst_lasts_for_a_timer_of_a_millisecond() -> None:
    assert HopSettings(rate_bytes_per_second=100_000_000).bucket_bytes == 100_000
    assert HopSettings(rate_bytes_per_second=100_000_000, burst_bytes=500).bucket_bytes == 1_400
    assert Bucket(rate=1.0, depth=10.0).level == 10.0


def test_a_queue_that_stays_however_much_room_one_makes_is_not_ours() -> None:
    settings = HopSettings()
    timing = Timing(settings)
    timing.take(BASE, 0)
    congestion = Congestion(settings, timing)

    def round_of(number: int, round_trip_us: int) -> float:
        congestion.sent(int(congestion.window))
        congestion.sampled(round_trip_us, number * BASE)
        congestion.progressed(0, 0, highest_known=number, highest_sent=number, at=number * BASE)
        return congestion.window

    round_of(1, BASE)
    for number in (2, 3, 4):  # the test: the queue vanishes, so it is taken for ours
        round_of(number, 2 * BASE if number == 2 else BASE)
    windows = [round_of(number, BASE) for number in range(5, 40)]
    assert windows == sorted(windows)
    while_queued = [round_of(number, 2 * BASE) for number in range(40, 50)]
    assert while_queued[:6] == sorted(while_queued[:6], reverse=True) and while_queued[5] < windows[-1] / 2
    assert while_queued[-1] > while_queued[6], "it grows again, though the queue stands"
