"""What the transport adds to the record: its daemon view, and on request everything that the reliable network does.

A message of the network is a reliable unit, known by its sender and its site sequence. Where units may be pruned, it is
the unit's place and service alone, which reach everybody with the content or without it: 2.22 speaks of all servers,
and content is owed to some only. That these get it is judged where they deliver it.
Implements: [Spread 2.2.6, 2.2.7], ninit, nmcast, nreceive and linkfailed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from isotone.core.contract import Action, Record
from isotone.core.services import Service
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.transport.view import TransportView
from isotone.trace.boundary import message_digest
from isotone.trace.events import (
    DaemonDelivered,
    DaemonSent,
    DaemonViewDelivered,
    LinkFailed,
    NetworkReceived,
    NetworkSent,
    NetworkStarted,
)

_PLACE = struct.Struct(">QQ")


class NetworkRecord:
    """One daemon's entries."""

    def __init__(
        self,
        view: TransportView,
        me: str,
        *,
        enabled: bool,
        pruning: bool = False,
        under_membership: bool = False,
        units: bool = True,
    ) -> None:
        self._view = view.id
        self._names = tuple(str(member) for member in view.members)
        self._me = self._names[view.index_of(me)]
        self._network = str(view.id)
        self._enabled = enabled
        self._pruning = pruning
        self._under_membership = under_membership
        self._units = units

    def started(self) -> list[Action]:
        """The view is installed; whoever starts in it comes from nowhere."""
        network = [Record(NetworkStarted(self._me, self._network, self._names))] if self._enabled else []
        if self._under_membership:
            return [*network]  # the membership installs it, if it comes to that
        return [*network, Record(DaemonViewDelivered(self._me, self._view, self._names, (self._me,)))]

    def sent(self, units: Sequence[Unit]) -> list[Action]:
        """Units were stamped here; they are received here too."""
        out = self.stamped(units)
        for unit in self._reliable(units):
            digest = self._digest(unit)
            out.append(Record(NetworkSent(self._me, self._network, unit.sequence, digest)))
            out.append(Record(NetworkReceived(self._me, self._network, self._me, unit.sequence, digest)))
        return out

    def stamped(self, units: Sequence[Unit]) -> list[Action]:
        """Units were stamped here: EVS-S, but for what the membership says to itself."""
        if not (self._under_membership and self._units):
            return []
        return [Record(sent_entry(unit, self._me)) for unit in units if unit.kind is not UnitKind.MEMBERSHIP]

    def received(self, units: Sequence[Unit]) -> list[Action]:
        """Units came."""
        return [
            Record(
                NetworkReceived(
                    self._me,
                    self._network,
                    self._names[unit.daemon],
                    unit.sequence,
                    self._digest(unit),
                )
            )
            for unit in self._reliable(units)
        ]

    def failed(self, link: str, reason: str) -> list[Action]:
        """A link failed: nothing of the network follows at this daemon."""
        return [Record(LinkFailed(self._me, self._network, link, reason))]

    def _reliable(self, units: Sequence[Unit]) -> list[Unit]:
        if not self._enabled:
            return []
        return [unit for unit in units if unit.service is not Service.UNRELIABLE]

    def _digest(self, unit: Unit) -> int:
        body = _PLACE.pack(unit.sequence, unit.lamport) if self._pruning else unit.body
        return message_digest(unit.service, body)


# --- EVS-S ---------------------------------------------------------------------------------------------------------
# A unit is one message there, numbered by its time. Sites that do not need its content deliver its place only, so what
# is recorded of it must not depend on the content; that is judged where clients hear it. FIFO and CAUSAL follow the
# session that sends, and a daemon has many: what they owe is judged at EVS-C, session by session, and here they are
# recorded as RELIABLE, whose promises they keep to the daemon as a whole.


def sent_entry(unit: Unit, sender: str) -> DaemonSent:
    """A unit as its daemon sends it."""
    return DaemonSent(sender, unit.lamport, _kept(unit.service), (0,), (_digest(unit, sender),))


def delivered_entry(unit: Unit, daemon: str, sender: str) -> DaemonDelivered:
    """A unit as a daemon delivers it."""
    digests = (_digest(unit, sender),)
    return DaemonDelivered(daemon, sender, unit.lamport, _kept(unit.service), (0,), digests, unit.lamport, sender)


def _kept(service: Service) -> Service:
    return Service.RELIABLE if service in (Service.FIFO, Service.CAUSAL) else service


def _digest(unit: Unit, sender: str) -> int:
    return message_digest(unit.service, f"{sender} {unit.lamport}".encode())
