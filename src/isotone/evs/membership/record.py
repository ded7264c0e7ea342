"""What the membership adds to the record: daemon views, signals and deliveries. Implements: [Spread 2.2.6]."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action, Record
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.views import DaemonView
from isotone.evs.ordering.units import Unit
from isotone.evs.transport.record import delivered_entry
from isotone.trace.events import DaemonSignalDelivered, DaemonViewDelivered


class DaemonRecord:
    """One daemon's entries of EVS-S; what it sends is recorded where it is stamped."""

    def __init__(self, me: DaemonId, *, enabled: bool, units: bool) -> None:
        self._me = str(me)
        self._enabled, self._units = enabled, enabled and units

    def view(self, view: DaemonView) -> list[Action]:
        """A daemon view is installed."""
        members = tuple(map(str, view.members))
        transitional = tuple(map(str, view.transitional))
        return self._record(DaemonViewDelivered(self._me, view.id, members, transitional))

    def signal(self, view: DaemonViewId) -> list[Action]:
        """The signal of a daemon view."""
        return self._record(DaemonSignalDelivered(self._me, view))

    def delivered(self, units: Sequence[Unit], members: Sequence[DaemonId]) -> list[Action]:
        """Units of the daemon view with these members."""
        if not self._units:
            return []
        return [Record(delivered_entry(unit, self._me, str(members[unit.daemon]))) for unit in units]

    def _record(self, entry: DaemonViewDelivered | DaemonSignalDelivered) -> list[Action]:
        return [Record(entry)] if self._enabled else []
