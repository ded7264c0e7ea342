"""In what the two boundaries differ: which services the sane view clauses cover, and under which ids.

Implements: [Spread 2.2.4], [Spread 2.2.5]. Deviations: D-cut, see `isotone.spec.properties`.
"""

from __future__ import annotations

from typing import NamedTuple

from isotone.core.services import Service
from isotone.spec.properties import Boundary


class Rules(NamedTuple):
    """The parameters of the checker of one boundary."""

    boundary: Boundary
    sane_from: Service
    """From this service on, nothing is delivered in a view before that of the send."""
    sane: str
    """The id of: not delivered in a view before that of the send."""
    sane_return: str
    """The id of: not delivered in or after the view in which the sender came back."""

    @property
    def daemons(self) -> bool:
        """Whether the processes are daemons."""
        return self.boundary is Boundary.DAEMONS


CLIENTS = Rules(Boundary.CLIENTS, Service.AGREED, "2.9.1", "2.9.2")
DAEMONS = Rules(Boundary.DAEMONS, Service.RELIABLE, "2.19.1", "2.19.2")
