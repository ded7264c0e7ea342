"""Clients of Spread at this daemon: programs linked with its libraries. See docs/protocols/spread-clients.md."""

from isotone.daemon.spread.actions import PauseReading, Remark, ResumeReading
from isotone.daemon.spread.gateway import SpreadGateway
from isotone.daemon.spread.settings import GatewaySettings, Oversize, SpreadCounters

__all__ = [
    "GatewaySettings",
    "Oversize",
    "PauseReading",
    "Remark",
    "ResumeReading",
    "SpreadCounters",
    "SpreadGateway",
]
