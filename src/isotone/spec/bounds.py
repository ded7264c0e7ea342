"""Promised time bounds: functions of settings and fault parameters, with their derivations; runs report observed/bound.

Each protocol's page derives its bound; here it is a value that can be evaluated and compared with what a run took.

Implements: [DESIGN 1], "Time bounds that we promise". Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from isotone.spec.oracle.settings import OracleSettings

Parameters = TypeVar("Parameters")


class BoundReport(msgspec.Struct, frozen=True):
    """How long something took in a run, and how long it may take."""

    name: str
    observed_us: int
    bound_us: int

    @property
    def ratio(self) -> float:
        """Observed over bound: over 1 the promise is broken."""
        return self.observed_us / self.bound_us

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return self.observed_us <= self.bound_us


@dataclass(frozen=True)
class Bound(Generic[Parameters]):
    """A promised time: its name, why it is right, and how long it is for given parameters."""

    name: str
    derivation: str
    function: Callable[[Parameters], int]

    def report(self, parameters: Parameters, *, observed_us: int) -> BoundReport:
        """Compare what was observed with the bound for these parameters."""
        bound_us = self.function(parameters)
        assert bound_us > 0, f"{self.name}: a bound is a positive time"
        return BoundReport(self.name, observed_us, bound_us)


def _oracle_settles(settings: OracleSettings) -> int:
    return settings.settle_within_us


ORACLE_SETTLES: Bound[OracleSettings] = Bound(
    name="oracle settles",
    derivation=(
        "Two rounds of forming daemon views, because the first may find daemons in transition, and eight steps of a "
        "daemon: end the old transition, make the new one, merge group states, stamp, deliver, and three for SAFE "
        "bundles to become stable and be delivered."
    ),
    function=_oracle_settles,
)
"""From the last fault and the last request of a stable run until nothing is left to do."""
