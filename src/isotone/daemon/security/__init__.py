"""Who may talk to whom: the Guard between daemons, TLS, credentials and the access list for clients, the audit log.

The Guard is an automaton; keys, TLS contexts and the audit log touch files.
"""

from isotone.daemon.security.events import MembersChanged, Note, Outgoing, Pass, RosterChanged, ViewWatch
from isotone.daemon.security.guard import Guard
from isotone.daemon.security.keys import Identity, KeyPair, Roster
from isotone.daemon.security.packets import OVERHEAD_BYTES
from isotone.daemon.security.settings import GuardCounters, GuardSettings

__all__ = [
    "OVERHEAD_BYTES",
    "Guard",
    "GuardCounters",
    "GuardSettings",
    "Identity",
    "KeyPair",
    "MembersChanged",
    "Note",
    "Outgoing",
    "Pass",
    "Roster",
    "RosterChanged",
    "ViewWatch",
]
