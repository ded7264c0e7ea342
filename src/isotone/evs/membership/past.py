"""The last daemon view that was installed, after it ended and until the next one is: what it still owes.

``committed`` only grows from attempt to attempt, as do the units that were recovered; both begin anew with each
installed daemon view.

Implements: [Spread 6.1.10], Commit and CommitTrans. Deviations: those of `isotone.evs.ordering.recovery`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from hashlib import blake2b

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.membership.network import Network
from isotone.evs.ordering.recovery import Recovery
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind, decode_unit, encode_unit

RESENT = struct.Struct(">B8s")  # a mark that no control message begins with, digest of the daemon view that it is of
RESENT_MARK = 0x01
SESSION = "membership"


@dataclass
class Past:
    """``recovery`` is there once the daemon view ended."""

    id: DaemonViewId
    members: tuple[DaemonId, ...]
    index: int
    sites: int
    recovery: Recovery | None = None
    committed: set[int] = field(default_factory=set)

    def ended(self, network: Network) -> None:
        """Its network is closed: from now on it is recovered."""
        self.recovery = Recovery(network.transport.delivery, me=self.index, lamport=network.lamport)
        self.committed = {self.index}

    def resent(self, unit: Unit) -> Draft:
        """A unit of it, as it is sent again in a forming daemon view."""
        head, body = encode_unit(unit)
        return Draft(
            SESSION,
            UnitKind.MEMBERSHIP,
            Service.RELIABLE,
            b"".join([RESENT.pack(RESENT_MARK, self._digest), head, body]),
        )

    def take_resent(self, body: memoryview) -> bool:
        """A unit that somebody sent again; False when it is of another daemon view than this one."""
        if self.recovery is None or len(body) < RESENT.size or bytes(body[1 : RESENT.size]) != self._digest:
            return False
        unit = decode_unit(body[RESENT.size :], sites=self.sites, daemons=len(self.members))
        self.recovery.take([unit])
        return True

    @property
    def _digest(self) -> bytes:
        return blake2b(str(self.id).encode(), digest_size=8).digest()


def is_resent(body: memoryview) -> bool:
    """Whether a MEMBERSHIP unit is a unit sent again."""
    if not len(body):
        raise RemoteProtocolError("an empty unit of the membership")
    return body[0] == RESENT_MARK


def past_of(network: Network) -> Past:
    """The daemon view that is installed now."""
    view = network.view
    return Past(view.id, view.members, network.index, len(view.topology.sites))


def nowhere(me: DaemonId) -> Past:
    """Before the first daemon view: nobody else comes from there."""
    return Past(DaemonViewId(0, me), (me,), 0, 0)
