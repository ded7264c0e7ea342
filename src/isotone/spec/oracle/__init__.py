"""The executable specification of boundary B4: see `isotone.spec.oracle.oracle` and ``docs/protocols/oracle.md``."""

from isotone.spec.oracle.events import (
    ConnectivityChanged,
    DaemonCrashed,
    DaemonPaused,
    DaemonResumed,
    DaemonStarted,
    Stabilised,
)
from isotone.spec.oracle.oracle import Oracle
from isotone.spec.oracle.settings import CHOICES, OracleSettings

__all__ = [
    "CHOICES",
    "ConnectivityChanged",
    "DaemonCrashed",
    "DaemonPaused",
    "DaemonResumed",
    "DaemonStarted",
    "Oracle",
    "OracleSettings",
    "Stabilised",
]
