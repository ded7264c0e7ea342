"""The highest common version, and None only for disjoint ranges."""

from __future__ import annotations

from itertools import product

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.core.versions import PROTOCOL_VERSIONS, VersionRange, highest_common, version_range


def test_the_highest_common_version_against_the_definition() -> None:
    ranges = [VersionRange(low, high) for low in range(1, 5) for high in range(low, 5)]
    for chosen in product(ranges, repeat=3):
        common = set.intersection(*(set(range(each.low, each.high + 1)) for each in chosen))
        assert highest_common(chosen) == (max(common) if common else None)


def test_nobody_has_no_version_and_one_alone_speaks_its_highest() -> None:
    assert highest_common([]) is None
    assert highest_common([VersionRange(2, 7)]) == 7
    assert highest_common(iter([VersionRange(1, 3), VersionRange(3, 4)])) == 3


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 2), (1, 256), (-1, -1)])
def test_a_range_that_makes_no_sense_is_refused(low: int, high: int) -> None:
    with pytest.raises(LocalProtocolError):
        version_range(low, high)


def test_a_range_says_what_it_holds() -> None:
    assert version_range(1, 255) == VersionRange(1, 255)
    assert version_range(3, 3) == VersionRange(3, 3)
    assert 3 in VersionRange(3, 4) and 5 not in VersionRange(3, 4) and 2 not in VersionRange(3, 4)
    assert str(VersionRange(3, 4)) == "3 to 4"
    assert str(VersionRange(3, 3)) == "3"
    assert PROTOCOL_VERSIONS.high in PROTOCOL_VERSIONS
