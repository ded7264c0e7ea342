"""Rules for names: 1 to 64 bytes of 0x24 to 0x7E.

Implements: [Spread 3.5], the characters of a name. Deviations: D-long names may be longer than Spread's; its clients
are told them in a short form (`isotone.daemon.spread.short_names`).
"""

from __future__ import annotations

from isotone.core.errors import LocalProtocolError

CLIENT_NAME_MAX = 64
DAEMON_NAME_MAX = 64
GROUP_NAME_MAX = 64
PRIVATE_GROUP_MAX = 2 + CLIENT_NAME_MAX + DAEMON_NAME_MAX
PRIVATE_GROUP_MARK = "#"
LOG_GROUP_PREFIX = "$log/"
"""In groups of such names the servers of replicated logs meet; a daemon lets only servers in."""
LOG_NAME_MAX = GROUP_NAME_MAX - len(LOG_GROUP_PREFIX)


def check_client_name(name: str) -> str:
    """Return the name, or say what is wrong with it."""
    return _check(name, "client name", CLIENT_NAME_MAX)


def check_daemon_name(name: str) -> str:
    """Return the name, or say what is wrong with it."""
    return _check(name, "daemon name", DAEMON_NAME_MAX)


def check_group_name(name: str) -> str:
    """Return the name, or say what is wrong with it. Private groups (``#name#daemon``) pass by their parts."""
    if not name.startswith(PRIVATE_GROUP_MARK):
        return _check(name, "group name", GROUP_NAME_MAX)
    parts = name.split(PRIVATE_GROUP_MARK)
    if len(parts) != 3:
        raise LocalProtocolError(f"a private group is written #client#daemon, not {name!r}")
    _check(parts[1], "client name", CLIENT_NAME_MAX)
    _check(parts[2], "daemon name", DAEMON_NAME_MAX)
    return name


def is_private_group(name: str) -> bool:
    """Whether the name addresses one client and not a group that can be joined."""
    return name.startswith(PRIVATE_GROUP_MARK)


def check_log_name(name: str) -> str:
    """Return the name of a replicated log, or say what is wrong with it: its group's name is longer."""
    return _check(name, "name of a log", LOG_NAME_MAX)


def is_log_group(name: str) -> bool:
    """Whether the servers of a replicated log meet there."""
    return name.startswith(LOG_GROUP_PREFIX)


def _check(name: str, what: str, length_max: int) -> str:
    if not 1 <= len(name) <= length_max:
        raise LocalProtocolError(f"a {what} has 1 to {length_max} characters, {name!r} has {len(name)}")
    for character in name:
        if not "\x24" <= character <= "\x7e":
            raise LocalProtocolError(f"{what} {name!r}: {character!r} is not allowed (only $ to ~, no space, no #)")
    return name
