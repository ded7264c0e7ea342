"""What the transport adds to the record: its daemon view, and on request everything that the reliable network does.

A message of the network is a reliable unit, known by its sender and its site sequence.
Implements: [Spread 2.2.6, 2.2.7], ninit, nmcast, nreceive and linkfailed.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import Action, Record
from isotone.core.services import Service
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport.view import TransportView
from isotone.trace.boundary import message_digest
from isotone.trace.events import DaemonViewDelivered, LinkFailed, NetworkReceived, NetworkSent, NetworkStarted


class NetworkRecord:
    """One daemon's entries."""

    def __init__(self, view: TransportView, me: str, *, enabled: bool) -> None:
        self._view = view.id
        self._names = tuple(str(member) for member in view.members)
        self._me = self._names[view.index_of(me)]
        self._network = str(view.id)
        self._enabled = enabled

    def started(self) -> list[Action]:
        """The view is installed; whoever starts in it comes from nowhere."""
        network = [Record(NetworkStarted(self._me, self._network, self._names))] if self._enabled else []
        return [*network, Record(DaemonViewDelivered(self._me, self._view, self._names, (self._me,)))]

    def sent(self, units: Sequence[Unit]) -> list[Action]:
        """Units were stamped here; they are received here too."""
        out: list[Action] = []
        for unit in self._reliable(units):
            digest = message_digest(unit.service, unit.body)
            out.append(Record(NetworkSent(self._me, self._network, unit.sequence, digest)))
            out.append(Record(NetworkReceived(self._me, self._network, self._me, unit.sequence, digest)))
        return out

    def received(self, units: Sequence[Unit]) -> list[Action]:
        """Units came."""
        return [
            Record(
                NetworkReceived(
                    self._me,
                    self._network,
                    self._names[unit.daemon],
                    unit.sequence,
                    message_digest(unit.service, unit.body),
                )
            )
            for unit in self._reliable(units)
        ]

    def failed(self, link: str, reason: str) -> list[Action]:
        """A link failed: nothing of the network follows at this daemon."""
        return [Record(LinkFailed(self._me, self._network, link, reason))]

    def _reliable(self, units: Sequence[Unit]) -> list[Unit]:
        """Metadata of pruned units is none: with pruning the network does not promise content to all."""
        if not self._enabled:
            return []
        return [unit for unit in units if unit.service is not Service.UNRELIABLE and unit.kind is not UnitKind.PRUNED]
