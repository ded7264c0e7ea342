"""What the toolkit stands on: groups with ranks, four orders of broadcast, and private messages between processes.

One toolkit is one process. A layer is an automaton: it takes the events below and those of its shell, and returns the
actions below among actions for the shell. What it promises is in docs/protocols/toolkit.md.

Implements: [ISIS 3], as far as tools need it. Deviations: none.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from isotone.core.contract import Action, Event


class Order(Enum):
    """How a broadcast is ordered; every one is ordered against `EVENT` and against views, at all members alike."""

    UNORDERED = "unordered"
    CAUSAL = "causal"  # behind all that its sender had heard or sent, private messages too
    TOTAL = "total"  # one order for all of the same label; for all, where the layer has no labels
    EVENT = "event"  # one instant in the life of the group; by members only


# --- asked ---------------------------------------------------------------------------------------------------------


class EnterWanted(Event, frozen=True, gc=False):
    """Become a member of the group."""

    group: str


class ExitWanted(Event, frozen=True, gc=False):
    """Cease to be a member of the group; what was sent before is delivered before."""

    group: str


class CastWanted(Event, frozen=True, gc=False):
    """Broadcast to all members of a group; who is not a member may use `Order.CAUSAL` only.

    A label is refused with `LocalProtocolError` by a layer that has none.
    """

    group: str
    order: Order
    body: bytes
    label: str = ""


class TellWanted(Event, frozen=True, gc=False):
    """Send to one process, behind all that this one has heard, which survives if the message does."""

    to: str
    body: bytes


class SecureWanted(Event, frozen=True, gc=False):
    """Tell when all that this process has heard is sure to be heard by every member that lives on [ISIS 3.5]."""

    token: int


LayerAsked = EnterWanted | ExitWanted | CastWanted | TellWanted | SecureWanted


# --- heard ---------------------------------------------------------------------------------------------------------


class Operational(Action, frozen=True, gc=False):
    """The process is there under this name, and so are these sites; repeated when the sites change."""

    me: str
    sites: tuple[str, ...]


class Heard(Action, frozen=True, gc=False):
    """A broadcast of a group, in its place."""

    group: str
    sender: str
    body: bytes


class Viewed(Action, frozen=True, gc=False):
    """The members of a group by rank, from the oldest; numbers rise, also when a group ends and begins anew."""

    group: str
    number: int
    members: tuple[str, ...]


class Exited(Action, frozen=True, gc=False):
    """The process is no member any more."""

    group: str


class Told(Action, frozen=True, gc=False):
    """A private message, in its order from this sender."""

    sender: str
    body: bytes


class Secured(Action, frozen=True, gc=False):
    """It is sure."""

    token: int


class Over(Action, frozen=True, gc=False):
    """The process is at an end, as if it had crashed; the same site comes back as another."""

    reason: str


LayerHeard = Operational | Heard | Viewed | Exited | Told | Secured | Over


class Layer(Protocol):
    """An implementation."""

    periodic_timers: tuple[str, ...]
    has_labels: bool

    @property
    def trouble(self) -> str:
        """Why nothing new is agreed on now, such as too few sites; empty if nothing is in the way."""
        ...

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        ...
