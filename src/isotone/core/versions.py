"""Versions of what outlives one program: the wire, the trace, logs and archives follow one rule.

Each daemon announces a range; those who work together use the highest version that all of them know. Until a common
version is known a daemon speaks the lowest of its own range. Only disjoint ranges are refused.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from isotone.core.errors import LocalProtocolError

VERSION_MAX = 255


class VersionRange(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """All versions ``low`` … ``high``, both included."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"


PROTOCOL_VERSIONS = VersionRange(1, 1)
"""The versions of the wire that this program speaks."""


def version_range(low: int, high: int) -> VersionRange:
    """A range that makes sense, or say why it does not."""
    if not 1 <= low <= high <= VERSION_MAX:
        raise LocalProtocolError(f"a range of versions lies in 1 to {VERSION_MAX}, low end first: {low} to {high}")
    return VersionRange(low, high)


def highest_common(ranges: Iterable[VersionRange]) -> int | None:
    """The version that a daemon view of daemons with these ranges runs at; None when they have none in common."""
    low, high = 1, 0
    for count, each in enumerate(ranges):
        low, high = (each.low, each.high) if count == 0 else (max(low, each.low), min(high, each.high))
    return high if low <= high else None
