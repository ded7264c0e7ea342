"""Settings that make no sense are refused in words."""

from __future__ import annotations

import pytest

from isotone.core.errors import InputError
from isotone.detector.settings import DetectorSettings, keep_alive_interval_us


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"keep_alive_us": 0}, "keep_alive_us must be at least 1"),
        ({"silence_floor_us": 20_000_000}, "silence_floor_us is above silence_ceiling_us"),
        ({"confirm_floor_us": 3_000_000}, "confirm_floor_us is above confirm_ceiling_us"),
        ({"one_way_floor_us": 40_000_000}, "one_way_floor_us is above one_way_ceiling_us"),
        ({"probes_min": 3}, "probes_min must lie between 4 and probes_max"),
        ({"probes_max": 7}, "probes_min must lie between 4 and probes_max"),
        ({"all_lost_ppm": -1}, "all_lost_ppm"),
        ({"pause_min_us": 300_000}, "pause_min_us is above pause_max_us"),
        ({"hold_off_min_us": 11_000_000}, "hold_off_min_us is above"),
        ({"fast_probe_us": 300_000}, "must not decrease"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DetectorSettings(**wrong)


def test_the_keep_alive_interval_grows_with_the_number_of_peers_up_to_half_the_ceiling() -> None:
    settings = DetectorSettings()
    assert [keep_alive_interval_us(settings, peers) for peers in (0, 1, 8, 9, 100, 10_000)] == [
        250_000,
        250_000,
        250_000,
        270_000,
        3_000_000,
        5_000_000,
    ]
