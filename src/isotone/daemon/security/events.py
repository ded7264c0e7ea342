"""What the Guard hears from above and says upwards; below it speaks the actions and events of every shell."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action, Event
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.daemon.security.keys import Roster
from isotone.evs.membership.network import Network
from isotone.evs.stack import Stack


class Outgoing(Event, frozen=True, gc=False):
    """Datagrams and streams that the daemon wants sent, opened, written and closed now, in this order."""

    actions: Sequence[Action]


class MembersChanged(Event, frozen=True, gc=False):
    """A daemon view forms or is installed here: what its ring multicasts is for these daemons only."""

    view: DaemonViewId
    members: tuple[DaemonId, ...]


class RosterChanged(Event, frozen=True, gc=False):
    """The settings were read again: who is not on the roster any more is cut off at once."""

    roster: Roster


class Pass(Action, frozen=True, gc=False):
    """Hand this event to the daemon: it is authentic."""

    event: Event


class Note(Action, frozen=True, gc=False):
    """A line for the log, at most once for each peer and reason in a while."""

    peer: str
    reason: str
    text: str


class ViewWatch:
    """Tells when the daemon's network is another one; looked at after every event of the daemon."""

    def __init__(self) -> None:
        self._seen: Network | None = None

    def look(self, stack: Stack, at: int) -> MembersChanged | None:
        """What the Guard has to hear before the actions of this event; nothing most of the time."""
        network = stack.membership.node.network
        if network is None or network is self._seen:
            return None
        self._seen = network
        return MembersChanged(at, network.id, tuple(network.view.members))
