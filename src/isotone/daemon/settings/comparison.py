"""The file against what runs: daemons that are there and not named, or the other way round. And a file against another.

The running membership rules, the file is a seed: a difference is a warning, never a reason to change anything.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from isotone.core.addresses import is_ip
from isotone.daemon.settings.mapping import daemon_address, site_name
from isotone.daemon.settings.tables import Daemon, DaemonSettings
from isotone.evs.membership import KnownDaemon

LIVE = (
    "cluster.seeds",
    "cluster.resolve_interval_ms",
    "daemon",
    "trace.level",
    "trace.retain_bytes",
    "trace.retain_hours",
    "security.revoked",
    "security.credentials_file",
    "security.anonymous",
    "security.access",
    "faults.enabled",
    "admin.log_level",
)
"""Keys that a running daemon takes over; all others need a restart, and so does what is its own in [[daemon]]."""
OTHERS = "daemon"
"""The one of them that is a table of its own."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is not the same in two files."""

    key: str
    before: object
    after: object
    needs_restart: bool

    def __str__(self) -> str:
        restart = " (needs a restart)" if self.needs_restart else ""
        return f"{self.key}: {_shown(self.before)} becomes {_shown(self.after)}{restart}"


def mismatch(settings: DaemonSettings, members: Iterable[KnownDaemon]) -> list[str]:
    """How the daemon view that works differs from the file, one line for each daemon and difference."""
    running = {member.name: member for member in members}
    lines = []
    for daemon in settings.daemon:
        member = running.get(daemon.name)
        if member is None:
            lines.append(f"{daemon.name} is in the settings and not in the daemon view")
        else:
            lines += _elsewhere(settings, daemon, member)
    named = {daemon.name for daemon in settings.daemon}
    for name, member in sorted(running.items()):
        if name not in named:
            place = f"site {member.site}, {member.address}"
            lines.append(f"{name} ({place}) is in the daemon view and not in the settings: add a [[daemon]]")
    return lines


def _elsewhere(settings: DaemonSettings, daemon: Daemon, member: KnownDaemon) -> list[str]:
    lines = []
    site, address = site_name(settings, daemon), daemon_address(daemon)
    if member.site != site:
        lines.append(f"{daemon.name} is in site {member.site}, the settings say {site}")
    if member.address and member.address != address and is_ip(daemon.address):
        lines.append(f"{daemon.name} is at {member.address}, the settings say {address}")
    return lines


def differences(before: DaemonSettings, after: DaemonSettings, name: str) -> list[Difference]:
    """What is not the same in two settings of the daemon of this name."""
    found: list[Difference] = []
    for table in before.__struct_fields__:
        old, new = getattr(before, table), getattr(after, table)
        if old == new:
            continue
        if isinstance(old, msgspec.Struct):
            for key in old.__struct_fields__:
                found += _difference(f"{table}.{key}", getattr(old, key), getattr(new, key))
        elif table == "daemon":
            found += _daemons(before, after, name)
        else:
            found += _difference(table, old, new)
    return found


def taken_over(running: DaemonSettings, wanted: DaemonSettings, name: str) -> DaemonSettings:
    """What the daemon of this name runs with once it took over what it can; the rest is as it was at its start."""
    tables: dict[str, object] = {}
    for key in LIVE:
        table, _, field = key.partition(".")
        if table != OTHERS:
            taken = {field: getattr(getattr(wanted, table), field)}
            tables[table] = msgspec.structs.replace(tables.get(table, getattr(running, table)), **taken)  # type: ignore[type-var]
    daemons = tuple(running.daemon_named(name) or each if each.name == name else each for each in wanted.daemon)
    return msgspec.structs.replace(running, daemon=daemons, **tables)


def _difference(key: str, old: object, new: object) -> list[Difference]:
    if old == new:
        return []
    return [Difference(key=key, before=old, after=new, needs_restart=key not in LIVE)]


def _daemons(before: DaemonSettings, after: DaemonSettings, name: str) -> list[Difference]:
    """Others may come, go and move at run time; what is one's own needs a restart, each key of it."""
    names = dict.fromkeys(each.name for each in (*before.daemon, *after.daemon))
    found = []
    for each in names:
        old, new = before.daemon_named(each), after.daemon_named(each)
        if each == name and old is not None and new is not None:
            for key in old.__struct_fields__:
                found += _difference(f"daemon {each}: {key}", getattr(old, key), getattr(new, key))
        elif old != new:
            found.append(Difference(key=f"daemon {each}", before=old, after=new, needs_restart=each == name))
    return found


def _shown(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        return ", ".join(
            f"{key} {each}" for key, each in msgspec.structs.asdict(value).items() if each not in ("", None)
        )
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(each) for each in value)}]"
    return "nothing" if value is None else str(value)
