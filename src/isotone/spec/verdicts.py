"""Verdicts: what the checkers say about one run, property by property.

Implements: [DESIGN 4]. A violation names its witness, a set of event ids; sets are compared as sorted tuples, and of
all witnesses of one property in one run the first is named. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

import msgspec

EventId = tuple[str, int, int]
"""(node, incarnation, index): one row of the trace."""


class State(Enum):
    """What can be said of a property in a run."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_EXERCISED = "not_exercised"
    NOT_JUDGED = "not_judged"


class Violation(msgspec.Struct, frozen=True):
    """A broken promise: which, by which events, and why in words."""

    property: str
    witness: tuple[EventId, ...]
    explanation: str


class Verdict(msgspec.Struct, frozen=True):
    """One property at one boundary; ``violation`` is there exactly when the state is *violated*."""

    state: State
    violation: Violation | None = None


class Report(msgspec.Struct, frozen=True):
    """All verdicts of a run by label, in the order of the properties; ``events`` counts expanded message events.

    ``missing`` are nodes that others name and that have no row: what would need these is *not judged*.
    """

    verdicts: dict[str, Verdict]
    rows: int = 0
    events: int = 0
    missing: tuple[str, ...] = ()

    @property
    def violations(self) -> dict[str, Violation]:
        """The broken properties by label."""
        return {label: verdict.violation for label, verdict in self.verdicts.items() if verdict.violation is not None}

    def labels(self, state: State) -> tuple[str, ...]:
        """The labels with this verdict."""
        return tuple(label for label, verdict in self.verdicts.items() if verdict.state is state)
