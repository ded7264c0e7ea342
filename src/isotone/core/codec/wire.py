"""What a bundle says in text and about its stamp: the section of names, and checks of both.

A section of names is one run of text with a space between names, which no name may contain: the client, its daemon,
the stamping daemon if there is a stamp, then the groups. So a section is checked by one pattern and cut by one split,
and costs the same few steps for one group and for a hundred.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

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
NAMES_CACHED_MAX = 128  # no more, so that no input makes the table grow by kilobytes at once
NAMES_BYTES_MAX = (
    (CLIENT_NAME_MAX + 1) + 2 * (DAEMON_NAME_MAX + 1) + GROUPS_MAX * (CLIENT_NAME_MAX + DAEMON_NAME_MAX + 3)
)

_CLIENT = rf"[$-~]{{1,{CLIENT_NAME_MAX}}}"
_DAEMON = rf"[$-~]{{1,{DAEMON_NAME_MAX}}}"
_GROUP = rf"(?:[$-~]{{1,{GROUP_NAME_MAX}}}|#{_CLIENT}#{_DAEMON})"
_NAMES = re.compile(f"{_CLIENT} {_DAEMON}(?: {_GROUP}){{1,{GROUPS_MAX}}}")
_STAMPED_NAMES = re.compile(f"{_CLIENT} {_DAEMON} {_DAEMON}(?: {_GROUP}){{1,{GROUPS_MAX}}}")


@lru_cache(NAMES_CACHED_MAX)
def names_section(sender: ClientId, stamper: str | None, groups: tuple[str, ...]) -> bytes:
    """The names of a bundle, checked: no wrong name ever gets onto the wire. ``stamper``: who stamped it, if anybody.

    Senders say the same names again and again, so this and its inverse are remembered: 2 us instead of 9 for both.
    """
    names = (sender.name, sender.daemon.name, *(() if stamper is None else (stamper,)), *groups)
    text = " ".join(names)
    matches = (_NAMES if stamper is None else _STAMPED_NAMES).fullmatch(text)
    if not matches or text.count(" ") != len(names) - 1:  # a space inside a name would make two of it
        raise LocalProtocolError(f"a name of {sender}, {stamper} or the groups {groups} breaks the rules for names")
    if not are_unique(groups):
        raise LocalProtocolError(f"groups are unique, not {groups}")
    return text.encode("ascii")


@lru_cache(NAMES_CACHED_MAX)
def read_names(section: bytes, stamped: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of client and daemons in a section, and the groups; what breaks the rules is the peer's fault."""
    text = str(section, "latin-1")
    if not (_STAMPED_NAMES if stamped else _NAMES).fullmatch(text):
        raise RemoteProtocolError("the names are malformed")
    names = tuple(text.split(" "))
    place = 3 if stamped else 2
    if not are_unique(names[place:]):
        raise RemoteProtocolError("the groups are not unique")
    return names[:place], names[place:]


def are_unique(groups: Sequence[str]) -> bool:
    """Whether no group is named twice; their order is the sender's."""
    return len(groups) == 1 or len(groups) == len(set(groups))


def read_stamp(lamport: int, incarnation: int, names: Sequence[str]) -> Stamp | None:
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
