"""What a bundle says in text and about its stamp: the section of names, and checks of both.

A section of names is one run of text with a space between names, which no name may contain: the client, its daemon,
the stamping daemon if there is a stamp, then the groups. So a section is checked by one pattern and cut by one split,
and costs the same few steps for one group and for a hundred.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from isotone.core.bundles import GROUPS_MAX
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId, Stamp
from isotone.core.names import CLIENT_NAME_MAX, DAEMON_NAME_MAX, GROUP_NAME_MAX
from isotone.core.services import Service

Buffer = bytes | bytearray | memoryview

LAYOUT = 1
"""First byte of every bundle; changes when the layout does."""

ALLOCATION_FACTOR = 48
"""No decoder allocates more than this many times the size of its input, and a few kilobytes; tests measure it."""

SERVICES = tuple(Service)
NAMES_BYTES_MAX = (
    (CLIENT_NAME_MAX + 1) + 2 * (DAEMON_NAME_MAX + 1) + GROUPS_MAX * (CLIENT_NAME_MAX + DAEMON_NAME_MAX + 3)
)

_CLIENT = rf"[$-~]{{1,{CLIENT_NAME_MAX}}}"
_DAEMON = rf"[$-~]{{1,{DAEMON_NAME_MAX}}}"
_GROUP = rf"(?:[$-~]{{1,{GROUP_NAME_MAX}}}|#{_CLIENT}#{_DAEMON})"
_NAMES = re.compile(f"{_CLIENT} {_DAEMON}(?: {_GROUP}){{1,{GROUPS_MAX}}}")
_STAMPED_NAMES = re.compile(f"{_CLIENT} {_DAEMON} {_DAEMON}(?: {_GROUP}){{1,{GROUPS_MAX}}}")


def names_section(sender: ClientId, stamp: Stamp | None, groups: tuple[str, ...]) -> bytes:
    """The names of a bundle, checked: no wrong name ever gets onto the wire."""
    stamper = () if stamp is None else (stamp.daemon.name,)
    names = (sender.name, sender.daemon.name, *stamper, *groups)
    text = " ".join(names)
    matches = (_NAMES if stamp is None else _STAMPED_NAMES).fullmatch(text)
    if not matches or text.count(" ") != len(names) - 1:  # a space inside a name would make two of it
        raise LocalProtocolError(f"a name of {sender}, {stamp} or the groups {groups} breaks the rules for names")
    if not are_unique(groups):
        raise LocalProtocolError(f"groups are unique, not {groups}")
    return text.encode("ascii")


def read_names(section: memoryview, *, stamped: bool) -> list[str]:
    """The names of a section; a name that breaks the rules is the peer's fault."""
    text = str(section, "latin-1")
    if not (_STAMPED_NAMES if stamped else _NAMES).fullmatch(text):
        raise RemoteProtocolError("the names are malformed")
    return text.split(" ")


def are_unique(groups: Sequence[str]) -> bool:
    """Whether no group is named twice; their order is the sender's."""
    return len(groups) == 1 or len(groups) == len(set(groups))


def read_stamp(lamport: int, incarnation: int, names: list[str]) -> Stamp | None:
    """The stamp, or None where its time is 0, which no stamp has."""
    if lamport:
        return Stamp(lamport, DaemonId(names[2], incarnation))
    if incarnation:
        raise RemoteProtocolError("half a stamp")
    return None


def check_stamp(stamp: Stamp | None) -> None:
    """A stamp that can be told from none."""
    if stamp is not None and not 1 <= stamp.lamport <= SEQUENCE_MAX:
        raise LocalProtocolError(f"a stamp has a Lamport time from 1 to {SEQUENCE_MAX}, not {stamp.lamport}")
