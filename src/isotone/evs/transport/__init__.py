"""Links, overlay and ordering of one daemon in one stable daemon view: boundary B3 without membership changes."""

from isotone.evs.transport.events import DeliverUnits, Submitted
from isotone.evs.transport.settings import TransportSettings
from isotone.evs.transport.transport import Transport
from isotone.evs.transport.view import TransportView

__all__ = ["DeliverUnits", "Submitted", "Transport", "TransportSettings", "TransportView"]
