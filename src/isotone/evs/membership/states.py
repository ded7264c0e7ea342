"""The six states, why each is entered, and how a daemon stands: for people, metrics and `explain`.

Implements: [Spread 6.1.1]. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core.ids import DaemonViewId


class State(Enum):
    """Where the membership stands [Spread 6.1.1]."""

    OP = "operational"
    SEG = "looking for others in the site"
    REP = "represented by another daemon of the site"
    GATHER = "gathering representatives"
    STATETRANS = "exchanging states"
    EVS = "recovering messages"


class Reason(Enum):
    """Why a state was entered; each entry names one, and is counted under it."""

    # OP
    STARTED_ALONE = "started: the first view is oneself"
    INSTALLED = "a daemon view was installed"
    NOTHING_FOUND = "gathered, and nothing could be added"
    LEFT_TO_SMALLER = "gathered, and a smaller representative did not take us yet"
    # SEG
    STARTED = "started: looking for others before the first view"
    LINK_FAILED = "a link failed"
    MEMBER_SUSPECTED = "a member is suspected"
    MEMBER_RESTARTED = "a member is there in a later incarnation"
    MEMBER_LEFT = "a member says that it left the daemon view"
    MEMBER_STOPPED = "a member said good-bye"
    MEMBER_REFUSED = "a member is refused"
    STATE_MALFORMED = "a member told a state that cannot be"
    STATE_TIMEOUT = "the exchange made no progress"
    REFUSED_BY_MEMBER = "a member refused the daemon view"
    REPRESENTATIVE_SILENT = "the representative of the site fell silent"
    REPRESENTATIVE_LOST = "the representative of the site is not reached any more"
    REPRESENTATIVE_DECLINES = "the representative of the site cannot take us along"
    # REP
    SMALLER_IN_SITE = "a smaller daemon of the site represents it"
    JOIN_IN_SITE = "the representative of the site gathers"
    # GATHER
    REACHED_OTHERS = "daemons outside of the daemon view are reached"
    JOIN_RECEIVED = "another representative gathers"
    SMALLEST_IN_SITE = "the smallest of its site after a loss"
    GATHER_AGAIN = "the last gathering led to nothing"
    # STATETRANS
    FORMED = "formed a daemon view as its coordinator"
    NEWMEMB_RECEIVED = "a coordinator formed a daemon view"
    # EVS
    STATES_COMPLETE = "the states of all members are here"


class Entered(msgspec.Struct, frozen=True, gc=False):
    """A state that was entered, why, and whose fault the loss was, if it was one."""

    state: State
    reason: Reason
    culprit: str


class Exclusion(msgspec.Struct, frozen=True, gc=False):
    """Who is not in the daemon view, and which evidence speaks for that."""

    daemon: str
    evidence: str
    since: int  # this node's time


class Standing(msgspec.Struct, frozen=True, gc=False):
    """How a daemon stands, as one value."""

    state: State
    reason: Reason
    since: int
    view: DaemonViewId
    forming: DaemonViewId | None
    waiting_for: tuple[str, ...]  # daemon names without which the present state does not end
    waiting_text: str
    exclusions: tuple[Exclusion, ...]
    refusals: tuple[Exclusion, ...]  # whom we refuse, or who refuses us, and why
    doubts: int  # how often this daemon doubted itself
    entries: tuple[tuple[Reason, int], ...]  # how often each reason led to a state
