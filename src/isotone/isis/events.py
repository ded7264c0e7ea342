"""What an application at a site asks of its kernel, and what it hears: events in, actions out.

Implements: [ISIS 3], the interface. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

from isotone.core.contract import Action, Event
from isotone.isis.wire import GroupView, SiteView


class Primitive(Enum):
    """How a message was sent."""

    ABCAST = "abcast"
    CBCAST = "cbcast"
    GBCAST = "gbcast"


# --- asked ---------------------------------------------------------------------------------------------------------


class JoinWanted(Event, frozen=True, gc=False):
    """A process of this site wants to be a member of the group; it exists from then on."""

    process: str
    group: str


class LeaveWanted(Event, frozen=True, gc=False):
    """It wants to leave the group."""

    process: str
    group: str


class ProcessEnded(Event, frozen=True, gc=False):
    """The process failed; the site is well."""

    process: str


class BroadcastWanted(Event, frozen=True, gc=False):
    """A process sends to all members of a group.

    ``label`` is the queue of an ABCAST, or the chain of a CBCAST: with ``number`` its place there; without, a logical
    clock orders it behind all that the process could know of. ``number`` < 0: no order at all (minimal broadcast).
    ``causal``: an ABCAST of the empty label, behind all that the process could know of (causal atomic broadcast).
    ``token`` names the request in `BroadcastDone`, 0: nobody asks. ``call``: answers are wanted.
    """

    process: str
    group: str
    primitive: Primitive
    body: bytes
    label: str = ""
    number: int = 0
    uniform: bool = False
    token: int = 0
    call: bool = False
    causal: bool = False


class FlushWanted(Event, frozen=True, gc=False):
    """Tell when every CBCAST that this site knows of is at its destinations [ISIS 4.5]."""

    token: int


class AnswerGiven(Event, frozen=True, gc=False):
    """A process replies to a call that it was delivered."""

    process: str
    message: str
    body: bytes


# --- heard ---------------------------------------------------------------------------------------------------------


class Deliver(Action, frozen=True, gc=False):
    """A message for these processes of the site, in its place."""

    processes: tuple[str, ...]
    group: str
    message: str
    sender: str
    primitive: Primitive
    body: bytes
    call: bool = False


class DeliverView(Action, frozen=True, gc=False):
    """A new view of a group for these processes of the site, in its place; ``failed``: who went because it failed."""

    processes: tuple[str, ...]
    view: GroupView
    failed: tuple[str, ...] = ()


class Left(Action, frozen=True, gc=False):
    """A process is no member any more, because it left."""

    process: str
    group: str


class BroadcastDone(Action, frozen=True, gc=False):
    """What was asked with this token was begun (``problem`` empty), or could not be; ``message`` is its name."""

    token: int
    message: str = ""
    problem: str = ""


class FlushDone(Action, frozen=True, gc=False):
    """All of it is sent."""

    token: int


class AnswerHeard(Action, frozen=True, gc=False):
    """A reply to a call; or (``failed``) a failure reply for a process that will not reply any more."""

    token: int
    process: str
    body: bytes
    failed: bool = False


class CallOpened(Action, frozen=True, gc=False):
    """A call went to these processes; each will answer or fail. Again if it was rejected: to others."""

    token: int
    processes: tuple[str, ...]


class SiteViewChanged(Action, frozen=True, gc=False):
    """The site is operational in this view."""

    view: SiteView


class SiteDied(Action, frozen=True, gc=False):
    """The site was declared dead, and recovers as another incarnation: all its processes are gone with the old one."""

    site: str
    reason: str
