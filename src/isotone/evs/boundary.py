"""Boundary B3 as types: what the membership tells the layer above it. Implements: [Spread 2.2.6], EVS-S.

Downwards the layer above submits drafts (`Submitted`) and looks at ``room`` first.
Upwards it hears, in one stream: units of the current daemon view (`DeliverUnits`); one `DeliverSignal`; the units that
the daemons of its transitional set deliver together; the next `DeliverDaemonView`.
"""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.views import DaemonView
from isotone.evs.overlay.topology import Topology
from isotone.evs.transport.events import DeliverUnits, Submitted

__all__ = ["DeliverDaemonView", "DeliverSignal", "DeliverUnits", "Submitted"]


class DeliverDaemonView(Action, frozen=True, gc=False):
    """A daemon view is installed; everything is delivered in it until the next one.

    ``topology`` holds its sites; ``version`` is the protocol version that all its members speak; ``lamport`` is above
    every stamp that any member has seen.
    """

    view: DaemonView
    topology: Topology
    version: int
    lamport: int


class DeliverSignal(Action, frozen=True, gc=False):
    """The transitional signal: what follows is promised only among ``transitional``, who move on to ``following``."""

    view: DaemonViewId
    following: DaemonViewId
    transitional: tuple[DaemonId, ...]
