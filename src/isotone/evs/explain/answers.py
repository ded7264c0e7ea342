"""What an answer is made of: one line of text, and the same as parts. All of it can be encoded as JSON."""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.detector.evidence import Evidence


class MessageStage(Enum):
    """How far a message has come at this daemon."""

    UNKNOWN = "unknown"
    QUEUED = "queued"  # taken from its client; no daemon view takes it yet
    UNSTAMPED = "unstamped"  # in a daemon view, without a place in the order
    MISSING = "missing"  # it has a place, or may have one, and has not come here
    WAITING = "waiting"  # it is here and may not be delivered yet
    OWED = "owed"  # its daemon view ended; what becomes of it is settled when the next is installed
    HELD = "held"  # the groups hold it
    DELIVERED = "delivered"


class Wait(Enum):
    """What something waits for."""

    DAEMON_VIEW = "daemon view"
    DAEMON = "daemon"
    GROUPS = "groups"  # the GROUPS of a daemon
    JOIN = "join"  # a join, leave or kill before it, which is not everywhere
    READER = "reader"  # clients that do not read; their groups take nothing for now
    WINDOW = "window"  # too much of what this daemon stamped is not everywhere yet
    LINK = "link"
    TOKEN = "token"
    TURN = "turn"  # others are before it
    SEQUENCE = "sequence"  # a unit of a site that has not come
    CONTENT = "content"  # metadata came, the content is owed
    LINE = "line"  # a site has not said that it stamps nothing earlier any more
    ACKNOWLEDGEMENT = "acknowledgement"  # a site has not said that all its daemons have it
    ORDER = "order"  # a SAFE unit before it that waits
    SESSION = "session"  # the unit before it in its session
    PAST = "past"  # its causal past
    FRAGMENTS = "fragments"  # the rest of a large message


class Blocker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is waited for. Times are this daemon's; ``until`` is when something happens at the latest."""

    wait: Wait
    text: str
    site: str = ""
    daemons: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()  # ids of clients that do not read
    sequence: int | None = None  # in the site's stream
    lamport: int | None = None  # the time up to which a line or an acknowledgement is missing
    since: int | None = None
    until: int | None = None


class MessageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message is not delivered here yet. The first blocker is the nearest one."""

    text: str
    message: str
    place: MessageStage
    daemon_view: str
    service: str = ""
    stamp: str = ""
    groups: tuple[str, ...] = ()
    """To which it was sent, where that is known here; of one that is held behind others, those of the first of them."""
    blockers: tuple[Blocker, ...] = ()


class Penalty(msgspec.Struct, frozen=True):
    """A daemon that came and went counts as not reached until then, unless it answers often enough before."""

    daemon: str
    until: int
    strikes: int
    answers: int


class ViewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where the membership stands, whom it waits for, and what happens next at the latest when."""

    text: str
    state: str
    reason: str
    culprit: str
    since: int
    ended_at: int | None  # when the last daemon view ended, if none works
    daemon_view: str  # the last that was installed
    members: tuple[str, ...]
    is_working: bool  # whether that one works
    forming: str  # the one that forms, if any
    waiting_for: tuple[Blocker, ...]
    next_step: str
    next_at: int | None
    penalties: tuple[Penalty, ...]
    groups_state: str
    groups_missing: tuple[str, ...]


class Ruling(Enum):
    """Whether a daemon is with us, and if not, the kind of the first reason against it."""

    OURSELVES = "ourselves"
    MEMBER = "member"
    LEAVING = "leaving"  # of the daemon view that ended; what comes next is not settled
    UNKNOWN = "unknown"
    REMOVED = "removed"
    REFUSED = "refused"
    REFUSES = "refuses"
    GONE = "gone"
    SUSPECTED = "suspected"
    UNPROVEN = "unproven"
    PENALTY = "penalty"
    UNREACHED = "unreached"  # somebody of the daemon view and it do not reach each other
    VERSION = "version"
    ELSEWHERE = "elsewhere"
    COMING = "coming"


class ExclusionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a daemon is not in the daemon view, with the evidence and its times."""

    text: str
    daemon: str
    ruling: Ruling
    since: int | None = None
    until: int | None = None  # when something happens at the latest
    evidence: tuple[Evidence, ...] = ()
    unreached: tuple[tuple[str, str], ...] = ()  # pairs: the first says that it does not reach the second
    attached: str = ""  # the daemon view that it says it is in
    silent_us: int | None = None
