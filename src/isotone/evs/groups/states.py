"""The states of the groups at a daemon, and the reasons for which each is entered.

Implements: [Spread 6.4.1], Figure 6.17.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where the groups are between two daemon views."""

    GOP = "operational"
    GTRANS = "behind the signal"
    GGATHER = "gathering"
    GGT = "gathering, behind the next signal"


class Reason(Enum):
    """Why a state was entered."""

    STARTED = "started, without a daemon view"
    SIGNALLED = "the daemon view ends"
    ALL_CAME_ALONG = "everybody in the new daemon view came along"
    OTHERS_CAME = "others are in the new daemon view"
    GATHERED = "all GROUPS came"
    SIGNALLED_IN_GATHER = "the daemon view ends before all GROUPS came"
    GATHERED_LATE = "all GROUPS came, behind the signal"
    GIVEN_UP = "the daemon view is over and not all GROUPS came"


TRANSITIONS: dict[State, dict[Reason, State]] = {
    State.GOP: {Reason.SIGNALLED: State.GTRANS},
    State.GTRANS: {Reason.ALL_CAME_ALONG: State.GOP, Reason.OTHERS_CAME: State.GGATHER},
    State.GGATHER: {Reason.GATHERED: State.GOP, Reason.SIGNALLED_IN_GATHER: State.GGT},
    State.GGT: {Reason.GATHERED_LATE: State.GOP, Reason.GIVEN_UP: State.GTRANS},
}
"""What each state may become, and why; the states behind GATHERED_LATE and GIVEN_UP are left in the same moment."""
